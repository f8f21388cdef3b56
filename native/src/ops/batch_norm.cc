// batch_norm: normalisation of each channel over batch and positions, in training and in inference, and the gradient.
#include "ops/check.h"
#include "ops/grad.h"

namespace ff {
namespace {

constexpr const char* kEpsDoc = "added to the variance";

std::vector<WeightSpec> batch_norm_weights(const OpCall& call) {
  expect_float(call, 0);
  expect_rank(call, 0, 2, 5, "(N, C) or (N, C, positions...), rank 2 to 5");
  const TensorType channel{call.inputs[0].dtype, {call.inputs[0].dim(1)}};
  const Attrs ones = {{"initializer", std::string("ones")}}, zeros = {{"initializer", std::string("zeros")}};
  return {{"gamma", channel, ones, call.attrs.flag("scale")},
          {"beta", channel, zeros, call.attrs.flag("center")},
          {"running_mean", channel, zeros, false},
          {"running_var", channel, ones, false}};
}

void expect_channel_vectors(const OpCall& call, int first) {
  const TensorType channel{call.inputs[0].dtype, {call.inputs[0].dim(1)}};
  for (int i = first; i < static_cast<int>(call.inputs.size()); ++i) expect_type(call, i, channel, cat("input ", i, " (one value per channel)"));
}

// Statistics belong to the whole batch: only channels are offered for a split.
Box channels_only(const OpCall& call) { return {{"c", 0, call.inputs[0].dim(1), call.inputs[0].dim(1)}}; }

Rect channel_region(const OpCall& call, const Box& box, Operand operand) {
  const Shape& shape = (operand.output ? call.outputs : call.inputs)[operand.index].shape;
  Rect rect{Shape(shape.size(), 0), shape};
  const size_t axis = shape.size() == 1 ? 0 : 1;
  rect.origin[axis] = box[0].origin;
  rect.extent[axis] = box[0].extent;
  return rect;
}

OpDef batch_norm() {
  OpDef op("batch_norm");
  op.describe(
      "y = gamma (x - mean) / sqrt(variance + eps) + beta with the mean and variance of each channel (axis 1) over batch and "
      "positions; updates the running statistics; weights: gamma, beta, running_mean, running_var (C).");
  op.attr("eps", 1e-5, kEpsDoc);
  op.attr("momentum", 0.9, "share of the old running statistics that is kept");
  op.attr("unbiased", true, "the running variance takes n / (n - 1) of the batch's");
  op.attr("scale", true, "gamma is trained");
  op.attr("center", true, "beta is trained");
  op.space("n c s*, c, c, c, c -> n c s*, c, c, c, c");
  op.indices = channels_only;
  op.region = channel_region;
  op.weights = batch_norm_weights;
  op.shape = [](const OpCall& call) {
    expect_inputs(call, 5, "x, gamma, beta, running_mean, running_var");
    batch_norm_weights(call);
    expect_channel_vectors(call, 1);
    const TensorType& channel = call.inputs[1];
    return std::vector<TensorType>{call.inputs[0], channel, channel, channel, channel};
  };
  op.flops = [](const OpCall& call) { return 7.0 * static_cast<double>(call.inputs[0].numel()); };
  op.state_updates = {{3, 1}, {4, 2}};
  op.inplace(1, 3).inplace(2, 4);
  op.grad = [](GradContext& ctx) {
    if (!ctx.needs(0) && !ctx.needs(1) && !ctx.needs(2)) return;
    const std::vector<Value> grads =
        ctx.emit_all("batch_norm_grad", {ctx.in(0), ctx.dout(0), ctx.in(1), ctx.out(3), ctx.out(4)}, {{"eps", ctx.attrs().real("eps")}});
    for (int i = 0; i < 3; ++i)
      if (ctx.needs(i)) ctx.in_grad(i, grads[i]);
  };
  op.inference = [](Expansion& ctx) {
    const Value y = ctx.emit("batch_norm_inference", ctx.node().inputs, {{"eps", ctx.attrs().real("eps")}});
    return std::vector<Value>{y, ctx.in(3), ctx.in(4), ctx.in(3), ctx.in(4)};
  };
  return op;
}

OpDef batch_norm_grad() {
  OpDef op("batch_norm_grad");
  op.describe("Gradients of batch_norm with respect to x, gamma and beta, from x, dy, gamma and the batch's mean and variance.");
  op.inputs(5).linear_in({1}).no_gradient();
  op.attr("eps", 1e-5, kEpsDoc);
  op.space("n c s*, n c s*, c, c, c -> n c s*, c, c");
  op.indices = channels_only;
  op.region = channel_region;
  op.shape = [](const OpCall& call) {
    expect_type(call, 1, call.inputs[0], "dy");
    expect_channel_vectors(call, 2);
    return std::vector<TensorType>{call.inputs[0], call.inputs[2], call.inputs[2]};
  };
  op.flops = [](const OpCall& call) { return 11.0 * static_cast<double>(call.inputs[0].numel()); };
  op.internal = true;
  return op;
}

// The gradient of a frozen normalisation, which is an affine map per channel.
void inference_grad(GradContext& ctx) {
  const TensorType x = ctx.in_type(0);
  std::vector<int64_t> others = {0};
  Shape broadcast_shape(x.rank(), 1);
  broadcast_shape[1] = x.dim(1);
  for (size_t axis = 2; axis < x.rank(); ++axis) others.push_back(static_cast<int64_t>(axis));
  const auto spread = [&](Value channel) { return ctx.emit("reshape", {channel}, {{"shape", broadcast_shape}}); };
  const auto total = [&](Value tensor) { return ctx.emit("reduce_sum", {tensor}, {{"axes", others}}); };
  const Value dy = ctx.dout(0);
  const Value rstd = ctx.emit("rsqrt", {ctx.emit("scalar_add", {ctx.in(4)}, {{"scalar", ctx.attrs().real("eps")}})});
  if (ctx.needs(0)) ctx.in_grad(0, ctx.emit("multiply", {dy, spread(ctx.emit("multiply", {ctx.in(1), rstd}))}));
  if (ctx.needs(1)) {
    const Value centred = ctx.emit("subtract", {ctx.in(0), spread(ctx.in(3))});
    ctx.in_grad(1, ctx.emit("multiply", {total(ctx.emit("multiply", {dy, centred})), rstd}));
  }
  if (ctx.needs(2)) ctx.in_grad(2, total(dy));
}

OpDef batch_norm_inference() {
  OpDef op("batch_norm_inference");
  op.describe("gamma (x - mean) / sqrt(var + eps) + beta with given statistics of each channel (axis 1), which are constants.");
  op.inputs(5).inplace(0, 0);
  op.attr("eps", 1e-5, kEpsDoc);
  op.space("n c s*, c, c, c, c -> n c s*");
  op.shape = [](const OpCall& call) {
    expect_float(call, 0);
    expect_rank(call, 0, 2, 5, "(N, C) or (N, C, positions...), rank 2 to 5");
    expect_channel_vectors(call, 1);
    return std::vector<TensorType>{call.inputs[0]};
  };
  op.flops = [](const OpCall& call) { return 2.0 * static_cast<double>(call.inputs[0].numel()); };
  op.grad = inference_grad;
  return op;
}

std::vector<OpDef> batch_norm_family() { return {batch_norm(), batch_norm_grad(), batch_norm_inference()}; }

REGISTER_OPS(batch_norm_family);

}  // namespace
}  // namespace ff
