// Mixture of experts: group_by sends samples to the experts that were chosen for them, aggregate weighs what the
// experts made of them. An expert has a limited number of places and gives them away in the order of the samples in the
// whole batch, whatever is split: each part sees all choices, which are few, and only its own of everything else.
//
// Indices: b0 samples, e experts, c places of an expert, x1, x2, ... features.
#include <cmath>

#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

Box expert_box(int64_t samples, int64_t experts, const Shape& served) {
  Box box = {{"b0", 0, samples, samples}, {"e", 0, experts, experts}, {"c", 0, served[0], served[0]}};
  for (size_t d = 1; d < served.size(); ++d) box.push_back({cat("x", d), 0, served[d], served[d]});
  return box;
}

Rect rect_over(const Box& box, const IndexRange& rows) {
  Rect rect{{rows.origin}, {rows.extent}};
  for (size_t d = 3; d < box.size(); ++d) {
    rect.origin.push_back(box[d].origin);
    rect.extent.push_back(box[d].extent);
  }
  return rect;
}

// Features of samples, (samples, features...).
Rect by_sample(const Box& box) { return rect_over(box, box[0]); }

// What one expert is given or gives, (places, features...); nothing, where the expert is another part's.
Rect by_place(const Box& box, int64_t expert) {
  const bool mine = expert >= box[1].origin && expert < box[1].origin + box[1].extent;
  return rect_over(box, mine ? box[2] : IndexRange{"c", 0, 0, box[2].global});
}

// Rows of a matrix with a row per sample.
Rect rows_of(const Box& box, const TensorType& matrix) {
  return {{box[0].origin, 0}, {box[0].extent, matrix.shape[1]}};
}

Rect all_of(const TensorType& type) { return {Shape(type.rank(), 0), type.shape}; }

void expect_choices(const OpCall& call, int input, int64_t samples) {
  expect_integer(call, input);
  expect_rank(call, input, 2, 2, "(samples, choices)");
  if (call.inputs[input].dim(0) != samples)
    bad_value(call.name, ": input ", input, " has choices for ", call.inputs[input].dim(0), " samples; expected ",
              samples);
}

int64_t capacity(const OpCall& call, int64_t samples, int64_t choices) {
  const double share = call.attrs.real("alpha") * static_cast<double>(choices * samples);
  // A product that is whole but for rounding is whole.
  return static_cast<int64_t>(std::ceil(share / static_cast<double>(call.attrs.integer("n")) - 1e-9));
}

// Each has a tensor of its own.
void expect_experts(const OpCall& call) {
  constexpr int64_t kMost = 256;
  const int64_t n = call.attrs.integer("n");
  if (n < 1 || n > kMost) bad_value(call.name, ": attribute \"n\" is ", n, "; expected 1 to ", kMost, " experts");
}

Domain choice_domain(const OpCall& call, int) { return {0, call.attrs.integer("n")}; }

OpDef expert_op(const std::string& name, int64_t first_expert_input) {
  OpDef op(name);
  op.required("n", AttrType::integer, "number of experts");
  op.domain = choice_domain;
  op.flops = flops_per_element(1);
  op.inputs(static_cast<int>(first_expert_input), -1);
  return op;
}

// ---- to the experts ----
std::vector<TensorType> served(const OpCall& call, TensorType type, int64_t places) {
  type.shape[0] = places;
  return std::vector<TensorType>(static_cast<size_t>(call.attrs.integer("n")), type);
}

OpDef group_by() {
  OpDef op = expert_op("group_by", 2);
  op.describe(
      "For each of n experts, the samples that chose it, in their order, then zeros: ceil(alpha k samples / n) rows. "
      "Who comes after these goes without.");
  op.required("alpha", AttrType::real, "places of all experts per choice; more than 0");
  op.inputs(2).linear_in({0});
  op.indices = [](const OpCall& call) {
    return expert_box(call.inputs[0].dim(0), call.attrs.integer("n"), call.outputs[0].shape);
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    if (operand.output) return by_place(box, operand.index);
    return operand.index == 0 ? by_sample(box) : all_of(call.inputs[1]);
  };
  op.shape = [](const OpCall& call) {
    expect_float(call, 0);
    expect_rank(call, 0, 1, 8, "(samples, features...)");
    expect_choices(call, 1, call.inputs[0].dim(0));
    const double alpha = call.attrs.real("alpha");
    if (!(alpha > 0 && alpha < 1e6))
      bad_value(call.name, ": attribute \"alpha\" is ", alpha, "; expected more than 0, about 1 or 2");
    expect_experts(call);
    return served(call, call.inputs[0], capacity(call, call.inputs[0].dim(0), call.inputs[1].dim(1)));
  };
  op.grad = [](GradContext& ctx) {
    if (!ctx.needs(0)) return;
    std::vector<Value> inputs = {ctx.in(1)};
    const auto n = static_cast<int>(ctx.node().outputs.size());
    for (int k = 0; k < n; ++k) inputs.push_back(ctx.dout(k));
    ctx.in_grad(0, ctx.emit("group_by_grad", inputs, {{"n", int64_t{n}}}));
  };
  return op;
}

