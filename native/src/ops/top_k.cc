// top_k: the largest elements of the last dimension, and where they stand.
#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

std::vector<TensorType> top_k_shape(const OpCall& call) {
  expect_number(call);
  TensorType values = call.inputs[0];
  if (values.rank() == 0) bad_value(call.name, ": input 0 is a scalar; expected a rank of at least 1");
  const int64_t k = call.attrs.integer("k"), n = values.shape.back();
  if (k < 1 || k > n)
    bad_value(call.name, ": attribute \"k\" is ", k, " and the last dimension has ", n,
              " elements; expected 1 <= k <= ", n);
  values.shape.back() = k;
  return {values, {DType::int32, values.shape}};
}

OpDef top_k() {
  OpDef op("top_k");
  op.describe(
      "The k largest elements of the last dimension (NaN above all) and, as int32, their indices; of equal ones the "
      "first.");
  op.required("k", AttrType::integer, "how many");
  op.attr("sorted", true, "the largest first; otherwise in the order in which they stand");
  op.inputs(1).space("b* i -> b* k, b* k");
  op.whole_index("i", "each element is compared with all others").whole_index("k", "its elements are chosen together");
  op.shape = top_k_shape;
  op.flops = flops_per_element(2);
  op.grad = [](GradContext& ctx) {
    if (!ctx.has_dout(0) || !is_float(ctx.in_type(0).dtype)) return;
    const Attrs attrs = {{"dim", int64_t{-1}}, {"input_shape", ctx.in_type(0).shape}};
    ctx.in_grad(0, ctx.emit("gather_grad", {ctx.out(1), ctx.dout(0)}, attrs));
  };
  return op;
}

REGISTER_OP(top_k);

}  // namespace
}  // namespace ff
