#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// Call body(offset, stride, extent) for every line along the axis of the call.
template <class Body>
void each_line(const OpCall& call, Body body) {
  const Shape& shape = call.inputs[0].shape;
  const int axis = normal_axis(call.attrs.integer("axis"), shape.size(), call.name);
  const int64_t stride = numel(Shape(shape.begin() + axis + 1, shape.end()));
  const int64_t outer = numel(Shape(shape.begin(), shape.begin() + axis));
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < stride; ++j) body(i * shape[axis] * stride + j, stride, shape[axis]);
}

template <bool log>
struct Softmax {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    each_line(call, [&](int64_t offset, int64_t stride, int64_t extent) {
      const T* x = args.input<T>(0) + offset;
      T* y = args.output<T>(0) + offset;
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < extent; ++k) largest = std::max<double>(largest, x[k * stride]);
      for (int64_t k = 0; k < extent; ++k) sum += std::exp(x[k * stride] - largest);
      for (int64_t k = 0; k < extent; ++k) {
        const double shifted = x[k * stride] - largest;
        y[k * stride] = static_cast<T>(log ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    });
  }
};

template <bool log>
struct SoftmaxGrad {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    each_line(call, [&](int64_t offset, int64_t stride, int64_t extent) {
      const T *dy = args.input<T>(0) + offset, *y = args.input<T>(1) + offset;
      double sum = 0;
      for (int64_t k = 0; k < extent; ++k)
        sum += log ? dy[k * stride] : static_cast<double>(dy[k * stride]) * y[k * stride];
      for (int64_t k = 0; k < extent; ++k) {
        const double d = dy[k * stride], at = y[k * stride];
        args.output<T>(0)[offset + k * stride] = static_cast<T>(log ? d - std::exp(at) * sum : at * (d - sum));
      }
    });
  }
};

std::vector<KernelDef> softmax_kernels() {
  return {float_kernel("softmax", Softmax<false>{}), float_kernel("log_softmax", Softmax<true>{}),
          float_kernel("softmax_grad", SoftmaxGrad<false>{}), float_kernel("log_softmax_grad", SoftmaxGrad<true>{})};
}

REGISTER_KERNELS(softmax_kernels);

}  // namespace
}  // namespace ff::reference
