// layer_norm: normalisation of each sample over its last dimensions, and its gradients.
#include "ops/check.h"
#include "ops/grad.h"

namespace ff {
namespace {

// How many of the last dimensions are normalised; throws when the axes are not the last ones.
size_t normalised_dims(const OpCall& call) {
  const size_t rank = call.inputs[0].rank();
  const std::vector<int64_t>& axes = call.attrs.ints("axes");
  std::vector<bool> normalised(rank, false);
  for (const int64_t axis : axes) normalised[normal_axis(axis, rank, call.name)] = true;
  for (size_t k = 0; k < axes.size(); ++k)
    if (axes.size() > rank || !normalised[rank - 1 - k])
      bad_value(call.name, ": attribute \"axes\" is ", to_string(Shape(axes)), " for input ", to_string(call.inputs[0]),
                "; expected the last dimensions; transpose the input first");
  if (axes.empty())
    bad_value(call.name, ": attribute \"axes\" is empty; expected the last dimensions, for example [-1]");
  return axes.size();
}

TensorType leading(const OpCall& call) {
  TensorType type = call.inputs[0];
  type.shape.resize(type.rank() - normalised_dims(call));
  return type;
}

TensorType trailing(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  return {x.dtype, Shape(x.shape.end() - static_cast<std::ptrdiff_t>(normalised_dims(call)), x.shape.end())};
}

// A line in which b* stands for the leading and a* for the normalised dimensions, for the ranks of this call.
Space space_for(const OpCall& call, std::string line) {
  const auto spell = [&](const std::string& letter, size_t count) {
    std::string names;
    for (size_t k = 0; k < count; ++k) names += cat(letter, k, " ");
    for (size_t at; (at = line.find(letter + "*")) != std::string::npos;) line.replace(at, 2, names);
  };
  const size_t normalised = normalised_dims(call);
  spell("b", call.inputs[0].rank() - normalised);
  spell("a", normalised);
  return Space::parse(line, Combiner::sum);
}

void set_space(OpDef& op, const std::string& line) {
  op.space(line);
  op.indices = [line](const OpCall& call) { return space_for(call, line).indices(call); };
  op.region = [line](const OpCall& call, const Box& box, Operand operand) {
    return space_for(call, line).region(call, box, operand);
  };
}

void add_axes(OpDef& op) { op.attr("axes", std::vector<int64_t>{-1}, "the normalised dimensions, the last ones"); }

std::vector<WeightSpec> layer_norm_weights(const OpCall& call) {
  expect_float(call, 0);
  const TensorType type = trailing(call);
  if (!call.attrs.flag("elementwise_affine")) return {};
  return {{"gamma", type, {{"initializer", std::string("ones")}}},
          {"beta", type, {{"initializer", std::string("zeros")}}}};
}

std::vector<TensorType> layer_norm_shape(const OpCall& call) {
  const bool affine = call.attrs.flag("elementwise_affine");
  expect_inputs(call, affine ? 3 : 1, affine ? "x, gamma, beta" : "x");
  expect_float(call, 0);
  for (int i = 1; i < static_cast<int>(call.inputs.size()); ++i)
    expect_type(call, i, trailing(call), i == 1 ? "gamma" : "beta");
  return {call.inputs[0], leading(call), leading(call)};
}

// Steps that the expansions of layer_norm and of its gradient share.
struct Steps {
  Expansion& ctx;

