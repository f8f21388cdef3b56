// lstm, shorthand for a linear op over all steps at once and lstm_scan, which goes through time.
#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

constexpr int64_t kGates = 4;  // input, forget, cell, output

// Of the weights: the first two, or all four.
int64_t weights_of(const OpCall& call) { return call.attrs.flag("use_bias") ? 4 : 2; }
int64_t data_of(const OpCall& call) { return call.attrs.flag("initial_state") ? 3 : 1; }

Space lstm_space(const OpCall& call) {
  const std::string states = call.attrs.flag("initial_state") ? "b0 h, b0 h, " : "";
  return Space::parse("b0 t i, " + states + "o i, g h, o, g -> b0 t h, b0 h, b0 h", Combiner::sum);
}

TensorType state_type(const OpCall& call) {
  return {call.inputs[0].dtype, {call.inputs[0].dim(0), call.attrs.integer("hidden_size")}};
}

std::vector<WeightSpec> lstm_weights(const OpCall& call) {
  expect_float(call, 0);
  expect_rank(call, 0, 3, 3, "(batch, sequence, features)");
  expect_least(call, "hidden_size", 1);
  const int64_t hidden = call.attrs.integer("hidden_size"), in = call.inputs[0].dim(2);
  const DType dtype = call.inputs[0].dtype;
  const auto kernel = [&](const std::string& name, int64_t columns) {
    return WeightSpec{name,
                      {dtype, {kGates * hidden, columns}},
                      {{"initializer", std::string("glorot_uniform")}, {"fan_in", columns}, {"fan_out", hidden}}};
  };
  std::vector<WeightSpec> specs = {kernel("weight_ih", in), kernel("weight_hh", hidden)};
  if (call.attrs.flag("use_bias"))
    for (const char* name : {"bias_ih", "bias_hh"})
      specs.push_back({name, {dtype, {kGates * hidden}}, {{"initializer", std::string("zeros")}}});
  // Of inputs that could be states or weights the attribute tells.
  const auto given = static_cast<int64_t>(call.inputs.size());
  return given == data_of(call) ? specs : std::vector<WeightSpec>{};
}

std::vector<TensorType> lstm_shape(const OpCall& call) {
  OpCall data = call;
  data.inputs.resize(std::min(call.inputs.size(), static_cast<size_t>(data_of(call))));
  const std::vector<WeightSpec> specs = lstm_weights(data);
  expect_inputs(call, static_cast<size_t>(data_of(call) + weights_of(call)),
                call.attrs.flag("initial_state") ? "x, h0, c0 and the weights" : "x and the weights");
  if (call.inputs[0].dim(1) < 1) bad_value(call.name, ": the sequence is empty; expected one step at least");
  const TensorType state = state_type(call);
  for (int64_t i = 1; i < data_of(call); ++i)
    expect_type(call, static_cast<int>(i), state, "a state (batch, hidden_size)");
  for (size_t i = 0; i < specs.size(); ++i)
    expect_type(call, static_cast<int>(i) + static_cast<int>(data_of(call)), specs[i].type, specs[i].name);
  return {{state.dtype, {state.shape[0], call.inputs[0].dim(1), state.shape[1]}}, state, state};
}

std::vector<Value> lstm_expand(Expansion& ctx) {
  const OpCall call = ctx.graph().call(ctx.graph().find(ctx.node().name).node);
  const bool states = call.attrs.flag("initial_state"), bias = call.attrs.flag("use_bias");
  const int first = static_cast<int>(data_of(call));
  std::vector<Value> inputs = {ctx.in(0), ctx.in(first)};
  if (bias) inputs.push_back(ctx.emit("add", {ctx.in(first + 2), ctx.in(first + 3)}));
  const Value gates = ctx.emit("linear", inputs, {{"out_channels", ctx.in_type(first).dim(0)}, {"use_bias", bias}});
  const TensorType state = state_type(call);
  const Value h0 = states ? ctx.in(1) : ctx.fill(state, 0.0), c0 = states ? ctx.in(2) : ctx.fill(state, 0.0);
  std::vector<Value> outputs = ctx.emit_all("lstm_scan", {gates, ctx.in(first + 1), h0, c0});
  outputs.resize(3);
  return outputs;
}

