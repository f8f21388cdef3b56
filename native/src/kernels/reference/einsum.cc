#include "graph/product.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

using Offsets = std::array<int64_t, 3>;

// Call body(offsets) for every point of a nest of loops.
template <class Body>
void nest(const std::vector<ProductLoop>& loops, size_t depth, Offsets at, const Body& body) {
  if (depth == loops.size()) {
    body(at);
    return;
  }
  for (int64_t i = 0; i < loops[depth].extent; ++i) {
    nest(loops, depth + 1, at, body);
    for (size_t k = 0; k < at.size(); ++k) at[k] += loops[depth].strides[k];
  }
}

struct Einsum {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const ProductLoops loops = loops_of(call);
    const T *a = args.input<T>(0), *b = args.input<T>(1);
    nest(loops.kept, 0, {}, [&](const Offsets& start) {
      double sum = 0;
      nest(loops.summed, 0, start,
           [&](const Offsets& at) { sum += static_cast<double>(a[at[0]]) * static_cast<double>(b[at[1]]); });
      args.output<T>(0)[start[2]] = static_cast<T>(sum);
    });
  }
};

std::vector<KernelDef> einsum_kernels() {
  return {float_kernel("einsum", Einsum{}), float_kernel("batch_matmul", Einsum{})};
}

REGISTER_KERNELS(einsum_kernels);

}  // namespace
}  // namespace ff::reference
