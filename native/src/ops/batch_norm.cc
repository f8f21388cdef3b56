// batch_norm: normalisation of each channel over batch and positions, in training and in inference, and the gradient.
// With groups of rows (ghost batch normalisation, Hoffer et al. 2017) the statistics of a group are its own, so that
// groups can lie on different devices; what has moved the running statistics is then an op apart.
#include <algorithm>

#include "graph/rect.h"
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

void expect_channel_vectors(const OpCall& call, int first, int last) {
  const TensorType channel{call.inputs[0].dtype, {call.inputs[0].dim(1)}};
  for (int i = first; i < last; ++i) expect_type(call, i, channel, cat("input ", i, " (one value per channel)"));
}

void expect_groups(const OpCall& call) {
  const int64_t groups = call.attrs.integer("groups"), rows = call.inputs[0].dim(0);
  if (groups < 1 || groups > std::max<int64_t>(1, rows))
    bad_value(call.name, ": attribute \"groups\" is ", groups, " for a batch of ", rows, " rows; expected 1 to ",
              std::max<int64_t>(1, rows), ", so that every group has a row");
}

// Statistics belong to whole groups of rows: these and the channels are offered for a split.
Box groups_and_channels(int64_t groups, const OpCall& call) {
  const int64_t channels = call.inputs[0].dim(1);
  Box box = {{"c", 0, channels, channels}};
  if (groups > 1) box.insert(box.begin(), {"g", 0, groups, groups});
  return box;
}

Box indices_by_attribute(const OpCall& call) { return groups_and_channels(call.attrs.integer("groups"), call); }

// Operands are like x, a value per channel, or a value per group and channel.
Rect group_region(const OpCall& call, const Box& box, Operand operand) {
  const Shape &shape = (operand.output ? call.outputs : call.inputs)[operand.index].shape, &x = call.inputs[0].shape;
  const IndexRange& channels = box.back();
  Rect rect = whole_of(shape);
  const size_t axis = shape.size() == 1 ? 0 : 1;
  rect.origin[axis] = channels.origin;
  rect.extent[axis] = channels.extent;
  if (box.size() == 1 || axis == 0) return rect;
  const IndexRange& groups = box.front();
  const auto row = [&](int64_t group) {
    return group == groups.global ? x[0]
                                  : part_of(x[0], static_cast<int>(group), static_cast<int>(groups.global)).origin;
  };
  const bool rows = shape == x;
  rect.origin[0] = rows ? row(groups.origin) : groups.origin;
  rect.extent[0] = rows ? row(groups.origin + groups.extent) - rect.origin[0] : groups.extent;
  return rect;
}

TensorType statistics_type(int64_t groups, const OpCall& call) {
  return {call.inputs[0].dtype, {groups, call.inputs[0].dim(1)}};
}

// How many rows each group has.
std::vector<int64_t> rows_of_groups(int64_t rows, int64_t groups) {
  std::vector<int64_t> sizes;
  for (int g = 0; g < groups; ++g) sizes.push_back(part_of(rows, g, static_cast<int>(groups)).extent);
  return sizes;
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
  // A row per group, where there is one group.
  Value row(Value spread) { return ctx_.emit("reshape", {spread}, {{"shape", Shape{1, spread_[1]}}}); }
  // Over batch and positions: the sum (a value per channel), and the mean (spread).
  Value sum(Value x) { return ctx_.emit("reduce_sum", {x}, {{"axes", others_}}); }
  Value mean(Value x) { return ctx_.emit("reduce_mean", {x}, {{"axes", others_}, {"keepdims", true}}); }

 private:
  Emitter& ctx_;
  Shape spread_;
  std::vector<int64_t> others_;
};

// The op on each group for itself: what has rows is cut by the groups' rows, what has statistics by the groups.
std::vector<Value> group_by_group(Expansion& ctx, int64_t groups, Attrs attrs) {
  const Shape x = ctx.in_type(0).shape;
  std::vector<std::vector<Value>> inputs(static_cast<size_t>(groups)), outputs(ctx.node().outputs.size());
  for (int i = 0; i < ctx.in_count(); ++i) {
    std::vector<Value> parts(inputs.size(), ctx.in(i));
    const Shape& shape = ctx.in_type(i).shape;
    const auto sizes = shape == x ? rows_of_groups(x[0], groups) : std::vector<int64_t>(inputs.size(), 1);
    if (shape.size() > 1) parts = ctx.emit_all("split", {ctx.in(i)}, {{"sizes", sizes}, {"axis", int64_t{0}}});
    for (size_t g = 0; g < inputs.size(); ++g) inputs[g].push_back(parts[g]);
  }
  const std::string op = ctx.node().op;
  for (const std::vector<Value>& of_group : inputs) {
    const std::vector<Value> made = ctx.emit_all(op, of_group, attrs);
    for (size_t k = 0; k < made.size(); ++k) outputs[k].push_back(made[k]);
  }
  std::vector<Value> joined;
  for (const std::vector<Value>& parts : outputs) joined.push_back(ctx.emit("concat", parts, {{"axis", int64_t{0}}}));
  return joined;
}

