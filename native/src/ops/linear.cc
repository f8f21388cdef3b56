// linear: y = x kernel^T + bias over the last dimension, and its gradients.
#include "ops/check.h"
#include "ops/grad.h"

namespace ff {
namespace {

std::vector<TensorType> linear_shape(const OpCall& call) {
  const bool use_bias = call.attrs.flag("use_bias");
  expect_inputs(call, use_bias ? 3 : 2, use_bias ? "x, kernel, bias" : "x, kernel");
  TensorType y = call.inputs[0];
  const int64_t out = call.attrs.integer("out_channels");
  expect_type(call, 1, {y.dtype, {out, y.shape.back()}}, "the kernel (out_channels, in_channels)");
  if (use_bias) expect_type(call, 2, {y.dtype, {out}}, "the bias (out_channels)");
  y.shape.back() = out;
  return {y};
}

std::vector<WeightSpec> linear_weights(const OpCall& call) {
  expect_float(call, 0);
  if (call.inputs[0].rank() == 0)
    bad_value(call.name, ": input 0 is a scalar; expected a rank of at least 1, (..., in_channels)");
  expect_least(call, "out_channels", 1);
  const TensorType& x = call.inputs[0];
  const int64_t out = call.attrs.integer("out_channels");
  std::vector<WeightSpec> specs = {
      {"kernel", {x.dtype, {out, x.shape.back()}}, {{"initializer", std::string("glorot_uniform")}}}};
  if (call.attrs.flag("use_bias")) specs.push_back({"bias", {x.dtype, {out}}, {{"initializer", std::string("zeros")}}});
  return specs;
}

void linear_grad(GradContext& ctx) {
  const std::string& activation = ctx.attrs().text("activation");
  FF_CHECK(activation == "none", ctx.node().name, ": expand before taking the gradient");
  if (ctx.needs(0)) ctx.in_grad(0, ctx.emit("linear_grad_input", {ctx.dout(0), ctx.in(1)}));
  const bool use_bias = ctx.in_count() == 3;
  if (!ctx.needs(1) && !(use_bias && ctx.needs(2))) return;
  const std::vector<Value> grads =
      ctx.emit_all("linear_grad_weight", {ctx.in(0), ctx.dout(0)}, {{"use_bias", use_bias}});
  ctx.in_grad(1, grads[0]);
  if (use_bias) ctx.in_grad(2, grads[1]);
}

// Nothing to return when there is no activation: the op is simple already.
std::vector<Value> expand_activation(Expansion& ctx) {
  Attrs attrs = ctx.attrs();
  const std::string activation = attrs.text("activation");
  if (activation == "none") return {};
  attrs.set("activation", std::string("none"));
  return {ctx.emit(activation, {ctx.emit("linear", ctx.node().inputs, attrs)})};
}

// Of the two gradients: every element of input 0 meets every column of input 1.
double product_flops(const OpCall& call) {
  return 2.0 * static_cast<double>(call.inputs[0].numel()) * static_cast<double>(call.inputs[1].dim(-1));
}

OpDef linear() {
  OpDef op("linear");
  op.describe(
      "y = activation(x kernel^T + bias), over the last dimension of x; weights: kernel (out, in), bias (out).");
  op.required("out_channels", AttrType::integer, "size of the last dimension of the output");
  op.attr("use_bias", true, "add a bias");
  op.attr("activation", std::string("none"), "applied to the sum", {"none", "relu", "sigmoid", "tanh", "gelu"});
  // A part of i other than the first leaves the bias out, so that the parts add up.
  op.space("b* i, o i, o -> b* o");
  op.shape = linear_shape;
  op.weights = linear_weights;
  op.flops = [](const OpCall& call) {
    return 2.0 * static_cast<double>(call.outputs[0].numel()) * static_cast<double>(call.inputs[1].dim(1));
  };
  op.grad = linear_grad;
  op.expand = expand_activation;
  return op;
}

OpDef linear_grad_input() {
  OpDef op("linear_grad_input");
  op.describe("Gradient of linear with respect to x: dy kernel.");
  op.inputs(2).space("b* o, o i -> b* i").linear_in({0});
  op.shape = [](const OpCall& call) {
    TensorType dx = call.inputs[0];
    expect_type(call, 1, {dx.dtype, {dx.shape.back(), call.inputs[1].dim(-1)}}, "the kernel (out, in)");
    dx.shape.back() = call.inputs[1].dim(-1);
    return std::vector<TensorType>{dx};
  };
  op.flops = product_flops;
  op.no_gradient();
  op.internal = true;
  return op;
}

OpDef linear_grad_weight() {
  OpDef op("linear_grad_weight");
  op.describe("Gradients of linear with respect to kernel, dy^T x, and to bias, the sum of dy.");
  op.inputs(2).space("b* i, b* o -> o i, o").linear_in({1});
  op.attr("use_bias", true, "give the bias gradient as a second output");
  op.shape = [](const OpCall& call) {
    const TensorType& x = call.inputs[0];
    TensorType dy = x;
    dy.shape.back() = call.inputs[1].dim(-1);
    expect_type(call, 1, dy, "dy");
    std::vector<TensorType> grads = {{x.dtype, {dy.shape.back(), x.shape.back()}}};
    if (call.attrs.flag("use_bias")) grads.push_back({x.dtype, {dy.shape.back()}});
    return grads;
  };
  op.flops = product_flops;
  op.no_gradient();
  op.internal = true;
  return op;
}

std::vector<OpDef> linear_family() { return {linear(), linear_grad_input(), linear_grad_weight()}; }

REGISTER_OPS(linear_family);

}  // namespace
}  // namespace ff
