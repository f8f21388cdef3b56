// embedding: rows of a table looked up by id, one by one or summed over the last dimension of the ids, and its
// gradient.
#include "ops/check.h"
#include "ops/grad.h"

namespace ff {
namespace {

void add_table_attrs(OpDef& op) {
  op.required("num_entries", AttrType::integer, "rows of the table; ids are from 0 to less than this");
  op.required("out_dim", AttrType::integer, "size of a row");
  op.attr("aggr", std::string("none"), "over the last dimension of the ids: none, sum, or avg (their mean)",
          {"none", "sum", "avg"});
}

// The rule without and with aggregation; the line given to the op is the latter, which says more.
struct Rules {
  std::string plain, bag;

  Space pick(const OpCall& call) const {
    return Space::parse(call.attrs.text("aggr") == "none" ? plain : bag, Combiner::sum);
  }
};

void set_space(OpDef& op, const Rules& rules) {
  op.space(rules.bag);
  op.indices = [rules](const OpCall& call) { return rules.pick(call).indices(call); };
  op.region = [rules](const OpCall& call, const Box& box, Operand operand) {
    return rules.pick(call).region(call, box, operand);
  };
}

TensorType rows_type(const OpCall& call, DType dtype) {
  TensorType rows{dtype, call.inputs[0].shape};
  if (call.attrs.text("aggr") != "none") {
    if (rows.rank() == 0)
      bad_value(call.name, ": ids are a scalar; expected a dimension to aggregate over, or aggr \"none\"");
    rows.shape.pop_back();
  }
  rows.shape.push_back(call.attrs.integer("out_dim"));
  return rows;
}

std::vector<WeightSpec> embedding_weights(const OpCall& call) {
  expect_integer(call, 0);
  expect_least(call, "num_entries", 1);
  expect_least(call, "out_dim", 1);
  const TensorType table{dtype_from_name(call.attrs.text("dtype")),
                         {call.attrs.integer("num_entries"), call.attrs.integer("out_dim")}};
  return {{"kernel", table, {{"initializer", std::string("glorot_uniform")}}}};
}

double sum_flops(const OpCall& call) {
  return static_cast<double>(call.inputs[0].numel()) * static_cast<double>(call.attrs.integer("out_dim"));
}

Domain ids_domain(const OpCall& call, int) { return {0, call.attrs.integer("num_entries")}; }

OpDef embedding() {
  OpDef op("embedding");
  op.describe(
      "kernel[ids], of shape ids + (out_dim), or its sum or mean over the last dimension of ids; weights: kernel "
      "(num_entries, out_dim).");
  add_table_attrs(op);
  op.attr("dtype", std::string("float32"), "dtype of the table", {"float16", "bfloat16", "float32", "float64"});
  // A part of the table (index v) adds nothing for ids outside of it.
  set_space(op, {"b*, v o -> b* o", "b* k, v o -> b* o"});
  op.linear_in({1});
  op.shape = [](const OpCall& call) {
    expect_inputs(call, 2, "ids, kernel");
    const TensorType table = embedding_weights(call)[0].type;
    expect_type(call, 1, table, "the kernel (num_entries, out_dim)");
    return std::vector<TensorType>{rows_type(call, table.dtype)};
  };
  op.weights = embedding_weights;
  op.domain = ids_domain;
  op.flops = sum_flops;
  op.grad = [](GradContext& ctx) {
    Attrs attrs = ctx.attrs();
    attrs.erase("dtype");
    if (ctx.needs(1)) ctx.in_grad(1, ctx.emit("embedding_grad", {ctx.in(0), ctx.dout(0)}, attrs));
  };
  return op;
}

OpDef embedding_grad() {
  OpDef op("embedding_grad");
  op.describe("Gradient of embedding with respect to its table: each row of dy added to the row of its id.");
  op.inputs(2).linear_in({1}).no_gradient();
  add_table_attrs(op);
  set_space(op, {"b*, b* o -> v o", "b* k, b* o -> v o"});
  op.shape = [](const OpCall& call) {
    expect_integer(call, 0);
    const DType dtype = call.inputs[1].dtype;
    expect_type(call, 1, rows_type(call, dtype), "dy");
    return std::vector<TensorType>{{dtype, {call.attrs.integer("num_entries"), call.attrs.integer("out_dim")}}};
  };
  op.domain = ids_domain;
  op.flops = sum_flops;
  op.internal = true;
  return op;
}

std::vector<OpDef> embedding_family() { return {embedding(), embedding_grad()}; }

REGISTER_OPS(embedding_family);

}  // namespace
}  // namespace ff
