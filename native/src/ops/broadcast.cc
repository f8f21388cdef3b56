#include "ops/broadcast.h"

#include "ops/rules.h"

namespace ff {

Box broadcast_indices(const OpCall& call) { return indices_over(call.outputs[0].shape, "x"); }

Rect broadcast_region(const OpCall& call, const Box& box, Operand operand) {
  const TensorType& type = operand.output ? call.outputs[operand.index] : call.inputs[operand.index];
  Rect rect;
  for (size_t d = 0; d < type.rank(); ++d) {
    const IndexRange& range = box[box.size() - type.rank() + d];
    const bool repeated = type.shape[d] != range.global;
    rect.origin.push_back(repeated ? 0 : range.origin);
    rect.extent.push_back(repeated ? type.shape[d] : range.extent);
  }
  return rect;
}

Value sum_to(Emitter& emitter, Value grad, const Shape& shape) {
  const Shape from = emitter.graph().type(grad).shape;
  const size_t added = from.size() - shape.size();
  std::vector<int64_t> axes;
  for (size_t d = 0; d < from.size(); ++d)
    if (d < added || from[d] != shape[d - added]) axes.push_back(static_cast<int64_t>(d));
  if (axes.empty()) return grad;
  const Value sum = emitter.emit("reduce_sum", {grad}, {{"axes", axes}});
  return emitter.graph().type(sum).shape == shape ? sum : emitter.emit("reshape", {sum}, {{"shape", shape}});
}

namespace {

std::vector<TensorType> broadcast_shape(const OpCall& call) {
  const Shape& wanted = call.attrs.ints("shape");
  if (broadcast(call.inputs[0].shape, wanted, call.name) != wanted)
    bad_value(call.name, ": the input has shape ", to_string(call.inputs[0].shape), " and does not broadcast to ",
              to_string(wanted), "; expected extents that are equal or 1, counted from the last");
  return {{call.inputs[0].dtype, wanted}};
}

// Dimensions that were not repeated follow the input.
Attrs broadcast_rebatch(const OpCall& before, const std::vector<TensorType>& inputs) {
  const Shape &old = before.inputs[0].shape, &now = inputs[0].shape;
  Shape wanted = before.attrs.ints("shape");
  const size_t added = wanted.size() - old.size();
  for (size_t d = 0; d < old.size(); ++d)
    if (old[d] == wanted[added + d]) wanted[added + d] = now[d];
  Attrs attrs = before.attrs;
  attrs.set("shape", wanted);
  return attrs;
}

OpDef broadcast_to() {
  OpDef op("broadcast_to");
  op.describe(
      "The input repeated along dimensions of extent 1 and along new leading dimensions, as NumPy's broadcast_to.");
  op.inputs(1).linear_in({0});
  op.required("shape", AttrType::integers, "the shape of the output");
  op.indices = broadcast_indices;
  op.region = broadcast_region;
  op.shape = broadcast_shape;
  op.rebatch = broadcast_rebatch;
  op.flops = flops_per_element(0);
  op.grad = [](GradContext& ctx) { ctx.in_grad(0, sum_to(ctx, ctx.dout(0), ctx.in_type(0).shape)); };
  return op;
}
REGISTER_OP(broadcast_to);

}  // namespace
}  // namespace ff
