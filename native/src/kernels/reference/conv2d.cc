#include "graph/window.h"
#include "kernels/box.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// x (N, C, H, W), kernel (O, C / groups, R, S), y (N, O, P, Q); all of them local, so that the number of groups follows
// from the shapes.
class Convolution {
 public:
  Convolution(const Windows& windows, const Shape& x, const Shape& kernel, const Shape& y)
      : windows_(windows), x_(x), kernel_(kernel), y_(y) {}

  // Call body(x index, kernel index, y index) for every product of the convolution.
  template <class Body>
  void each_product(Body body) const {
    for (int64_t n = 0; n < y_[0]; ++n)
      for (int64_t o = 0; o < y_[1]; ++o)
        for (int64_t p = 0; p < y_[2]; ++p)
          for (int64_t q = 0; q < y_[3]; ++q) each_of_window(n, o, p, q, body);
  }

 private:
  template <class Body>
  void each_of_window(int64_t n, int64_t o, int64_t p, int64_t q, Body body) const {
    const int64_t groups = x_[1] / kernel_[1];
    const int64_t first_channel = o / (y_[1] / groups) * kernel_[1];
    const int64_t y_index = ((n * y_[1] + o) * y_[2] + p) * y_[3] + q;
    for (int64_t c = 0; c < kernel_[1]; ++c)
      for (int64_t r = 0; r < kernel_[2]; ++r)
        for (int64_t s = 0; s < kernel_[3]; ++s) {
          const int64_t h = p * windows_[0].stride - windows_[0].before + r * windows_[0].dilation;
          const int64_t w = q * windows_[1].stride - windows_[1].before + s * windows_[1].dilation;
          if (h < 0 || h >= x_[2] || w < 0 || w >= x_[3]) continue;
          body(((n * x_[1] + first_channel + c) * x_[2] + h) * x_[3] + w,
               ((o * kernel_[1] + c) * kernel_[2] + r) * kernel_[3] + s, y_index);
        }
  }

  Windows windows_;
  const Shape &x_, &kernel_, &y_;
};

struct Conv2d {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Shape &x_shape = call.inputs[0].shape, &y_shape = call.outputs[0].shape;
    const T *x = args.input<T>(0), *kernel = args.input<T>(1);
    const T* bias = call.inputs.size() == 3 && origin_of(call, "c") == 0 ? args.input<T>(2) : nullptr;
    std::vector<double> sums(call.outputs[0].numel());
    const int64_t positions = y_shape[2] * y_shape[3];
    for (size_t k = 0; k < sums.size(); ++k)
      sums[k] = bias != nullptr ? bias[static_cast<int64_t>(k) / positions % y_shape[1]] : 0;
    const Convolution convolution(part_by_outputs(call, x_shape, y_shape), x_shape, call.inputs[1].shape, y_shape);
    convolution.each_product(
        [&](int64_t xi, int64_t ki, int64_t yi) { sums[yi] += static_cast<double>(x[xi]) * kernel[ki]; });
    const std::string& activation = call.attrs.text("activation");
    for (size_t k = 0; k < sums.size(); ++k) args.output<T>(0)[k] = static_cast<T>(activate(activation, sums[k]));
  }
};

struct Conv2dGradInput {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Shape &dx_shape = call.outputs[0].shape, &dy_shape = call.inputs[0].shape;
    const T *dy = args.input<T>(0), *kernel = args.input<T>(1);
    std::vector<double> sums(call.outputs[0].numel());
    const Convolution convolution(part_by_inputs(call, dx_shape, dy_shape), dx_shape, call.inputs[1].shape, dy_shape);
    convolution.each_product(
        [&](int64_t xi, int64_t ki, int64_t yi) { sums[xi] += static_cast<double>(dy[yi]) * kernel[ki]; });
    for (size_t k = 0; k < sums.size(); ++k) args.output<T>(0)[k] = static_cast<T>(sums[k]);
  }
};

struct Conv2dGradWeight {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Shape &x_shape = call.inputs[0].shape, &dy_shape = call.inputs[1].shape;
    const T *x = args.input<T>(0), *dy = args.input<T>(1);
    std::vector<double> sums(call.outputs[0].numel());
    const Convolution convolution(part_by_outputs(call, x_shape, dy_shape), x_shape, call.outputs[0].shape, dy_shape);
    convolution.each_product(
        [&](int64_t xi, int64_t ki, int64_t yi) { sums[ki] += static_cast<double>(x[xi]) * dy[yi]; });
    for (size_t k = 0; k < sums.size(); ++k) args.output<T>(0)[k] = static_cast<T>(sums[k]);
    if (call.outputs.size() < 2) return;
    const int64_t positions = dy_shape[2] * dy_shape[3];
    std::vector<double> bias(dy_shape[1]);
    for (int64_t k = 0; k < call.inputs[1].numel(); ++k) bias[k / positions % dy_shape[1]] += dy[k];
    for (size_t o = 0; o < bias.size(); ++o) args.output<T>(1)[o] = static_cast<T>(bias[o]);
  }
};

std::vector<KernelDef> conv2d_kernels() {
  return {float_kernel("conv2d", Conv2d{}), float_kernel("conv2d_grad_input", Conv2dGradInput{}),
          float_kernel("conv2d_grad_weight", Conv2dGradWeight{})};
}

REGISTER_KERNELS(conv2d_kernels);

}  // namespace
}  // namespace ff::reference
