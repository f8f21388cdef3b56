// Elementwise functions of two inputs, broadcast as NumPy does.
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"
#include "kernels/walk.h"

namespace ff::reference {
namespace {

constexpr int64_t kGrain = 4096;

template <class F>
KernelDef binary(const std::string& op, F f) {
  const auto bind = [f](const BindContext& context) {
    const Shape& shape = context.call.outputs[0].shape;
    const Walk<3> walk(shape, {dense_strides(shape), broadcast_strides(context.call.inputs[0].shape, shape),
                               broadcast_strides(context.call.inputs[1].shape, shape)});
    return dispatch_number(context.call.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      return make_kernel([f, walk](const RunArgs& args) {
        walk.run(kGrain, [&, step = walk.stride()](const auto& offset, int64_t n) {
          T* y = args.output<T>(0) + offset[0];
          const T *a = args.input<T>(0) + offset[1], *b = args.input<T>(1) + offset[2];
          for (int64_t i = 0; i < n; ++i) y[i] = f(a[i * step[1]], b[i * step[2]]);
        });
      });
    });
  };
  return define(op, bind, number_output);
}

// wins(a, b): does the gradient go to a?
template <class F>
KernelDef extremum_grad(const std::string& op, F wins) {
  const auto bind = [wins](const BindContext& context) {
    const Shape& shape = context.call.outputs[0].shape;
    const Walk<3> walk(shape, {dense_strides(shape), broadcast_strides(context.call.inputs[1].shape, shape),
                               broadcast_strides(context.call.inputs[2].shape, shape)});
    return dispatch_float(context.call.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      return make_kernel([wins, walk](const RunArgs& args) {
        walk.run(kGrain, [&, step = walk.stride()](const auto& offset, int64_t n) {
          const T* dy = args.input<T>(0) + offset[0];
          const T *a = args.input<T>(1) + offset[1], *b = args.input<T>(2) + offset[2];
          for (int k = 0; k < 2; ++k) {
            if (args.out[k] == nullptr) continue;  // nobody reads it
            T* gradient = args.output<T>(k) + offset[0];
            for (int64_t i = 0; i < n; ++i) {
              const T x = a[i * step[1]], y = b[i * step[2]];
              gradient[i] = x == y ? dy[i] / 2 : wins(x, y) == (k == 0) ? dy[i] : 0;
            }
          }
        });
      });
    });
  };
  return define(op, bind, float_output);
}

std::vector<KernelDef> binary_kernels() {
  return {
      binary("add", [](auto a, auto b) { return a + b; }),
      binary("subtract", [](auto a, auto b) { return a - b; }),
      binary("multiply", [](auto a, auto b) { return a * b; }),
      binary("divide", [](auto a, auto b) { return a / b; }),
      // a != a: a NaN wins, on either side.
      binary("maximum", [](auto a, auto b) { return a > b || a != a ? a : b; }),
      binary("minimum", [](auto a, auto b) { return a < b || a != a ? a : b; }),
      extremum_grad("maximum_grad", [](auto a, auto b) { return a > b; }),
      extremum_grad("minimum_grad", [](auto a, auto b) { return a < b; }),
  };
}
REGISTER_KERNELS(binary_kernels);

}  // namespace
}  // namespace ff::reference
