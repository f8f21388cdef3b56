// batch_norm: normalisation of each channel over batch and positions, in training and in inference, and the gradient.
#include <algorithm>

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
  for (int i = first; i < static_cast<int>(call.inputs.size()); ++i)
    expect_type(call, i, channel, cat("input ", i, " (one value per channel)"));
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

// Simple ops per channel, for gradients and expansions.
class PerChannel {
 public:
  explicit PerChannel(Emitter& ctx) : ctx_(ctx), spread_(ctx.in_type(0).rank(), 1) {
    spread_[1] = ctx.in_type(0).dim(1);
    for (size_t axis = 0; axis < spread_.size(); ++axis)
      if (axis != 1) others_.push_back(static_cast<int64_t>(axis));
  }
  Value times(Value a, Value b) { return ctx_.emit("multiply", {a, b}); }
  Value minus(Value a, Value b) { return ctx_.emit("subtract", {a, b}); }
  Value plus(Value a, Value b) { return ctx_.emit("add", {a, b}); }
  Value scaled(Value a, double by) { return ctx_.emit("scalar_multiply", {a}, {{"scalar", by}}); }
  Value rstd(Value var) {
    return ctx_.emit("rsqrt", {ctx_.emit("scalar_add", {var}, {{"scalar", ctx_.attrs().real("eps")}})});
  }
  // A value per channel in a shape that broadcasts against x, and back.
  Value spread(Value channel) { return ctx_.emit("reshape", {channel}, {{"shape", spread_}}); }
  Value flat(Value spread) { return ctx_.emit("reshape", {spread}, {{"shape", Shape{spread_[1]}}}); }
  // Over batch and positions: the sum (a value per channel), and the mean (spread).
  Value sum(Value x) { return ctx_.emit("reduce_sum", {x}, {{"axes", others_}}); }
  Value mean(Value x) { return ctx_.emit("reduce_mean", {x}, {{"axes", others_}, {"keepdims", true}}); }

 private:
  Emitter& ctx_;
  Shape spread_;
  std::vector<int64_t> others_;
};

std::vector<Value> batch_norm_expand(Expansion& ctx) {
  PerChannel per(ctx);
  const Value mean = per.mean(ctx.in(0));
  const Value centred = per.minus(ctx.in(0), mean);
  const Value var = per.mean(per.times(centred, centred));
  const Value scale = per.times(per.rstd(var), per.spread(ctx.in(1)));
  const Value y = per.plus(per.times(centred, scale), per.spread(ctx.in(2)));
  const auto n =
      static_cast<double>(ctx.in_type(0).numel()) / static_cast<double>(std::max<int64_t>(1, ctx.in_type(0).dim(1)));
  const double keep = ctx.attrs().real("momentum"),
               correction = ctx.attrs().flag("unbiased") && n > 1 ? n / (n - 1) : 1;
  const Value flat_mean = per.flat(mean), flat_var = per.flat(var);
  return {y, per.plus(per.scaled(ctx.in(3), keep), per.scaled(flat_mean, 1 - keep)),
          per.plus(per.scaled(ctx.in(4), keep), per.scaled(flat_var, (1 - keep) * correction)), flat_mean, flat_var};
}

std::vector<Value> batch_norm_grad_expand(Expansion& ctx) {
  PerChannel per(ctx);
  const Value dy = ctx.in(1), rstd = per.rstd(per.spread(ctx.in(4)));
  const Value xhat = per.times(per.minus(ctx.in(0), per.spread(ctx.in(3))), rstd);
  const Value dy_xhat = per.times(dy, xhat);
  const Value along = per.plus(per.mean(dy), per.times(xhat, per.mean(dy_xhat)));
  const Value dx = per.times(per.minus(dy, along), per.times(rstd, per.spread(ctx.in(2))));
  return {dx, per.sum(dy_xhat), per.sum(dy)};
}

// The gradient of a frozen normalisation, which is an affine map per channel.
void inference_grad(GradContext& ctx) {
  PerChannel per(ctx);
  const Value dy = ctx.dout(0), rstd = per.rstd(ctx.in(4));
  if (ctx.needs(0)) ctx.in_grad(0, per.times(dy, per.spread(per.times(ctx.in(1), rstd))));
  if (ctx.needs(1))
    ctx.in_grad(1, per.times(per.sum(per.times(dy, per.minus(ctx.in(0), per.spread(ctx.in(3))))), rstd));
  if (ctx.needs(2)) ctx.in_grad(2, per.sum(dy));
}

OpDef batch_norm() {
  OpDef op("batch_norm");
  op.describe(
      "y = gamma (x - mean) / sqrt(variance + eps) + beta with the mean and variance of each channel (axis 1) over "
      "batch and "
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
        ctx.emit_all("batch_norm_grad", {ctx.in(0), ctx.dout(0), ctx.in(1), ctx.out(3), ctx.out(4)},
                     {{"eps", ctx.attrs().real("eps")}});
    for (int i = 0; i < 3; ++i)
      if (ctx.needs(i)) ctx.in_grad(i, grads[i]);
  };
  op.expand = batch_norm_expand;
  op.inference = [](Expansion& ctx) {
    const Value y = ctx.emit("batch_norm_inference", ctx.node().inputs, {{"eps", ctx.attrs().real("eps")}});
    return std::vector<Value>{y, ctx.in(3), ctx.in(4), ctx.in(3), ctx.in(4)};
  };
  return op;
}

OpDef batch_norm_grad() {
  OpDef op("batch_norm_grad");
  op.describe(
      "Gradients of batch_norm with respect to x, gamma and beta, from x, dy, gamma and the batch's mean and "
      "variance.");
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
  op.expand = batch_norm_grad_expand;
  op.flops = [](const OpCall& call) { return 11.0 * static_cast<double>(call.inputs[0].numel()); };
  op.internal = true;
  return op;
}

OpDef batch_norm_inference() {
  OpDef op("batch_norm_inference");
  op.describe(
      "gamma (x - mean) / sqrt(var + eps) + beta with given statistics of each channel (axis 1), which are constants.");
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
