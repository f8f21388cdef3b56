// gather: elements picked along one dimension by an index tensor, and its gradient, which adds them up where they came
// from.
#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

int dim_of(const OpCall& call, size_t rank) { return normal_axis(call.attrs.integer("dim"), rank, call.name); }

void expect_index(const OpCall& call, int input, const Shape& x) {
  expect_integer(call, input);
  const Shape& index = call.inputs[input].shape;
  const int dim = dim_of(call, x.size());
  bool fits = index.size() == x.size();
  for (size_t d = 0; fits && d < x.size(); ++d) fits = static_cast<int>(d) == dim || index[d] <= x[d];
  if (!fits)
    bad_value(call.name, ": the index has shape ", to_string(index), " and the input ", to_string(x),
              "; expected an index of the same rank, in no dimension but ", dim, " larger than the input");
}

// The dimensions of a shape, and one more: "v", that of x which is picked from. Which part of it an element comes from
// only its index tells, so that all parts look and what they find adds up.
Box gather_box(const Shape& shape, int64_t entries) {
  Box box = indices_over(shape, "x");
  box.push_back({"v", 0, entries, entries});
  return box;
}

// The part of the index, or of what goes with it, that a box meets; where it is the smaller tensor it may be empty.
Rect short_rect(const Box& box, const Shape& shape) {
  Rect rect;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Interval part = intersect(box[d], 0, shape[d]);
    rect.origin.push_back(part.origin);
    rect.extent.push_back(part.extent);
  }
  return rect;
}

// The part of x: an index that is smaller meets the beginning of it.
Rect long_rect(const Box& box, int dim, const Shape& shape) {
  Rect rect;
  for (size_t d = 0; d < shape.size(); ++d) {
    const IndexRange& range = static_cast<int>(d) == dim ? box.back() : box[d];
    rect.origin.push_back(range.origin);
    rect.extent.push_back(range.whole() ? shape[d] : range.extent);
  }
  return rect;
}

OpDef gather() {
  OpDef op("gather");
  op.describe("Elements of x along a dimension, y[i][j][k] = x[index[i][j][k]][j][k] for dim 0, of the index's shape.");
  op.required("dim", AttrType::integer, "the dimension that the index picks from; negative counts from the last");
  op.inputs(2).space("x*, y* -> y*").linear_in({0});
  op.indices = [](const OpCall& call) {
    const Shape& x = call.inputs[0].shape;
    return gather_box(call.inputs[1].shape, x[dim_of(call, x.size())]);
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    const Shape& x = call.inputs[0].shape;
    const bool picked = operand.output || operand.index == 1;
    return picked ? short_rect(box, call.inputs[1].shape) : long_rect(box, dim_of(call, x.size()), x);
  };
  op.shape = [](const OpCall& call) {
    expect_number(call);
    if (call.inputs[0].rank() == 0) bad_value(call.name, ": input 0 is a scalar; expected a rank of at least 1");
    expect_index(call, 1, call.inputs[0].shape);
    return std::vector<TensorType>{{call.inputs[0].dtype, call.inputs[1].shape}};
  };
  op.domain = [](const OpCall& call, int input) {
    const TensorType& x = call.inputs[0];
    return input == 1 ? Domain{0, x.shape[dim_of(call, x.rank())]} : Domain{};
  };
  op.flops = flops_per_element(1);
  op.grad = [](GradContext& ctx) {
    if (!ctx.needs(0)) return;
    const Attrs attrs = {{"dim", ctx.attrs().integer("dim")}, {"input_shape", ctx.in_type(0).shape}};
    ctx.in_grad(0, ctx.emit("gather_grad", {ctx.in(1), ctx.dout(0)}, attrs));
  };
  return op;
}

OpDef gather_grad() {
  OpDef op("gather_grad");
  op.describe("Gradient of gather with respect to x: each element of dy added where the index picked it.");
  op.required("dim", AttrType::integer, "the dimension that the index picks from");
  op.required("input_shape", AttrType::integers, "shape of x");
  op.inputs(2).space("y*, y* -> x*").linear_in({1}).no_gradient();
  op.indices = [](const OpCall& call) {
    const Shape& x = call.outputs[0].shape;
    const int dim = dim_of(call, x.size());
    Shape shape = x;
    shape[dim] = call.inputs[0].shape[dim];
    return gather_box(shape, x[dim]);
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    const Shape& x = call.outputs[0].shape;
    return operand.output ? long_rect(box, dim_of(call, x.size()), x) : short_rect(box, call.inputs[0].shape);
  };
  op.shape = [](const OpCall& call) {
    const Shape& x = call.attrs.ints("input_shape");
    expect_index(call, 0, x);
    expect_type(call, 1, {call.inputs[1].dtype, call.inputs[0].shape}, "dy");
    return std::vector<TensorType>{{call.inputs[1].dtype, x}};
  };
  op.domain = [](const OpCall& call, int) {
    const Shape& x = call.attrs.ints("input_shape");
    return Domain{0, x[dim_of(call, x.size())]};
  };
  op.flops = flops_per_element(1);
  op.internal = true;
  return op;
}

std::vector<OpDef> gather_family() { return {gather(), gather_grad()}; }

REGISTER_OPS(gather_family);

}  // namespace
}  // namespace ff
