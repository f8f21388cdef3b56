#include <algorithm>

#include "graph/window.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// The inputs of one window, clipped to the image, and by how much a mean divides.
struct View {
  int64_t h0, h1, w0, w1;
  int64_t divisor;
};

// Padding that a mean counts ends where the op's own padding does, even for a window that hangs over.
View view_of(const OpCall& call, const Windows& windows, const Windows& padding, const Shape& x, int64_t p, int64_t q) {
  std::array<int64_t, 2> begin, end;
  int64_t padded = 1;
  for (size_t axis = 0; axis < 2; ++axis) {
    const Window& window = windows[axis];
    const int64_t in = x[axis + 2];
    const int64_t start = (axis == 0 ? p : q) * window.stride - window.before;
    begin[axis] = std::max<int64_t>(start, 0);
    end[axis] = std::min(start + window.kernel, in);
    const bool overhang = call.attrs.flag("ceil_mode");
    padded *= overhang ? std::min(start + window.kernel, in + padding[axis].after) - start : window.kernel;
  }
  const int64_t inside = (end[0] - begin[0]) * (end[1] - begin[1]);
  return {begin[0], end[0], begin[1], end[1], call.attrs.flag("count_include_pad") ? padded : inside};
}

// Call body(image offset into x, y index, view) for every window.
template <class Body>
void each_window(const OpCall& call, const Windows& windows, const Shape& x, const Shape& y, Body body) {
  const Windows padding = windows_of(call.attrs, x[2], x[3]);
  for (int64_t image = 0; image < y[0] * y[1]; ++image)
    for (int64_t p = 0; p < y[2]; ++p)
      for (int64_t q = 0; q < y[3]; ++q)
        body(image * x[2] * x[3], (image * y[2] + p) * y[3] + q, view_of(call, windows, padding, x, p, q));
}

bool is_max(const OpCall& call) { return call.attrs.text("pool_type") == "max"; }

// The workspace of a maximum holds, per output, where in its image it was found; the first of equal ones.
struct Pool2d {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Shape &x_shape = call.inputs[0].shape, &y_shape = call.outputs[0].shape;
    const T* x = args.input<T>(0);
    T* y = args.output<T>(0);
    int32_t* found = call.outputs.size() == 2 ? args.output<int32_t>(1) : nullptr;
    const bool max = is_max(call);
    each_window(call, part_by_outputs(call, x_shape, y_shape), x_shape, y_shape,
                [&](int64_t image, int64_t yi, const View& view) {
                  int64_t best = view.h0 * x_shape[3] + view.w0;
                  double sum = 0;
                  for (int64_t h = view.h0; h < view.h1; ++h)
                    for (int64_t w = view.w0; w < view.w1; ++w) {
                      const int64_t at = h * x_shape[3] + w;
                      sum += x[image + at];
                      if (x[image + at] > x[image + best] || x[image + at] != x[image + at]) best = at;
                    }
                  y[yi] = max ? x[image + best] : static_cast<T>(sum / static_cast<double>(view.divisor));
                  if (found != nullptr) found[yi] = static_cast<int32_t>(best);
                });
  }
};

struct Pool2dGrad {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Shape &dx_shape = call.outputs[0].shape, &dy_shape = call.inputs[0].shape;
    const T* dy = args.input<T>(0);
    T* dx = args.output<T>(0);
    std::fill_n(dx, call.outputs[0].numel(), T{0});
    const int32_t* found = is_max(call) ? args.input<int32_t>(1) : nullptr;
    each_window(call, part_by_inputs(call, dx_shape, dy_shape), dx_shape, dy_shape,
                [&](int64_t image, int64_t yi, const View& view) {
                  if (found != nullptr) {
                    dx[image + found[yi]] += dy[yi];
                    return;
                  }
                  const T share = dy[yi] / static_cast<T>(view.divisor);
                  for (int64_t h = view.h0; h < view.h1; ++h)
                    for (int64_t w = view.w0; w < view.w1; ++w) dx[image + h * dx_shape[3] + w] += share;
                });
  }
};

std::vector<KernelDef> pool2d_kernels() {
  KernelDef forward = float_kernel("pool2d", Pool2d{});
  forward.residual = [](const OpCall& call, int) {
    return sizeof(int32_t) * static_cast<size_t>(call.outputs[0].numel());
  };
  return {forward, float_kernel("pool2d_grad", Pool2dGrad{})};
}

REGISTER_KERNELS(pool2d_kernels);

}  // namespace
}  // namespace ff::reference
