#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

// Output dimension d is input dimension perm[d].
std::vector<int> permutation(const OpCall& call) {
  const std::vector<int64_t>& perm = call.attrs.ints("perm");
  const size_t rank = call.inputs[0].rank();
  std::vector<int> axes;
  std::vector<bool> seen(rank, false);
  for (const int64_t axis : perm) {
    const int d = normal_axis(axis, rank, call.name);
    if (seen[d]) bad_value(call.name, ": perm is ", to_string(perm), "; axis ", d, " occurs twice");
    seen[d] = true;
    axes.push_back(d);
  }
  if (axes.size() != rank)
    bad_value(call.name, ": perm is ", to_string(perm), " and the input has rank ", rank, "; expected each axis once");
  return axes;
}

Rect transpose_region(const OpCall& call, const Box& box, Operand operand) {
  const std::vector<int> perm = permutation(call);
  Rect rect = whole_of(call.outputs[0].shape);
  for (size_t d = 0; d < perm.size(); ++d) {
    const size_t at = operand.output ? d : perm[d];
    rect.origin[at] = box[d].origin;
    rect.extent[at] = box[d].extent;
  }
  return rect;
}

OpDef transpose() {
  OpDef op("transpose");
  op.describe("The dimensions in another order, as NumPy's transpose.");
  op.inputs(1).linear_in({0});
  op.required("perm", AttrType::integers, "for each output dimension, the input dimension that it is");
  op.indices = [](const OpCall& call) { return indices_over(call.outputs[0].shape, "x"); };
  op.region = transpose_region;
  op.shape = [](const OpCall& call) -> std::vector<TensorType> {
    TensorType out{call.inputs[0].dtype, {}};
    for (const int axis : permutation(call)) out.shape.push_back(call.inputs[0].shape[axis]);
    return {out};
  };
  op.flops = flops_per_element(0);
  op.grad = [](GradContext& ctx) {
    const std::vector<int> perm = permutation(ctx.graph().call(ctx.out(0).node));
    std::vector<int64_t> inverse(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) inverse[perm[d]] = static_cast<int64_t>(d);
    ctx.in_grad(0, ctx.emit("transpose", {ctx.dout(0)}, {{"perm", inverse}}));
  };
  return op;
}
REGISTER_OP(transpose);

}  // namespace
}  // namespace ff
