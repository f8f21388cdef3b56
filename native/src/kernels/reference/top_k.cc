#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// Does x[a] stand before x[b]: an order in which no two elements are equal.
template <class T>
bool before(const T* x, int32_t a, int32_t b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(x[a]) != std::isnan(x[b])) return std::isnan(x[a]);
  return x[a] > x[b] || (!(x[a] < x[b]) && a < b);
}

template <class T>
void choose(const T* x, int64_t n, int64_t k, bool sorted, std::vector<int32_t>& order, T* values, int32_t* indices) {
  order.resize(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto middle = order.begin() + k;
  std::partial_sort(order.begin(), middle, order.end(), [x](int32_t a, int32_t b) { return before(x, a, b); });
  if (!sorted) std::sort(order.begin(), middle);
  std::copy(order.begin(), middle, indices);
  for (int64_t i = 0; i < k; ++i) values[i] = x[indices[i]];
}

std::unique_ptr<Kernel> bind(const BindContext& context) {
  const int64_t n = context.call.inputs[0].dim(-1), k = context.call.outputs[0].dim(-1);
  const int64_t rows = context.call.inputs[0].numel() / n;
  return make_kernel(
      [=, dtype = context.call.inputs[0].dtype, sorted = context.call.attrs.flag("sorted")](const RunArgs& args) {
        constexpr int64_t kGrain = 4096;
        dispatch_number(dtype, [&](auto zero) {
          using T = decltype(zero);
          parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
            std::vector<int32_t> order;
            for (int64_t row = begin; row < end; ++row)
              choose(args.input<T>(0) + row * n, n, k, sorted, order, args.output<T>(0) + row * k,
                     args.output<int32_t>(1) + row * k);
          });
        });
      });
}

std::vector<KernelDef> top_k() { return {define("top_k", bind, number_output)}; }

REGISTER_KERNELS(top_k);

}  // namespace
}  // namespace ff::reference
