// einsum and batch_matmul as one product of stacks of matrices, whatever the order of their dimensions.
#include <algorithm>

#include "graph/product.h"
#include "kernels/cpu/primitive.h"

namespace ff::cpu {
namespace {

using Dims = dnnl::memory::dims;

// Where an index occurs: in a and b and c (a stack), in a and c (rows), in b and c (columns), in a and b (summed).
enum Role { stack, rows, columns, summed };

using Loops = std::vector<ProductLoop>;

Role role_of(const ProductLoop& loop) {
  return loop.strides[2] == 0 ? summed : loop.strides[0] == 0 ? columns : loop.strides[1] == 0 ? rows : stack;
}

// Loops of one role that all operands pass in one stride become one.
Loops merged(Loops loops, int by) {
  std::sort(loops.begin(), loops.end(), [by](const auto& x, const auto& y) { return x.strides[by] > y.strides[by]; });
  Loops out;
  for (const ProductLoop& loop : loops) {
    bool joins = !out.empty();
    for (size_t k = 0; k < 3 && joins; ++k) joins = out.back().strides[k] == loop.strides[k] * loop.extent;
    if (joins)
      out.back() = {out.back().extent * loop.extent, loop.strides};
    else
      out.push_back(loop);
  }
  return out;
}

// The nest as stacks around one loop each over rows, columns and the sum.
struct Matrices {
  Loops stacks;
  ProductLoop row, column, sum;
  bool regular = true;  // false: a sum over two indices that are no neighbours

  explicit Matrices(const OpCall& call) {
    std::array<Loops, 4> by_role;
    const ProductLoops loops = loops_of(call);
    for (const Loops* list : {&loops.kept, &loops.summed})
      for (const ProductLoop& loop : *list)
        if (loop.extent != 1) by_role[role_of(loop)].push_back(loop);
    stacks = merged(by_role[stack], 2);
    row = innermost(merged(by_role[rows], 2));
    column = innermost(merged(by_role[columns], 2));
    const Loops sums = merged(by_role[summed], 0);
    regular = sums.size() < 2;
    if (!sums.empty()) sum = sums.back();
  }

  // The last loop; those around it join the stacks.
  ProductLoop innermost(Loops loops) {
    if (loops.empty()) return {};
    stacks.insert(stacks.end(), loops.begin(), loops.end() - 1);
    return loops.back();
  }

  // The operand as a stack of matrices; it repeats along the loops in which it stands still.
  dnnl::memory::desc desc(DType dtype, size_t operand, const ProductLoop& down, const ProductLoop& across) const {
    Loops loops = stacks;
    loops.insert(loops.end(), {down, across});
    Dims dims, strides;
    int64_t size = 1;
    for (const ProductLoop& loop : loops)
      if (loop.strides[operand] != 0) size = std::max(size, loop.extent * loop.strides[operand]);
    for (const ProductLoop& loop : loops) {
      const bool moves = loop.strides[operand] != 0;
      dims.push_back(moves ? loop.extent : 1);
      strides.push_back(moves ? loop.strides[operand] : size);  // oneDNN wants strides that dense tensors could have
    }
    return {dims, data_type(dtype), strides};
  }
};

Primitive product(const OpCall& call, const Layouts&) {
  const Matrices m(call);
  const DType dtype = call.outputs[0].dtype;
  // oneDNN is fast where the rows of c are dense; where its columns are, c^T = b^T a^T.
  const bool flip = m.row.extent > 1 && m.row.strides[2] == 1;
  const int left = flip ? 1 : 0, right = 1 - left;
  const ProductLoop &down = flip ? m.column : m.row, &across = flip ? m.row : m.column;
  const auto a = m.desc(dtype, left, down, m.sum), b = m.desc(dtype, right, m.sum, across),
             c = m.desc(dtype, 2, down, across);
  return describe<dnnl::matmul>({dnnl_engine(), a, b, c, user_scratchpad()},
                                {in(DNNL_ARG_SRC, left, a), in(DNNL_ARG_WEIGHTS, right, b), out(DNNL_ARG_DST, 0, c)});
}

std::vector<KernelDef> einsum_kernels() {
  std::vector<KernelDef> kernels = {primitive_kernel("einsum", product), primitive_kernel("batch_matmul", product)};
  for (KernelDef& def : kernels)
    def.supported = [](const OpCall& call) {
      constexpr size_t kMostStacks = 8;
      if (!filled_matrices(call)) return false;
      const Matrices m(call);
      return m.regular && m.stacks.size() <= kMostStacks;
    };
  return kernels;
}

REGISTER_KERNELS(einsum_kernels);

}  // namespace
}  // namespace ff::cpu
