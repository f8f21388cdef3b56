// softmax and log_softmax along one axis, and their gradients from the output.
#include "ops/check.h"
#include "ops/grad.h"

namespace ff {
namespace {

OpDef along_axis(const std::string& name, int inputs) {
  OpDef op(name);
  op.inputs(inputs).whole("axis").inplace(0, 0);
  op.attr("axis", int64_t{-1}, "the dimension that is normalised");
  op.space(inputs == 1 ? "b* -> b*" : "b*, b* -> b*");
  op.shape = [](const OpCall& call) {
    expect_float(call, 0);
    normal_axis(call.attrs.integer("axis"), call.inputs[0].rank(), call.name);
    if (call.inputs.size() == 2) expect_type(call, 1, call.inputs[0], "y");
    return std::vector<TensorType>{call.inputs[0]};
  };
  op.flops = [](const OpCall& call) { return 5.0 * static_cast<double>(call.inputs[0].numel()); };
  return op;
}

Value reduce(Emitter& ctx, const std::string& op, Value x) {
  return ctx.emit(op, {x}, {{"axes", std::vector<int64_t>{ctx.attrs().integer("axis")}}, {"keepdims", true}});
}

// x less its largest value, so that no exponential overflows.
Value shifted(Emitter& ctx) { return ctx.emit("subtract", {ctx.in(0), reduce(ctx, "reduce_max", ctx.in(0))}); }

void grad_from_output(GradContext& ctx) {
  if (!ctx.needs(0)) return;
  ctx.in_grad(0, ctx.emit(ctx.node().op + "_grad", {ctx.dout(0), ctx.out(0)}, {{"axis", ctx.attrs().integer("axis")}}));
}

OpDef softmax() {
  OpDef op = along_axis("softmax", 1);
  op.describe("exp(x) / sum of exp(x) along an axis.");
  op.grad = grad_from_output;
  op.expand = [](Expansion& ctx) {
    const Value e = ctx.emit("exp", {shifted(ctx)});
    return std::vector<Value>{ctx.emit("divide", {e, reduce(ctx, "reduce_sum", e)})};
  };
  return op;
}

OpDef log_softmax() {
  OpDef op = along_axis("log_softmax", 1);
  op.describe("x - log of the sum of exp(x) along an axis.");
  op.grad = grad_from_output;
  op.expand = [](Expansion& ctx) {
    const Value x = shifted(ctx);
    const Value total = reduce(ctx, "reduce_sum", ctx.emit("exp", {x}));
    return std::vector<Value>{ctx.emit("subtract", {x, ctx.emit("log", {total})})};
  };
  return op;
}

OpDef gradient(const std::string& name) {
  OpDef op = along_axis(name, 2);
  op.linear_in({0}).no_gradient();
  op.internal = true;
  return op;
}

OpDef softmax_grad() {
  OpDef op = gradient("softmax_grad");
  op.describe("Gradient of softmax from dy and y: y (dy - sum of dy y).");
  op.expand = [](Expansion& ctx) {
    const Value product = ctx.emit("multiply", {ctx.in(0), ctx.in(1)});
    const Value share = ctx.emit("multiply", {ctx.in(1), reduce(ctx, "reduce_sum", product)});
    return std::vector<Value>{ctx.emit("subtract", {product, share})};
  };
  return op;
}

OpDef log_softmax_grad() {
  OpDef op = gradient("log_softmax_grad");
  op.describe("Gradient of log_softmax from dy and y: dy - exp(y) sum of dy.");
  op.expand = [](Expansion& ctx) {
    const Value share = ctx.emit("multiply", {ctx.emit("exp", {ctx.in(1)}), reduce(ctx, "reduce_sum", ctx.in(0))});
    return std::vector<Value>{ctx.emit("subtract", {ctx.in(0), share})};
  };
  return op;
}

std::vector<OpDef> softmax_family() { return {softmax(), log_softmax(), softmax_grad(), log_softmax_grad()}; }

REGISTER_OPS(softmax_family);

}  // namespace
}  // namespace ff