  Value mean(Value x) { return ctx.emit("reduce_mean", {x}, {{"axes", ctx.attrs().ints("axes")}, {"keepdims", true}}); }
  Value times(Value a, Value b) { return ctx.emit("multiply", {a, b}); }
  Value minus(Value a, Value b) { return ctx.emit("subtract", {a, b}); }
  Value rstd(Value var) {
    return ctx.emit("rsqrt", {ctx.emit("scalar_add", {var}, {{"scalar", ctx.attrs().real("eps")}})});
  }
  // A statistic with its normalised dimensions as ones, or without them.
  Value keep(Value statistic, const Shape& x) {
    Shape shape = ctx.graph().type(statistic).shape;
    shape.resize(x.size(), 1);
    return ctx.emit("reshape", {statistic}, {{"shape", shape}});
  }
  Value drop(Value statistic, const Shape& leading) { return ctx.emit("reshape", {statistic}, {{"shape", leading}}); }
};

std::vector<Value> layer_norm_expand(Expansion& ctx) {
  Steps step{ctx};
  const Shape leading = ctx.node().outputs[1].shape;
  const Value mean = step.mean(ctx.in(0));
  const Value centred = step.minus(ctx.in(0), mean);
  const Value var = step.mean(step.times(centred, centred));
  Value y = step.times(centred, step.rstd(var));
  if (ctx.in_count() == 3) y = ctx.emit("add", {step.times(y, ctx.in(1)), ctx.in(2)});
  return {y, step.drop(mean, leading), step.drop(var, leading)};
}

std::vector<Value> grad_input_expand(Expansion& ctx) {
  Steps step{ctx};
  const Shape x = ctx.in_type(0).shape;
  const Value rstd = step.rstd(step.keep(ctx.in(3), x));
  const Value xhat = step.times(step.minus(ctx.in(0), step.keep(ctx.in(2), x)), rstd);
  const Value g = ctx.in_count() == 5 ? step.times(ctx.in(1), ctx.in(4)) : ctx.in(1);
  const Value along = step.times(xhat, step.mean(step.times(g, xhat)));
  return {step.times(step.minus(step.minus(g, step.mean(g)), along), rstd)};
}

OpDef layer_norm() {
  OpDef op("layer_norm");
  op.describe(
      "y = gamma (x - mean) / sqrt(variance + eps) + beta with the mean and variance over the last dimensions, which "
      "are the "
      "other outputs; weights: gamma, beta of the normalised shape.");
  add_axes(op);
  op.attr("elementwise_affine", true, "scale by gamma and add beta");
  op.attr("eps", 1e-5, "added to the variance");
  set_space(op, "b* a*, a*, a* -> b* a*, b*, b*");
  op.whole("axes").inplace(0, 0);
  op.weights = layer_norm_weights;
  op.shape = layer_norm_shape;
  op.flops = [](const OpCall& call) { return 7.0 * static_cast<double>(call.inputs[0].numel()); };
  op.grad = [](GradContext& ctx) {
    const Attrs axes = {{"axes", ctx.attrs().ints("axes")}, {"eps", ctx.attrs().real("eps")}};
    std::vector<Value> inputs = {ctx.in(0), ctx.dout(0), ctx.out(1), ctx.out(2)};
    const bool affine = ctx.in_count() == 3;
    if (affine && (ctx.needs(1) || ctx.needs(2))) {
      const std::vector<Value> grads = ctx.emit_all("layer_norm_grad_weight", inputs, axes);
      ctx.in_grad(1, grads[0]);
      ctx.in_grad(2, grads[1]);
    }
    if (affine) inputs.push_back(ctx.in(1));
    if (ctx.needs(0)) ctx.in_grad(0, ctx.emit("layer_norm_grad_input", inputs, axes));
  };
  op.expand = layer_norm_expand;
  return op;
}

OpDef grad_op(const std::string& name, int least, int most) {
  OpDef op(name);
  op.inputs(least, most).linear_in({1}).no_gradient();
  add_axes(op);
  op.attr("eps", 1e-5, "added to the variance");
  op.flops = [](const OpCall& call) { return 8.0 * static_cast<double>(call.inputs[0].numel()); };
  op.internal = true;
  return op;
}

OpDef layer_norm_grad_input() {
  OpDef op = grad_op("layer_norm_grad_input", 4, 5);
  op.describe("Gradient of layer_norm with respect to x, from x, dy, mean, variance and, where there is one, gamma.");
  set_space(op, "b* a*, b* a*, b*, b*, a* -> b* a*");
  op.whole("axes");
  op.shape = [](const OpCall& call) { return std::vector<TensorType>{call.inputs[0]}; };
  op.expand = grad_input_expand;
  return op;
}

// Apart from the gradient of x, because these are sums over the samples: splitting those leaves partial sums.
OpDef layer_norm_grad_weight() {
  OpDef op = grad_op("layer_norm_grad_weight", 4, 4);
  op.describe("Gradients of layer_norm with respect to gamma and beta, from x, dy, mean and variance.");
  set_space(op, "b* a*, b* a*, b*, b* -> a*, a*");
  op.shape = [](const OpCall& call) { return std::vector<TensorType>{trailing(call), trailing(call)}; };
  return op;
}

std::vector<OpDef> layer_norm_family() { return {layer_norm(), layer_norm_grad_input(), layer_norm_grad_weight()}; }

REGISTER_OPS(layer_norm_family);

}  // namespace
}  // namespace ff
