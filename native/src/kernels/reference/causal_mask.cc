#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "kernels/box.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// The keys before `first` are kept as they are.
template <bool gradient>
struct CausalMask {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const T fill = gradient ? T{0} : -std::numeric_limits<T>::infinity();
    const int64_t keys = call.inputs[0].dim(-1), queries = call.inputs[0].dim(-2);
    const int64_t ahead = origin_of(call, "s") - origin_of(call, "t") + 1;
    if (keys == 0 || queries == 0) return;
    parallel_for(call.inputs[0].numel() / keys, std::max<int64_t>(1, 8192 / keys), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* x = args.input<T>(0) + row * keys;
        T* y = args.output<T>(0) + row * keys;
        const int64_t kept = std::clamp<int64_t>(row % queries + ahead, 0, keys);
        if (x != y) std::copy_n(x, kept, y);
        std::fill(y + kept, y + keys, fill);
      }
    });
  }
};

std::vector<KernelDef> mask_kernels() {
  return {float_kernel("causal_mask", CausalMask<false>{}), float_kernel("causal_mask_grad", CausalMask<true>{})};
}

REGISTER_KERNELS(mask_kernels);

}  // namespace
}  // namespace ff::reference
