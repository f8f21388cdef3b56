#include "base/random.h"
#include "kernels/box.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// Dropout and its gradient are one function: mask the first input.
struct Masked {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const GlobalRuns runs(call);
    const double rate = call.attrs.real("rate");
    RandomStream random(call.attrs.integer("seed"), call.attrs.integer("stream"), *args.input<int64_t>(1));
    for (int64_t run = 0; run < runs.count(); ++run)
      for (int64_t k = 0; k < runs.length(); ++k) {
        const int64_t i = run * runs.length() + k;
        const bool keep = random.uniform(runs.start(run) + k) >= static_cast<float>(rate);
        args.output<T>(0)[i] = keep ? static_cast<T>(args.input<T>(0)[i] / (1 - rate)) : T{0};
      }
  }
};

std::vector<KernelDef> dropout_kernels() {
  return {float_kernel("dropout", Masked{}), float_kernel("dropout_grad", Masked{})};
}

REGISTER_KERNELS(dropout_kernels);

}  // namespace
}  // namespace ff::reference
