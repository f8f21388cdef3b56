// Reductions over axes. A split of a reduced axis leaves partial results, put together by the op's combiner.
#include <algorithm>

#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

// By dimension of the input: is it reduced?
std::vector<bool> reduced_axes(const OpCall& call, size_t rank) {
  const std::vector<int64_t>& axes = call.attrs.ints("axes");
  std::vector<bool> reduced(rank, axes.empty());
  for (const int64_t axis : axes) {
    const int d = normal_axis(axis, rank, call.name);
    if (reduced[d]) bad_value(call.name, ": axes are ", to_string(axes), "; axis ", d, " occurs twice");
    reduced[d] = true;
  }
  return reduced;
}

Shape reduced_shape(const Shape& shape, const std::vector<bool>& reduced, bool keepdims) {
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!reduced[d] || keepdims) out.push_back(reduced[d] ? 1 : shape[d]);
  return out;
}

std::vector<TensorType> reduce_shape(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  if (call.op == "reduce_mean")
    expect_float(call, 0);
  else
    expect_number(call);
  return {{x.dtype, reduced_shape(x.shape, reduced_axes(call, x.rank()), call.attrs.flag("keepdims"))}};
}

// The rectangle of a reduced tensor: the ranges of the dimensions that are kept.
Rect kept_region(const std::vector<bool>& reduced, bool keepdims, const Box& box) {
  Rect rect;
  for (size_t d = 0; d < box.size(); ++d) {
    if (reduced[d] && !keepdims) continue;
    rect.origin.push_back(reduced[d] ? 0 : box[d].origin);
    rect.extent.push_back(reduced[d] ? 1 : box[d].extent);
  }
  return rect;
}

Rect reduce_region(const OpCall& call, const Box& box, Operand operand) {
  const std::vector<bool> none(box.size(), false);
  const bool keepdims = call.attrs.flag("keepdims");
  return operand.output ? kept_region(reduced_axes(call, box.size()), keepdims, box) : kept_region(none, keepdims, box);
}

void add_axes(OpDef& op) {
  op.attr("axes", std::vector<int64_t>{}, "the axes to reduce, negative counted from the last; empty: all");
  op.attr("keepdims", false, "keep reduced dimensions, with extent 1");
}

OpDef reduction(const std::string& name, const std::string& doc, Combiner combiner) {
  OpDef op(name);
  // The line names the combiner; which of the indices are kept depends on the attributes.
  op.describe(doc).inputs(1).space("x* -> y*", combiner);
  add_axes(op);
  op.indices = [](const OpCall& call) { return indices_over(call.inputs[0].shape, "x"); };
  op.region = reduce_region;
  op.shape = reduce_shape;
  op.flops = flops_per_element(1);
  return op;
}

// The gradient of a sum, from that of its result: the same for every element.
Value spread(GradContext& ctx, Value grad) {
  const Shape shape = ctx.in_type(0).shape;
  const OpCall call = ctx.graph().call(ctx.out(0).node);
  const Shape kept = reduced_shape(shape, reduced_axes(call, shape.size()), true);
  if (ctx.graph().type(grad).shape != kept) grad = ctx.emit("reshape", {grad}, {{"shape", kept}});
  return kept == shape ? grad : ctx.emit("broadcast_to", {grad}, {{"shape", shape}});
}

void sum_gradient(GradContext& ctx) { ctx.in_grad(0, spread(ctx, ctx.dout(0))); }

void mean_gradient(GradContext& ctx) {
  const int64_t outputs = std::max<int64_t>(ctx.out_type(0).numel(), 1);
  const auto count = static_cast<double>(std::max<int64_t>(ctx.in_type(0).numel() / outputs, 1));
  ctx.in_grad(0, spread(ctx, ctx.emit("scalar_true_divide", {ctx.dout(0)}, {{"scalar", count}})));
}

void extremum_gradient(GradContext& ctx) {
  ctx.in_grad(0, ctx.emit(ctx.node().op + "_grad", {ctx.dout(0), ctx.in(0), ctx.out(0)}, ctx.attrs()));
}

// Ties are counted over the reduced axes, so these are no indices that could be split.
OpDef extremum_grad(const std::string& name) {
  OpDef op(name + "_grad");
  op.describe(cat("Gradient of ", name, ": inputs (dy, x, y), output dx; elements that tie share evenly."));
  op.inputs(3).linear_in({0}).no_gradient();
  add_axes(op);
  op.indices = [](const OpCall& call) {
    const Shape& x = call.inputs[1].shape;
    const std::vector<bool> reduced = reduced_axes(call, x.size());
    Box kept, all = indices_over(x, "x");
    for (size_t d = 0; d < x.size(); ++d)
      if (!reduced[d]) kept.push_back(all[d]);
    return kept;
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    const Shape& x = call.inputs[1].shape;
    const std::vector<bool> reduced = reduced_axes(call, x.size());
    Box all = indices_over(x, "x");
    for (size_t d = 0, next = 0; d < x.size(); ++d)
      if (!reduced[d]) all[d] = box[next++];
    const bool small = !operand.output && operand.index != 1;
    return kept_region(small ? reduced : std::vector<bool>(x.size(), false), call.attrs.flag("keepdims"), all);
  };
  op.shape = [](const OpCall& call) -> std::vector<TensorType> { return {call.inputs[1]}; };
  op.flops = flops_per_element(3);
  op.internal = true;
  return op;
}

std::vector<OpDef> reductions() {
  OpDef sum = reduction("reduce_sum", "The sum over axes.", Combiner::sum);
  sum.linear_in({0});
  sum.grad = sum_gradient;
  OpDef mean = reduction("reduce_mean", "The mean over axes, of floating-point tensors; the mean of nothing is 0.",
                         Combiner::sum);
  mean.linear_in({0});
  mean.grad = mean_gradient;
  OpDef max = reduction("reduce_max", "The largest element over axes; of nothing, the lowest number.", Combiner::max);
  max.grad = extremum_gradient;
  OpDef min = reduction("reduce_min", "The smallest element over axes; of nothing, the highest number.", Combiner::min);
  min.grad = extremum_gradient;
  for (OpDef* op : {&sum, &mean, &max, &min})
    op->grad = [gradient = op->grad](GradContext& ctx) {
      if (is_float(ctx.in_type(0).dtype)) gradient(ctx);
    };
  return {sum, mean, max, min, extremum_grad("reduce_max"), extremum_grad("reduce_min")};
}
REGISTER_OPS(reductions);

}  // namespace
}  // namespace ff