OpDef lstm() {
  OpDef op("lstm");
  op.describe(
      "A layer of long short-term memory over (batch, sequence, features): the hidden state after each step, and "
      "hidden "
      "and cell state after the last; weights: weight_ih (4 hidden_size, features), weight_hh (4 hidden_size, "
      "hidden_size), bias_ih, bias_hh, with the input, forget, cell and output gate in this order.");
  op.required("hidden_size", AttrType::integer, "units, the features of the result");
  op.attr("use_bias", true, "add biases to the gates");
  op.attr("initial_state", false, "inputs 1 and 2 are the hidden and the cell state before the first step; else zeros");
  op.inputs(1, 3);
  op.indices = [](const OpCall& call) { return lstm_space(call).indices(call); };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    return lstm_space(call).region(call, box, operand);
  };
  op.whole_index("t", "each step needs the one before it")
      .whole_index("h", "in each step all units feed all others")
      .whole_index("g", "in each step all units feed all others");
  op.composite = true;
  op.weights = lstm_weights;
  op.shape = lstm_shape;
  op.flops = [](const OpCall& call) {
    const Shape& x = call.inputs[0].shape;
    const int64_t hidden = call.attrs.integer("hidden_size");
    return 2.0 * static_cast<double>(x[0] * x[1]) * static_cast<double>(kGates * hidden) *
           static_cast<double>(x[2] + hidden);
  };
  op.expand = lstm_expand;
  return op;
}

OpDef scan(const std::string& name, const std::string& space) {
  OpDef op(name);
  op.space(space);
  op.whole_index("t", "each step needs the one before it")
      .whole_index("h", "in each step all units feed all others")
      .whole_index("g", "in each step all units feed all others");
  op.internal = true;
  return op;
}

// Each step's gates, states and outputs feed the next one's: y[t - 1] is what weight_hh met at step t.
void scan_grad(GradContext& ctx) {
  const std::vector<Value> grads = ctx.emit_all(
      "lstm_scan_grad", {ctx.in(1), ctx.out(3), ctx.out(4), ctx.in(3), ctx.dout(0), ctx.dout(1), ctx.dout(2)});
  for (const auto& [input, grad] : {std::pair{0, 0}, {2, 1}, {3, 2}})
    if (ctx.needs(input)) ctx.in_grad(input, grads[static_cast<size_t>(grad)]);
  if (!ctx.needs(1)) return;
  const Shape y = ctx.out_type(0).shape;
  const Value first = ctx.emit("reshape", {ctx.in(2)}, {{"shape", Shape{y[0], 1, y[2]}}});
  const Attrs sizes = {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{y[1] - 1, 1}}};
  const Value rest = ctx.emit_all("split", {ctx.out(0)}, sizes)[0];
  const Value met = ctx.emit("concat", {first, rest}, {{"axis", int64_t{1}}});
  ctx.in_grad(1, ctx.emit("linear_grad_weight", {met, grads[0]}, {{"use_bias", false}}));
}

OpDef lstm_scan() {
  OpDef op = scan("lstm_scan", "b* t g, g h, b* h, b* h -> b* t h, b* h, b* h, b* t g, b* t h");
  op.describe(
      "The steps of lstm from what x gives to the gates (batch, sequence, 4 units), weight_hh and the states before: "
      "hidden states, the last of them, the last cell state and, for the gradient, gates and cell states.");
  op.inputs(4).inplace(3, 0);
  op.shape = [](const OpCall& call) {
    expect_float(call, 0);
    expect_rank(call, 0, 3, 3, "(batch, sequence, 4 units)");
    const TensorType& gates = call.inputs[0];
    const int64_t units = gates.dim(2) / kGates;
    const TensorType state{gates.dtype, {gates.dim(0), units}}, all{gates.dtype, {gates.dim(0), gates.dim(1), units}};
    expect_type(call, 1, {gates.dtype, {kGates * units, units}}, "weight_hh");
    for (const int i : {2, 3}) expect_type(call, i, state, "a state (batch, units)");
    return std::vector<TensorType>{all, state, state, gates, all};
  };
  op.flops = [](const OpCall& call) {
    return 2.0 * static_cast<double>(call.inputs[0].numel()) * static_cast<double>(call.inputs[1].dim(1));
  };
  op.grad = scan_grad;
  return op;
}

OpDef lstm_scan_grad() {
  OpDef op = scan("lstm_scan_grad", "g h, b* t g, b* t h, b* h, b* t h, b* h, b* h -> b* t g, b* h, b* h");
  op.describe(
      "Gradients of lstm_scan with respect to its gates and the states before, from weight_hh, gates, cell states, the "
      "first cell state and the gradients of hidden states, last hidden and last cell state.");
  op.inputs(7).no_gradient();
  op.shape = [](const OpCall& call) { return std::vector<TensorType>{call.inputs[1], call.inputs[3], call.inputs[3]}; };
  op.flops = [](const OpCall& call) {
    return 2.0 * static_cast<double>(call.inputs[1].numel()) * static_cast<double>(call.inputs[0].dim(1));
  };
  return op;
}

std::vector<OpDef> lstm_family() { return {lstm(), lstm_scan(), lstm_scan_grad()}; }

REGISTER_OPS(lstm_family);

}  // namespace
}  // namespace ff
