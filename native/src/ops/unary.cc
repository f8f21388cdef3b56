// Elementwise operators of one input. A table says what they are and what their gradients read; the functions
// themselves are the kernels' business.
#include <cmath>

#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

enum class Reads { x, y };

struct Row {
  std::string name, doc;
  Reads reads;        // what the gradient needs besides dy: the input or the output of the forward op
  double flops;       // per element, roughly
  bool ints = false;  // defined on integers too
  std::vector<AttrSpec> attrs = {};
};

AttrSpec real_attr(const std::string& name, double fallback, const std::string& doc) {
  return {name, AttrType::real, fallback, doc, {}};
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"relu", "max(x, 0).", Reads::y, 1},
      {"sigmoid", "1 / (1 + exp(-x)).", Reads::y, 8},
      {"tanh", "The hyperbolic tangent.", Reads::y, 10},
      {"gelu",
       "x * P(X <= x) for X standard normal (Hendrycks and Gimpel, 2016).",
       Reads::x,
       12,
       false,
       {{"approximate", AttrType::boolean, false, "use x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))", {}}}},
      {"elu",
       "x where x > 0, alpha * (exp(x) - 1) elsewhere.",
       Reads::y,
       8,
       false,
       {real_attr("alpha", 1.0, "minus the limit at minus infinity, 0 or more")}},
      {"leaky_relu",
       "x where x > 0, alpha * x elsewhere.",
       Reads::x,
       2,
       false,
       {real_attr("alpha", 0.01, "slope of the negative side")}},
      {"silu", "x * sigmoid(x), also called swish.", Reads::x, 9},
      {"exp", "e to the power of x.", Reads::y, 7},
      {"log", "The natural logarithm.", Reads::x, 7},
      {"sqrt", "The square root.", Reads::y, 2},
      {"rsqrt", "1 / sqrt(x).", Reads::y, 3},
      {"sin", "The sine; x in radians.", Reads::x, 10},
      {"cos", "The cosine; x in radians.", Reads::x, 10},
      {"abs", "The absolute value; its gradient at 0 is 0.", Reads::x, 1, true},
      {"square", "x * x.", Reads::x, 1, true},
      {"pow",
       "x to the power of a fixed exponent.",
       Reads::x,
       15,
       false,
       {{"exponent", AttrType::real, std::nullopt, "the power", {}}}},
  };
  return rows;
}

void add_attrs(OpDef& op, const std::vector<AttrSpec>& attrs) {
  op.attrs.insert(op.attrs.end(), attrs.begin(), attrs.end());
}

std::vector<TensorType> unary_shape(const OpCall& call, bool ints) {
  if (ints)
    expect_number(call);
  else
    expect_float(call, 0);
  // The gradient tells the sides apart by the sign of y, which a negative alpha would turn round.
  if (call.op == "elu" && !(call.attrs.real("alpha") >= 0))  // NaN too
    bad_value(call.name, ": alpha is ", call.attrs.real("alpha"), "; expected 0 or more");
  return {call.inputs[0]};
}

OpDef forward_of(const Row& row) {
  OpDef op(row.name);
  op.describe(row.doc).inputs(1).space("x* -> x*").inplace(0, 0);
  add_attrs(op, row.attrs);
  op.shape = [ints = row.ints](const OpCall& call) { return unary_shape(call, ints); };
  op.flops = flops_per_element(row.flops);
  op.grad = [name = row.name, reads = row.reads](GradContext& ctx) {
    if (!is_float(ctx.in_type(0).dtype)) return;
    const Value other = reads == Reads::x ? ctx.in(0) : ctx.out(0);
    ctx.in_grad(0, ctx.emit(name + "_grad", {ctx.dout(0), other}, ctx.attrs()));
  };
  return op;
}

OpDef backward_of(const Row& row) {
  OpDef op(row.name + "_grad");
  const std::string read = row.reads == Reads::x ? "x" : "y";
  op.describe(cat("Gradient of ", row.name, ": inputs (dy, ", read, "), output dx."));
  op.inputs(2).space("x*, x* -> x*").linear_in({0}).inplace(0, 0).no_gradient();
  add_attrs(op, row.attrs);
  op.shape = like_first;
  op.flops = flops_per_element(row.flops + 1);
  op.internal = true;
  return op;
}

// Operators whose gradient needs neither input nor output.
OpDef affine(const std::string& name, const std::string& doc, bool linear) {
  OpDef op(name);
  op.describe(doc).inputs(1).space("x* -> x*").inplace(0, 0);
  if (linear) op.linear_in({0});
  op.flops = flops_per_element(name == "identity" ? 0 : 1);
  return op;
}

OpDef scalar_op(const std::string& name, const std::string& doc, bool linear) {
  OpDef op = affine(name, doc, linear);
  op.required("scalar", AttrType::real, "the number; integral where x holds integers");
  op.shape = [](const OpCall& call) -> std::vector<TensorType> {
    expect_number(call);
    const double scalar = call.attrs.real("scalar");
    if (call.op == "scalar_true_divide") {
      expect_float(call, 0);
    } else if (!is_float(call.inputs[0].dtype) && scalar != std::trunc(scalar)) {
      fail(ErrorKind::type, call.name, ": scalar is ", scalar, " and the input ", name_of(call.inputs[0].dtype),
           "; expected an integral scalar; cast the input to a floating-point dtype first");
    }
    return {call.inputs[0]};
  };
  op.grad = [linear](GradContext& ctx) {
    if (!is_float(ctx.in_type(0).dtype)) return;
    ctx.in_grad(0, linear ? ctx.emit(ctx.node().op, {ctx.dout(0)}, ctx.attrs()) : ctx.dout(0));
  };
  return op;
}

std::vector<OpDef> unary_ops() {
  std::vector<OpDef> ops;
  for (const Row& row : table()) {
    ops.push_back(forward_of(row));
    ops.push_back(backward_of(row));
  }
  OpDef identity = affine("identity", "x itself, of any dtype.", true);
  identity.shape = like_first;
  identity.grad = [](GradContext& ctx) { ctx.in_grad(0, ctx.dout(0)); };
  identity.view = true;
  ops.push_back(identity);

  OpDef negative = affine("negative", "-x.", true);
  negative.shape = [](const OpCall& call) { return unary_shape(call, true); };
  negative.grad = [](GradContext& ctx) {
    if (is_float(ctx.in_type(0).dtype)) ctx.in_grad(0, ctx.emit("negative", {ctx.dout(0)}));
  };
  ops.push_back(negative);

  ops.push_back(scalar_op("scalar_add", "x + scalar.", false));
  ops.push_back(scalar_op("scalar_sub", "x - scalar.", false));
  ops.push_back(scalar_op("scalar_multiply", "x * scalar.", true));
  ops.push_back(scalar_op("scalar_true_divide", "x / scalar.", true));
  return ops;
}
REGISTER_OPS(unary_ops);

}  // namespace
}  // namespace ff
