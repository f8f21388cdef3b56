// Operators that change how a tensor is held and not what it says: its element type, its physical layout.
#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

std::vector<OpDef> casts() {
  OpDef cast("cast");
  cast.describe("The same numbers in another dtype: to integers by dropping the fraction, to bool as x != 0.");
  cast.inputs(1).space("x* -> x*");
  cast.required("dtype", AttrType::text, "the element type of the output");
  cast.shape = [](const OpCall& call) -> std::vector<TensorType> {
    const DType dtype = dtype_from_name(call.attrs.text("dtype"));
    if (dtype == DType::opaque) bad_value(call.name, ": dtype is opaque; expected a dtype that holds numbers");
    return {{dtype, call.inputs[0].shape}};
  };
  cast.flops = flops_per_element(1);
  cast.grad = [](GradContext& ctx) {
    const DType from = ctx.in_type(0).dtype;
    if (is_float(from) && is_float(ctx.out_type(0).dtype))
      ctx.in_grad(0, ctx.emit("cast", {ctx.dout(0)}, {{"dtype", std::string(name_of(from))}}));
  };

  OpDef reorder("reorder");
  reorder.describe("The same tensor in another physical layout.");
  reorder.inputs(1).space("x* -> x*").no_gradient();
  reorder.required("to", AttrType::text, "name of the layout of the output");
  reorder.shape = like_first;
  reorder.flops = flops_per_element(0);
  reorder.internal = true;
  return {cast, reorder};
}
REGISTER_OPS(casts);

}  // namespace
}  // namespace ff