OpDef group_by_grad() {
  OpDef op = expert_op("group_by_grad", 2);
  op.describe("Gradient of group_by: for each sample the sum of the rows that it has with experts.");
  op.no_gradient();
  op.indices = [](const OpCall& call) {
    return expert_box(call.inputs[0].dim(0), call.attrs.integer("n"), call.inputs[1].shape);
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    if (operand.output) return by_sample(box);
    return operand.index == 0 ? all_of(call.inputs[0]) : by_place(box, operand.index - 1);
  };
  op.shape = [](const OpCall& call) {
    TensorType data = call.inputs[1];
    data.shape[0] = call.inputs[0].dim(0);
    return std::vector<TensorType>{data};
  };
  op.internal = true;
  return op;
}

// ---- from the experts ----
constexpr int kExperts = 4;  // inputs before those from experts

std::vector<TensorType> aggregate_shape(const OpCall& call) {
  expect_experts(call);
  const int64_t n = call.attrs.integer("n");
  expect_inputs(call, static_cast<size_t>(kExperts + n),
                "gate_preds, gate_assign, true_gate_assign, full_gate_gradients and what each of the n experts made");
  expect_float(call, 0);
  expect_rank(call, 0, 2, 2, "(samples, choices)");
  const TensorType& gate = call.inputs[0];
  for (const int input : {1, 2}) {
    expect_choices(call, input, gate.dim(0));
    if (call.inputs[input].shape != gate.shape)
      bad_value(call.name, ": inputs 0 and ", input, " have shapes ", to_string(gate.shape), " and ",
                to_string(call.inputs[input].shape), "; expected equal ones, (samples, choices)");
  }
  expect_type(call, 3, {gate.dtype, {gate.dim(0), n}}, "full_gate_gradients (samples, n)");
  expect_rank(call, kExperts, 1, 8, "(places, features...)");
  TensorType y = call.inputs[kExperts];
  for (int k = 1; k < n; ++k) expect_type(call, kExperts + k, y, "what expert 0 made");
  expect_equal_dtypes(call, 0, kExperts);
  y.shape[0] = gate.dim(0);
  return {y};
}

Rect aggregate_region(const OpCall& call, const Box& box, Operand operand) {
  if (operand.output) return by_sample(box);
  if (operand.index >= kExperts) return by_place(box, operand.index - kExperts);
  const TensorType& type = call.inputs[operand.index];
  return is_float(type.dtype) ? rows_of(box, type) : all_of(type);
}

void aggregate_grad(GradContext& ctx) {
  const int64_t n = ctx.attrs().integer("n");
  std::vector<Value> experts(ctx.node().inputs.begin() + kExperts, ctx.node().inputs.end());
  if (ctx.needs(0)) {
    std::vector<Value> inputs = {ctx.in(1), ctx.in(2), ctx.dout(0)};
    inputs.insert(inputs.end(), experts.begin(), experts.end());
    ctx.in_grad(0, ctx.emit("aggregate_grad_gate", inputs, {{"n", n}}));
  }
  if (ctx.needs(3) && ctx.attrs().real("lambda_bal") != 0)
    ctx.in_grad(3, ctx.emit("expert_balance", {ctx.in(2)},
                            {{"n", n},
                             {"lambda_bal", ctx.attrs().real("lambda_bal")},
                             {"dtype", std::string(name_of(ctx.in_type(3).dtype))}}));
  bool any = false;
  for (int k = 0; k < n; ++k) any = any || ctx.needs(kExperts + k);
  if (!any) return;
  const std::vector<Value> grads = ctx.emit_all("aggregate_grad_experts", {ctx.dout(0), ctx.in(1), ctx.in(0)},
                                                {{"n", n}, {"places", ctx.in_type(kExperts).dim(0)}});
  for (int k = 0; k < n; ++k)
    if (ctx.needs(kExperts + k)) ctx.in_grad(kExperts + k, grads[static_cast<size_t>(k)]);
}

