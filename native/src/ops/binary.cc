// Elementwise operators of two inputs, broadcast as NumPy does. Their gradients are composed of other operators and
// summed over the copies that broadcasting made.
#include "ops/broadcast.h"
#include "ops/rules.h"

namespace ff {
namespace {

std::vector<TensorType> binary_shape(const OpCall& call) {
  expect_equal_dtypes(call, 0, 1);
  if (call.op == "divide")
    expect_float(call, 0);
  else
    expect_number(call);
  return {{call.inputs[0].dtype, broadcast(call.inputs[0].shape, call.inputs[1].shape, call.name)}};
}

OpDef binary(const std::string& name, const std::string& doc) {
  OpDef op(name);
  op.describe(doc + " Inputs of one dtype; shapes broadcast.");
  op.inputs(2).inplace(0, 0).inplace(0, 1);
  op.indices = broadcast_indices;
  op.region = broadcast_region;
  op.shape = binary_shape;
  op.flops = flops_per_element(1);
  return op;
}

void give(GradContext& ctx, int input, Value grad) { ctx.in_grad(input, sum_to(ctx, grad, ctx.in_type(input).shape)); }

void add_gradient(GradContext& ctx) {
  if (ctx.needs(0)) give(ctx, 0, ctx.dout(0));
  if (ctx.needs(1)) give(ctx, 1, ctx.dout(0));
}

void subtract_gradient(GradContext& ctx) {
  if (ctx.needs(0)) give(ctx, 0, ctx.dout(0));
  // Negated after the sum, where it is smaller.
  if (ctx.needs(1)) ctx.in_grad(1, ctx.emit("negative", {sum_to(ctx, ctx.dout(0), ctx.in_type(1).shape)}));
}

void multiply_gradient(GradContext& ctx) {
  if (ctx.needs(0)) give(ctx, 0, ctx.emit("multiply", {ctx.dout(0), ctx.in(1)}));
  if (ctx.needs(1)) give(ctx, 1, ctx.emit("multiply", {ctx.dout(0), ctx.in(0)}));
}

void divide_gradient(GradContext& ctx) {
  const Value share = ctx.emit("divide", {ctx.dout(0), ctx.in(1)});
  if (ctx.needs(0)) give(ctx, 0, share);
  if (!ctx.needs(1)) return;
  const Value product = ctx.emit("multiply", {share, ctx.out(0)});
  ctx.in_grad(1, ctx.emit("negative", {sum_to(ctx, product, ctx.in_type(1).shape)}));
}

void extremum_gradient(GradContext& ctx) {
  const std::vector<Value> grads = ctx.emit_all(ctx.node().op + "_grad", {ctx.dout(0), ctx.in(0), ctx.in(1)});
  for (int i = 0; i < 2; ++i)
    if (ctx.needs(i)) give(ctx, i, grads[i]);
}

OpDef extremum_grad(const std::string& name) {
  OpDef op(name + "_grad");
  op.describe(
      cat("Gradients of ", name, ": inputs (dy, a, b), outputs da and db in the shape of dy; ties share half each."));
  op.inputs(3).linear_in({0}).no_gradient();
  op.indices = broadcast_indices;
  op.region = broadcast_region;
  op.shape = [](const OpCall& call) -> std::vector<TensorType> { return {call.inputs[0], call.inputs[0]}; };
  op.flops = flops_per_element(2);
  op.internal = true;
  return op;
}

std::vector<OpDef> binary_ops() {
  struct Row {
    const char *name, *doc;
    void (*gradient)(GradContext&);
    std::vector<int> linear;  // one operand at a time
  };
  const Row rows[] = {
      {"add", "a + b.", add_gradient, {}},
      {"subtract", "a - b.", subtract_gradient, {}},
      {"multiply", "a * b.", multiply_gradient, {0, 1}},
      {"divide", "a / b, of floating-point tensors.", divide_gradient, {0}},
      {"maximum", "The larger of a and b.", extremum_gradient, {}},
      {"minimum", "The smaller of a and b.", extremum_gradient, {}},
  };
  std::vector<OpDef> ops;
  for (const Row& row : rows) {
    OpDef op = binary(row.name, row.doc);
    op.linear_in(row.linear);
    op.grad = [gradient = row.gradient](GradContext& ctx) {
      if (is_float(ctx.out_type(0).dtype)) gradient(ctx);
    };
    ops.push_back(std::move(op));
  }
  ops.push_back(extremum_grad("maximum"));
  ops.push_back(extremum_grad("minimum"));
  return ops;
}
REGISTER_OPS(binary_ops);

}  // namespace
}  // namespace ff
