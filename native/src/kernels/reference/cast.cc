#include <type_traits>

#include "base/parallel.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

template <class T>
constexpr bool kSixteenBits = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

template <class To, class From>
To convert(From x) {
  if constexpr (kSixteenBits<From> && !std::is_same_v<From, To>)
    return convert<To>(static_cast<float>(x));
  else if constexpr (kSixteenBits<To> && !std::is_same_v<From, To>)
    return To(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, bool>)
    return x != From{};
  else
    return static_cast<To>(x);
}

std::unique_ptr<Kernel> bind_cast(const BindContext& context) {
  const int64_t n = context.call.outputs[0].numel();
  return dispatch_any(context.call.inputs[0].dtype, [&](auto from) {
    using From = decltype(from);
    return dispatch_any(context.call.outputs[0].dtype, [&](auto to) {
      using To = decltype(to);
      return make_kernel([n](const RunArgs& args) {
        constexpr int64_t kGrain = 8192;
        const From* x = args.input<From>(0);
        To* y = args.output<To>(0);
        parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) y[i] = convert<To>(x[i]);
        });
      });
    });
  });
}

std::vector<KernelDef> cast_kernels() { return {define("cast", bind_cast)}; }
REGISTER_KERNELS(cast_kernels);

}  // namespace
}  // namespace ff::reference
