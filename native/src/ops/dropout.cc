// dropout: zero a random share of the elements and scale the others; its gradient draws the same mask again.
#include "ops/check.h"
#include "ops/grad.h"

namespace ff {
namespace {

OpDef masked(const std::string& name) {
  OpDef op(name);
  op.inputs(1, 2).linear_in({0}).inplace(0, 0);
  op.required("rate", AttrType::real, "share of the elements that becomes zero, from 0 to less than 1");
  op.attr("seed", int64_t{-1}, "seed of the mask; -1: the model's seed");
  op.attr("stream", int64_t{0}, "random stream; 0: one of its own");
  op.random = true;
  // The second input is the step counter, which lowering adds.
  op.space("b*, -> b*");
  op.shape = [](const OpCall& call) {
    expect_float(call, 0);
    const double rate = call.attrs.real("rate");
    if (!(rate >= 0 && rate < 1)) bad_value(call.name, ": attribute \"rate\" is ", rate, "; expected 0 <= rate < 1");
    if (call.inputs.size() == 2) expect_type(call, 1, {DType::int64, {}}, "the step counter");
    return std::vector<TensorType>{call.inputs[0]};
  };
  op.flops = [](const OpCall& call) { return 2.0 * static_cast<double>(call.inputs[0].numel()); };
  return op;
}

OpDef dropout() {
  OpDef op = masked("dropout");
  op.describe("x mask / (1 - rate); each element of the mask is 0 with probability rate, else 1. In inference, x.");
  op.grad = [](GradContext& ctx) {
    if (!ctx.needs(0)) return;
    std::vector<Value> inputs = ctx.node().inputs;
    inputs[0] = ctx.dout(0);
    ctx.in_grad(0, ctx.emit("dropout_grad", inputs, ctx.attrs()));
  };
  op.inference = [](Expansion& ctx) { return std::vector<Value>{ctx.in(0)}; };
  return op;
}

OpDef dropout_grad() {
  OpDef op = masked("dropout_grad");
  op.describe("Gradient of dropout: dy mask / (1 - rate), with the mask of the same seed, stream and step.");
  op.no_gradient();
  op.internal = true;
  return op;
}

std::vector<OpDef> dropout_family() { return {dropout(), dropout_grad()}; }

REGISTER_OPS(dropout_family);

}  // namespace
}  // namespace ff