std::vector<Value> batch_norm_groups_expand(Expansion& ctx) {
  const int64_t groups = ctx.attrs().integer("groups");
  if (groups > 1) return group_by_group(ctx, groups, {{"eps", ctx.attrs().real("eps")}});
  PerChannel per(ctx);
  const Value mean = per.mean(ctx.in(0));
  const Value centred = per.minus(ctx.in(0), mean);
  const Value var = per.mean(per.times(centred, centred));
  const Value scale = per.times(per.rstd(var), per.spread(ctx.in(1)));
  return {per.plus(per.times(centred, scale), per.spread(ctx.in(2))), per.row(mean), per.row(var)};
}

// The running statistics move as if the groups had come one after the other.
std::vector<Value> grouped_expand(Expansion& ctx) {
  const Attrs attrs = ctx.attrs();  // a copy, as nodes move when others are added
  const int64_t groups = attrs.integer("groups");
  const std::vector<Value> made = ctx.emit_all("batch_norm_groups", {ctx.in(0), ctx.in(1), ctx.in(2)},
                                               {{"eps", attrs.real("eps")}, {"groups", groups}});
  const Shape x = ctx.in_type(0).shape;
  std::vector<int64_t> counts;
  if (attrs.flag("unbiased"))
    for (const int64_t rows : rows_of_groups(x[0], groups))
      counts.push_back(rows * numel(Shape(x.begin() + 2, x.end())));
  const double keep = attrs.real("momentum");
  return {made[0], ctx.emit("running_statistics", {ctx.in(3), made[1]}, {{"momentum", keep}}),
          ctx.emit("running_statistics", {ctx.in(4), made[2]}, {{"momentum", keep}, {"counts", counts}}), made[1],
          made[2]};
}

