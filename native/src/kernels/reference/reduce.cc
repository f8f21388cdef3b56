#include <limits>
#include <type_traits>

#include "kernels/reduce.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// Sums are taken in the widest type of their kind.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

// Call body(output, its first element in x) for every output.
template <class F>
void for_outputs(const Reduction& reduction, F&& body) {
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(reduction.elements.total(), 1));
  reduction.outputs.run(grain, [&, step = reduction.outputs.stride()](const auto& offset, int64_t n) {
    for (int64_t i = 0; i < n; ++i) body(offset[0] + i * step[0], offset[1] + i * step[1]);
  });
}

// Call body(offset from the first) for every element of an output.
template <class F>
void for_elements(const Reduction& reduction, F&& body) {
  const auto& walk = reduction.elements;
  walk.range(0, walk.total(), [&, step = walk.stride()[0]](const auto& offset, int64_t n) {
    for (int64_t i = 0; i < n; ++i) body(offset[0] + i * step);
  });
}

KernelDef sum(const std::string& op, bool mean) {
  const auto bind = [mean](const BindContext& context) {
    const Reduction reduction(context.call, context.call.inputs[0]);
    const double count = mean ? reduced_count(context.call) : 1;
    return dispatch_number(context.call.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      return make_kernel([reduction, divisor = static_cast<Wide<T>>(count)](const RunArgs& args) {
        for_outputs(reduction, [&](int64_t output, int64_t first) {
          Wide<T> total = 0;
          for_elements(reduction, [&](int64_t at) { total += args.input<T>(0)[first + at]; });
          args.output<T>(0)[output] = static_cast<T>(total / divisor);
        });
      });
    });
  };
  return define(op, bind, number_output);
}

// wins(a, b): does a beat b? `worst` gives the number that everything beats.
template <class Wins, class Worst>
KernelDef extremum(const std::string& op, Wins wins, Worst worst) {
  const auto bind = [=](const BindContext& context) {
    const Reduction reduction(context.call, context.call.inputs[0]);
    return dispatch_number(context.call.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      return make_kernel([wins, reduction, first_best = worst(zero)](const RunArgs& args) {
        for_outputs(reduction, [&](int64_t output, int64_t first) {
          T best = first_best;
          for_elements(reduction, [&](int64_t at) {
            const T x = args.input<T>(0)[first + at];
            if (wins(x, best) || x != x) best = x;
          });
          args.output<T>(0)[output] = best;
        });
      });
    });
  };
  return define(op, bind, number_output);
}

std::unique_ptr<Kernel> bind_extremum_grad(const BindContext& context) {
  const Reduction reduction(context.call, context.call.inputs[1]);
  return dispatch_float(context.call.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return make_kernel([reduction](const RunArgs& args) {
      const T *dy = args.input<T>(0), *x = args.input<T>(1), *y = args.input<T>(2);
      T* dx = args.output<T>(0);
      for_outputs(reduction, [&](int64_t output, int64_t first) {
        int64_t ties = 0;
        for_elements(reduction, [&](int64_t at) { ties += x[first + at] == y[output]; });
        const T share = dy[output] / static_cast<T>(std::max<int64_t>(ties, 1));
        for_elements(reduction, [&](int64_t at) { dx[first + at] = x[first + at] == y[output] ? share : 0; });
      });
    });
  });
}

template <class T>
T lowest(T) {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

template <class T>
T highest(T) {
  return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
}

std::vector<KernelDef> reduce_kernels() {
  return {sum("reduce_sum", false),
          sum("reduce_mean", true),
          extremum(
              "reduce_max", [](auto a, auto b) { return a > b; }, [](auto zero) { return lowest(zero); }),
          extremum(
              "reduce_min", [](auto a, auto b) { return a < b; }, [](auto zero) { return highest(zero); }),
          define("reduce_max_grad", bind_extremum_grad, float_output),
          define("reduce_min_grad", bind_extremum_grad, float_output)};
}
REGISTER_KERNELS(reduce_kernels);

}  // namespace
}  // namespace ff::reference
