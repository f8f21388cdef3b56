// One reorder primitive: from layout to layout, or, for a transpose, between two orders of the dimensions.
#include "kernels/cpu/primitive.h"
#include "kernels/walk.h"

namespace ff::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Reorder = dnnl::reorder;

Primitive reorder_of(const Desc& from, const Desc& to) {
  const Reorder::primitive_desc pd(dnnl_engine(), from, dnnl_engine(), to, user_scratchpad());
  return describe<Reorder>(pd, {in(DNNL_ARG_FROM, 0, from), out(DNNL_ARG_TO, 0, to)});
}

// A layout may see its tensor with a dimension more than the type has (the groups of a convolution's kernel); the dense
// side of a reorder then does so too.
Desc side(const TensorType& type, const Layout& layout, const Layout& other) {
  return layout.dense() ? dense_desc({type.dtype, desc_of(type, other).get_dims()}) : desc_of(type, layout);
}

Primitive reorder(const OpCall& call, const Layouts& layouts) {
  const Layout &from = layouts.inputs[0], &to = layouts.outputs[0];
  return reorder_of(side(call.inputs[0], from, to), side(call.outputs[0], to, from));
}

// The input under the shape of the output, with the strides that it has there.
Primitive transpose(const OpCall& call, const Layouts&) {
  const TensorType& y = call.outputs[0];
  if (y.rank() == 0) return reorder_of(dense_desc(y), dense_desc(y));
  const Shape dense = dense_strides(call.inputs[0].shape);
  Shape strides;
  for (const int64_t axis : call.attrs.ints("perm"))
    strides.push_back(dense[normal_axis(axis, call.inputs[0].rank(), call.name)]);
  return reorder_of(Desc(y.shape, data_type(y.dtype), strides), dense_desc(y));
}

std::vector<KernelDef> reorder_kernels() {
  KernelDef def = primitive_kernel("reorder", reorder);
  def.supported = filled_matrices;
  return {def, primitive_kernel("transpose", transpose)};
}
REGISTER_KERNELS(reorder_kernels);

}  // namespace
}  // namespace ff::cpu