std::vector<Value> batch_norm_expand(Expansion& ctx) {
  if (ctx.attrs().integer("groups") > 1) return grouped_expand(ctx);
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

int64_t groups_of_grad(const OpCall& call) { return call.inputs[3].rank() == 2 ? call.inputs[3].dim(0) : 1; }

std::vector<Value> batch_norm_grad_expand(Expansion& ctx) {
  const bool grouped = ctx.in_type(3).rank() == 2;
  if (grouped && ctx.in_type(3).dim(0) > 1) return group_by_group(ctx, ctx.in_type(3).dim(0), ctx.attrs());
  PerChannel per(ctx);
  const Value dy = ctx.in(1), rstd = per.rstd(per.spread(ctx.in(4)));
  const Value xhat = per.times(per.minus(ctx.in(0), per.spread(ctx.in(3))), rstd);
  const Value dy_xhat = per.times(dy, xhat);
  const Value along = per.plus(per.mean(dy), per.times(xhat, per.mean(dy_xhat)));
  const Value dx = per.times(per.minus(dy, along), per.times(rstd, per.spread(ctx.in(2))));
  const Value dgamma = per.sum(dy_xhat), dbeta = per.sum(dy);
  if (grouped) return {dx, per.row(dgamma), per.row(dbeta)};
  return {dx, dgamma, dbeta};
}

// Of x, gamma and beta, which are the first inputs, from the output that holds the mean; the variance is the next.
void statistics_grad(GradContext& ctx, int mean) {
  if (!ctx.needs(0) && !ctx.needs(1) && !ctx.needs(2)) return;
  const std::vector<Value> grads =
      ctx.emit_all("batch_norm_grad", {ctx.in(0), ctx.dout(0), ctx.in(1), ctx.out(mean), ctx.out(mean + 1)},
                   {{"eps", ctx.attrs().real("eps")}});
  const bool grouped = ctx.out_type(mean).rank() == 2;
  for (int i = 0; i < 3; ++i) {
    if (!ctx.needs(i)) continue;
    const bool sum = i > 0 && grouped;
    ctx.in_grad(i, sum ? ctx.emit("reduce_sum", {grads[i]}, {{"axes", std::vector<int64_t>{0}}}) : grads[i]);
  }
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
  op.attr("groups", int64_t{1}, "consecutive groups of rows, of sizes as even as can be, with statistics of their own");
  op.space("n c s*, c, c, c, c -> n c s*, c, c, c, c");
  op.indices = indices_by_attribute;
  op.region = group_region;
  op.weights = batch_norm_weights;
  op.shape = [](const OpCall& call) {
    expect_inputs(call, 5, "x, gamma, beta, running_mean, running_var");
    batch_norm_weights(call);
    expect_channel_vectors(call, 1, 5);
    expect_groups(call);
    const TensorType& channel = call.inputs[1];
    const int64_t groups = call.attrs.integer("groups");
    const TensorType statistics = groups > 1 ? statistics_type(groups, call) : channel;
    return std::vector<TensorType>{call.inputs[0], channel, channel, statistics, statistics};
  };
  // A batch with fewer rows than groups has a group per row.
  op.rebatch = [](const OpCall& before, const std::vector<TensorType>& inputs) {
    Attrs attrs = before.attrs;
    attrs.set("groups", std::min(attrs.integer("groups"), std::max<int64_t>(1, inputs[0].dim(0))));
    return attrs;
  };
  op.flops = [](const OpCall& call) { return 7.0 * static_cast<double>(call.inputs[0].numel()); };
  op.state_updates = {{3, 1}, {4, 2}};
  op.inplace(1, 3).inplace(2, 4);
  op.grad = [](GradContext& ctx) { statistics_grad(ctx, 3); };
  op.expand = batch_norm_expand;
  op.inference = [](Expansion& ctx) {
    const Value y = ctx.emit("batch_norm_inference", ctx.node().inputs, {{"eps", ctx.attrs().real("eps")}});
    const Shape statistics = ctx.node().outputs[3].shape;
    const auto each = [&](int i) {
      return statistics.size() == 1 ? ctx.in(i) : ctx.emit("broadcast_to", {ctx.in(i)}, {{"shape", statistics}});
    };
    return std::vector<Value>{y, ctx.in(3), ctx.in(4), each(3), each(4)};
  };
  return op;
}

OpDef batch_norm_groups() {
  OpDef op("batch_norm_groups");
  op.describe(
      "Each of the consecutive groups of x's rows normalised like batch_norm with its own mean and variance, which are "
      "the other outputs (groups, C), from x, gamma and beta.");
  op.inputs(3);
  op.attr("eps", 1e-5, kEpsDoc);
  op.attr("groups", int64_t{1}, "consecutive groups of rows, of sizes as even as can be");
  op.space("n c s*, c, c -> n c s*, g c, g c");
  op.indices = indices_by_attribute;
  op.region = group_region;
  op.shape = [](const OpCall& call) {
    expect_channel_vectors(call, 1, 3);
    expect_groups(call);
    const TensorType statistics = statistics_type(call.attrs.integer("groups"), call);
    return std::vector<TensorType>{call.inputs[0], statistics, statistics};
  };
  op.flops = [](const OpCall& call) { return 7.0 * static_cast<double>(call.inputs[0].numel()); };
  op.grad = [](GradContext& ctx) { statistics_grad(ctx, 1); };
  op.expand = batch_norm_groups_expand;
  op.internal = true;
  return op;
}

OpDef running_statistics() {
  OpDef op("running_statistics");
  op.describe(
      "Running statistics (C) after those of each group (groups, C) in turn: momentum running + (1 - momentum) "
      "statistic.");
  op.inputs(2).inplace(0, 0).no_gradient();
  op.attr("momentum", 0.9, "share of the old running statistics that is kept at each group");
  op.attr("counts", std::vector<int64_t>{},
          "n of each group, whose statistic enters times n / (n - 1); none: as it is");
  op.space("c, turn c -> c");  // not g: a split of batch_norm's groups is none of this op
  op.whole_index("turn", "groups move the statistics one after the other");
  op.shape = [](const OpCall& call) {
    const auto groups = static_cast<size_t>(call.inputs[1].dim(0));
    if (!call.attrs.ints("counts").empty()) expect_list(call, "counts", groups, 0);
    return std::vector<TensorType>{call.inputs[0]};
  };
  op.flops = [](const OpCall& call) { return 4.0 * static_cast<double>(call.inputs[1].numel()); };
  op.internal = true;
  return op;
}

OpDef batch_norm_grad() {
  OpDef op("batch_norm_grad");
  op.describe(
      "Gradients of batch_norm with respect to x, gamma and beta, from x, dy, gamma and the batch's mean and "
      "variance; where these are of groups (groups, C), so are the gradients of gamma and beta.");
  op.inputs(5).linear_in({1}).no_gradient();
  op.attr("eps", 1e-5, kEpsDoc);
  op.space("n c s*, n c s*, c, c, c -> n c s*, c, c");
  op.indices = [](const OpCall& call) { return groups_and_channels(groups_of_grad(call), call); };
  op.region = group_region;
  op.shape = [](const OpCall& call) {
    expect_type(call, 1, call.inputs[0], "dy");
    expect_channel_vectors(call, 2, 3);
    const TensorType statistics =
        call.inputs[3].rank() == 2 ? statistics_type(groups_of_grad(call), call) : call.inputs[2];
    expect_type(call, 3, statistics, "mean");
    expect_type(call, 4, statistics, "variance");
    return std::vector<TensorType>{call.inputs[0], statistics, statistics};
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
    expect_channel_vectors(call, 1, 5);
    return std::vector<TensorType>{call.inputs[0]};
  };
  op.flops = [](const OpCall& call) { return 2.0 * static_cast<double>(call.inputs[0].numel()); };
  op.grad = inference_grad;
  return op;
}

std::vector<OpDef> batch_norm_family() {
  return {batch_norm(), batch_norm_groups(), running_statistics(), batch_norm_grad(), batch_norm_inference()};
}

REGISTER_OPS(batch_norm_family);

}  // namespace
}  // namespace ff
