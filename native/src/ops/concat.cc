// concat and split, each the other's gradient. Split along their axis, a part of the long tensor meets some of the
// short ones, each in an interval that may be empty.
#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

int axis_of(const OpCall& call) { return normal_axis(call.attrs.integer("axis"), call.inputs[0].rank(), call.name); }

// The part of one short tensor; `shorts` are the short tensors in their order.
Rect short_region(const std::vector<TensorType>& shorts, int which, int axis, const Box& box) {
  int64_t begin = 0;
  for (int i = 0; i < which; ++i) begin += shorts[i].shape[axis];
  Rect rect;
  for (size_t d = 0; d < box.size(); ++d) {
    Interval part{box[d].origin, box[d].extent};
    if (static_cast<int>(d) == axis) part = intersect(box[d], begin, shorts[which].shape[axis]);
    rect.origin.push_back(part.origin);
    rect.extent.push_back(part.extent);
  }
  return rect;
}

Rect long_region(const Box& box) {
  Rect rect;
  for (const IndexRange& range : box) {
    rect.origin.push_back(range.origin);
    rect.extent.push_back(range.extent);
  }
  return rect;
}

std::vector<TensorType> concat_shape(const OpCall& call) {
  const int axis = axis_of(call);
  TensorType out = call.inputs[0];
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    expect_equal_dtypes(call, 0, static_cast<int>(i));
    Shape shape = call.inputs[i].shape;
    const int64_t extent = shape.size() == out.rank() ? shape[axis] : 0;
    if (shape.size() == out.rank()) shape[axis] = out.shape[axis];
    if (shape != out.shape)
      bad_value(call.name, ": inputs 0 and ", i, " have shapes ", to_string(call.inputs[0].shape), " and ",
                to_string(call.inputs[i].shape), "; expected equal extents in all dimensions but axis ", axis);
    out.shape[axis] += extent;
  }
  return {out};
}

OpDef concat() {
  OpDef op("concat");
  op.describe("The inputs one after the other along an axis.");
  op.inputs(1, -1);
  op.required("axis", AttrType::integer, "the axis; negative counts from the last");
  op.indices = [](const OpCall& call) { return indices_over(call.outputs[0].shape, "x"); };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    return operand.output ? long_region(box) : short_region(call.inputs, operand.index, axis_of(call), box);
  };
  op.shape = concat_shape;
  op.flops = flops_per_element(0);
  op.grad = [](GradContext& ctx) {
    const int axis = normal_axis(ctx.attrs().integer("axis"), ctx.in_type(0).rank(), ctx.node().name);
    std::vector<int64_t> sizes;
    for (int i = 0; i < ctx.in_count(); ++i) sizes.push_back(ctx.in_type(i).shape[axis]);
    const std::vector<Value> parts = ctx.emit_all("split", {ctx.dout(0)}, {{"sizes", sizes}, {"axis", int64_t{axis}}});
    for (int i = 0; i < ctx.in_count(); ++i)
      if (ctx.needs(i)) ctx.in_grad(i, parts[i]);
  };
  return op;
}
REGISTER_OP(concat);

std::vector<TensorType> split_shape(const OpCall& call) {
  const int axis = axis_of(call);
  const std::vector<int64_t>& sizes = call.attrs.ints("sizes");
  const TensorType& x = call.inputs[0];
  std::vector<TensorType> parts;
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    if (size < 0) bad_value(call.name, ": sizes are ", to_string(sizes), "; expected 0 or more");
    sum += size;
    parts.push_back(x);
    parts.back().shape[axis] = size;
  }
  if (parts.empty() || sum != x.shape[axis])
    bad_value(call.name, ": sizes are ", to_string(sizes), ", ", sum, " in all, and the input has ", x.shape[axis],
              " along axis ", axis, "; expected sizes that add up to it");
  return parts;
}

// A batch that is split keeps the proportions of its parts.
Attrs split_rebatch(const OpCall& before, const std::vector<TensorType>& inputs) {
  const int axis = axis_of(before);
  const int64_t old = before.inputs[0].shape[axis], now = inputs[0].shape[axis];
  std::vector<int64_t> sizes = before.attrs.ints("sizes");
  for (int64_t& size : sizes) {
    if (now == old) continue;
    if (old == 0 || size * now % old != 0)
      bad_value(before.name, ": the input changed from ", old, " to ", now, " along axis ", axis, ", which sizes ",
                to_string(sizes), " cannot follow in proportion; split along another axis");
    size = size * now / old;
  }
  Attrs attrs = before.attrs;
  attrs.set("sizes", sizes);
  return attrs;
}

OpDef split() {
  OpDef op("split");
  op.describe("The input cut along an axis into parts of given sizes, one output each.");
  op.inputs(1).linear_in({0});
  op.required("sizes", AttrType::integers, "extents of the parts along the axis; they add up to the input's");
  op.required("axis", AttrType::integer, "the axis; negative counts from the last");
  op.indices = [](const OpCall& call) { return indices_over(call.inputs[0].shape, "x"); };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    return operand.output ? short_region(call.outputs, operand.index, axis_of(call), box) : long_region(box);
  };
  op.shape = split_shape;
  op.rebatch = split_rebatch;
  op.flops = flops_per_element(0);
  op.grad = [](GradContext& ctx) {
    std::vector<Value> parts;
    for (size_t i = 0; i < ctx.node().outputs.size(); ++i) parts.push_back(ctx.dout(static_cast<int>(i)));
    ctx.in_grad(0, ctx.emit("concat", parts, {{"axis", ctx.attrs().integer("axis")}}));
  };
  return op;
}
REGISTER_OP(split);

}  // namespace
}  // namespace ff
