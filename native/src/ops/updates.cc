// What an optimizer does to one weight, and what is done to gradients and counters on the way.
#include "ops/rules.h"

namespace ff {
namespace {

const Attrs kZeros = {{"initializer", std::string("zeros")}};

WeightSpec slot(const std::string& name, const OpCall& call) { return {name, call.inputs[0], kZeros, false}; }

// The new weight, and new slots, all like the weight.
std::vector<TensorType> update_shape(const OpCall& call) {
  expect_float(call, 0);
  expect_type(call, 1, call.inputs[0], "the gradient");
  expect_type(call, 2, {DType::float64, {}}, "the learning rate");
  expect_type(call, 3, {DType::int64, {}}, "the step");
  for (size_t i = 4; i < call.inputs.size(); ++i)
    expect_type(call, static_cast<int>(i), call.inputs[0], "optimizer state");
  return std::vector<TensorType>(call.inputs.size() - 3, call.inputs[0]);
}

// A share that decays: a factor of 1 or more would grow without limit.
void expect_decay(const OpCall& call, const std::string& attr) {
  const double value = call.attrs.real(attr);
  if (value < 0 || value >= 1) bad_value(call.name, ": ", attr, " is ", value, "; expected 0 or more and less than 1");
}

OpDef sgd() {
  OpDef op("sgd");
  op.describe(
      "Stochastic gradient descent: inputs (w, g, lr, step), state velocity v where momentum is not 0. g += "
      "weight_decay * w; "
      "v = momentum * v + g; w -= lr * v, with nesterov w -= lr * (g + momentum * v).");
  op.inputs(4).space("x*, x*, , , x* -> x*, x*").inplace(0, 0).inplace(1, 4).no_gradient();
  op.attr("momentum", 0.0, "share of the velocity that is kept");
  op.attr("nesterov", false, "look ahead by one step of momentum");
  op.attr("weight_decay", 0.0, "multiple of the weight that is added to its gradient");
  op.weights = [](const OpCall& call) -> std::vector<WeightSpec> {
    expect_decay(call, "momentum");
    if (call.attrs.real("momentum") == 0) return {};
    return {slot("velocity", call)};
  };
  op.shape = update_shape;
  op.flops = flops_per_element(6);
  op.internal = true;
  return op;
}
REGISTER_OP(sgd);

OpDef adam() {
  OpDef op("adam");
  op.describe(
      "Adam (Kingma and Ba, 2015, the form at the end of its section 2): inputs (w, g, lr, step), states m and v, zero "
      "at first. "
      "g += weight_decay * w; m and v are decaying means of g and g^2; "
      "w -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon), t = step + 1.");
  op.inputs(4).space("x*, x*, , , x*, x* -> x*, x*, x*").inplace(0, 0).inplace(1, 4).inplace(2, 5).no_gradient();
  op.attr("beta1", 0.9, "share of the mean of gradients that is kept");
  op.attr("beta2", 0.999, "share of the mean of squared gradients that is kept");
  op.attr("epsilon", 1e-8, "added to the root in the denominator");
  op.attr("weight_decay", 0.0, "multiple of the weight that is added to its gradient");
  op.weights = [](const OpCall& call) -> std::vector<WeightSpec> {
    expect_decay(call, "beta1");
    expect_decay(call, "beta2");
    return {slot("m", call), slot("v", call)};
  };
  op.shape = update_shape;
  op.flops = flops_per_element(14);
  op.internal = true;
  return op;
}
REGISTER_OP(adam);

OpDef regularize() {
  OpDef op("regularize");
  op.describe("The gradient with that of the penalties: inputs (g, w), output g + l1 * sign(w) + l2 * w.");
  op.inputs(2).space("x*, x* -> x*").inplace(0, 0).no_gradient();
  op.attr("l1", 0.0, "factor of the absolute values");
  op.attr("l2", 0.0, "factor of the squares, halved: the gradient is l2 * w");
  op.shape = [](const OpCall& call) -> std::vector<TensorType> {
    expect_float(call, 0);
    expect_type(call, 1, call.inputs[0], "the weight");
    return {call.inputs[0]};
  };
  op.flops = flops_per_element(4);
  op.internal = true;
  return op;
}
REGISTER_OP(regularize);

OpDef square_sum() {
  OpDef op("square_sum");
  op.describe("The sum of the squares of a gradient, in float64.");
  op.inputs(1).space("x* -> ").no_gradient();
  op.shape = [](const OpCall& call) -> std::vector<TensorType> {
    expect_float(call, 0);
    return {{DType::float64, {}}};
  };
  op.flops = flops_per_element(2);
  op.internal = true;
  return op;
}
REGISTER_OP(square_sum);

OpDef clip_factor() {
  OpDef op("clip_factor");
  op.describe("From the sums of squares of all gradients the factor min(1, norm / sqrt(their sum)).");
  op.inputs(1, -1).space("x*... -> x*").no_gradient();
  op.required("norm", AttrType::real, "the most that the norm of all gradients together may be");
  op.shape = [](const OpCall& call) -> std::vector<TensorType> {
    for (size_t i = 0; i < call.inputs.size(); ++i)
      expect_type(call, static_cast<int>(i), {DType::float64, {}}, "a sum of squares");
    return {{DType::float64, {}}};
  };
  op.flops = [](const OpCall& call) { return static_cast<double>(call.inputs.size()) + 3; };
  op.internal = true;
  return op;
}
REGISTER_OP(clip_factor);

OpDef scale() {
  OpDef op("scale");
  op.describe("A gradient times a factor that is computed: inputs (g, factor), output g * factor.");
  op.inputs(2).space("x*, -> x*").linear_in({0}).inplace(0, 0).no_gradient();
  op.shape = [](const OpCall& call) -> std::vector<TensorType> {
    expect_float(call, 0);
    expect_type(call, 1, {DType::float64, {}}, "the factor");
    return {call.inputs[0]};
  };
  op.flops = flops_per_element(1);
  op.internal = true;
  return op;
}
REGISTER_OP(scale);

OpDef increment() {
  OpDef op("increment");
  op.describe("A counter plus one.");
  op.inputs(1).space("x* -> x*").inplace(0, 0).no_gradient();
  op.shape = [](const OpCall& call) -> std::vector<TensorType> {
    expect_integer(call, 0);
    return {call.inputs[0]};
  };
  op.flops = flops_per_element(1);
  op.internal = true;
  return op;
}
REGISTER_OP(increment);

}  // namespace
}  // namespace ff
