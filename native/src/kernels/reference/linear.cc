#include "kernels/box.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// x is (rows, in), y is (rows, out), the kernel is (out, in).
struct Sizes {
  int64_t rows, in, out;
};

int64_t rows_of(const TensorType& type) { return numel(Shape(type.shape.begin(), type.shape.end() - 1)); }

struct Linear {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Sizes n{rows_of(call.inputs[0]), call.inputs[0].dim(-1), call.outputs[0].dim(-1)};
    const T *x = args.input<T>(0), *kernel = args.input<T>(1);
    const T* bias = call.inputs.size() == 3 && origin_of(call, "i") == 0 ? args.input<T>(2) : nullptr;
    const std::string& activation = call.attrs.text("activation");
    T* y = args.output<T>(0);
    for (int64_t row = 0; row < n.rows; ++row)
      for (int64_t o = 0; o < n.out; ++o) {
        double sum = bias != nullptr ? bias[o] : 0;
        for (int64_t i = 0; i < n.in; ++i) sum += static_cast<double>(x[row * n.in + i]) * kernel[o * n.in + i];
        y[row * n.out + o] = static_cast<T>(activate(activation, sum));
      }
  }
};

struct LinearGradInput {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Sizes n{rows_of(call.inputs[0]), call.outputs[0].dim(-1), call.inputs[0].dim(-1)};
    const T *dy = args.input<T>(0), *kernel = args.input<T>(1);
    T* dx = args.output<T>(0);
    for (int64_t row = 0; row < n.rows; ++row)
      for (int64_t i = 0; i < n.in; ++i) {
        double sum = 0;
        for (int64_t o = 0; o < n.out; ++o) sum += static_cast<double>(dy[row * n.out + o]) * kernel[o * n.in + i];
        dx[row * n.in + i] = static_cast<T>(sum);
      }
  }
};

struct LinearGradWeight {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Sizes n{rows_of(call.inputs[0]), call.inputs[0].dim(-1), call.inputs[1].dim(-1)};
    const T *x = args.input<T>(0), *dy = args.input<T>(1);
    for (int64_t o = 0; o < n.out; ++o)
      for (int64_t i = 0; i < n.in; ++i) {
        double sum = 0;
        for (int64_t row = 0; row < n.rows; ++row) sum += static_cast<double>(x[row * n.in + i]) * dy[row * n.out + o];
        args.output<T>(0)[o * n.in + i] = static_cast<T>(sum);
      }
    if (call.outputs.size() < 2) return;
    for (int64_t o = 0; o < n.out; ++o) {
      double sum = 0;
      for (int64_t row = 0; row < n.rows; ++row) sum += dy[row * n.out + o];
      args.output<T>(1)[o] = static_cast<T>(sum);
    }
  }
};

std::vector<KernelDef> linear_kernels() {
  return {float_kernel("linear", Linear{}), float_kernel("linear_grad_input", LinearGradInput{}),
          float_kernel("linear_grad_weight", LinearGradWeight{})};
}

REGISTER_KERNELS(linear_kernels);

}  // namespace
}  // namespace ff::reference