OpDef aggregate() {
  OpDef op = expert_op("aggregate", kExperts + 1);
  op.describe(
      "For each sample the sum of what its experts made of it, weighed by gate_preds; who found no place adds nothing. "
      "Inputs: gate_preds (samples, k), gate_assign and true_gate_assign (samples, k), full_gate_gradients (samples, "
      "n) and, of each expert, (places, features...).");
  op.attr("lambda_bal", 0.0, "weight of a loss that balances the experts, whose gradient goes to full_gate_gradients");
  op.indices = [](const OpCall& call) {
    return expert_box(call.inputs[0].dim(0), call.attrs.integer("n"), call.inputs[kExperts].shape);
  };
  op.region = aggregate_region;
  op.shape = aggregate_shape;
  op.grad = aggregate_grad;
  return op;
}

OpDef aggregate_grad_gate() {
  OpDef op = expert_op("aggregate_grad_gate", 4);
  op.describe(
      "Gradient of aggregate with respect to gate_preds, from gate_assign, true_gate_assign, dy and what the experts "
      "made; 0 where the two choices differ.");
  op.linear_in({2}).no_gradient();
  op.indices = [](const OpCall& call) {
    return expert_box(call.inputs[0].dim(0), call.attrs.integer("n"), call.inputs[3].shape);
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    if (operand.output) return rows_of(box, call.outputs[0]);
    if (operand.index == 2) return by_sample(box);
    return operand.index < 2 ? all_of(call.inputs[operand.index]) : by_place(box, operand.index - 3);
  };
  op.shape = [](const OpCall& call) { return std::vector<TensorType>{{call.inputs[2].dtype, call.inputs[0].shape}}; };
  op.internal = true;
  return op;
}

OpDef aggregate_grad_experts() {
  OpDef op = expert_op("aggregate_grad_experts", 3);
  op.describe("Gradient of aggregate with respect to what the experts made, from dy, gate_assign and gate_preds.");
  op.inputs(3).linear_in({0}).no_gradient();
  op.required("places", AttrType::integer, "of each expert");
  op.indices = [](const OpCall& call) {
    return expert_box(call.inputs[0].dim(0), call.attrs.integer("n"), call.outputs[0].shape);
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    if (operand.output) return by_place(box, operand.index);
    if (operand.index == 0) return by_sample(box);
    return operand.index == 1 ? all_of(call.inputs[1]) : rows_of(box, call.inputs[2]);
  };
  op.shape = [](const OpCall& call) { return served(call, call.inputs[0], call.attrs.integer("places")); };
  op.internal = true;
  return op;
}

// Of a loss lambda_bal n / samples * (sum over samples and experts of their gate times how often the expert was
// chosen), the choices held fixed; without its mean over the experts, which would only move all gates.
OpDef expert_balance() {
  OpDef op("expert_balance");
  op.describe(
      "lambda_bal n / samples * (how often each expert was chosen, less the mean of that), the same for each sample.");
  op.required("n", AttrType::integer, "number of experts");
  op.required("lambda_bal", AttrType::real, "weight of the balance");
  op.attr("dtype", std::string("float32"), "dtype of the result", {"float16", "bfloat16", "float32", "float64"});
  op.inputs(1).no_gradient();
  op.indices = [](const OpCall& call) {
    const Shape& gates = call.outputs[0].shape;
    return Box{{"b0", 0, gates[0], gates[0]}, {"e", 0, gates[1], gates[1]}};
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    if (!operand.output) return all_of(call.inputs[0]);
    return Rect{{box[0].origin, box[1].origin}, {box[0].extent, box[1].extent}};
  };
  op.shape = [](const OpCall& call) {
    const DType dtype = dtype_from_name(call.attrs.text("dtype"));
    return std::vector<TensorType>{{dtype, {call.inputs[0].dim(0), call.attrs.integer("n")}}};
  };
  op.domain = choice_domain;
  op.flops = flops_per_element(1);
  op.internal = true;
  return op;
}

std::vector<OpDef> expert_family() {
  return {group_by(), group_by_grad(), aggregate(), aggregate_grad_gate(), aggregate_grad_experts(), expert_balance()};
}

REGISTER_OPS(expert_family);

}  // namespace
}  // namespace ff
