// Products of two tensors, summed over what they share: batch_matmul and, for any order of dimensions, einsum. The
// gradient of either is an einsum, with the same names of indices, so that it is split as its forward op is.
#include "graph/product.h"
#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

std::string spelt(const Product::Names& a, const Product::Names& b, const Product::Names& c) {
  return to_string(a) + ", " + to_string(b) + " -> " + to_string(c);
}

void product_grad(GradContext& ctx) {
  const OpCall call = ctx.graph().call(ctx.out(0).node);
  const auto [a, b, c] = product_of(call);
  if (ctx.needs(0)) ctx.in_grad(0, ctx.emit("einsum", {ctx.dout(0), ctx.in(1)}, {{"equation", spelt(c, b, a)}}));
  if (ctx.needs(1)) ctx.in_grad(1, ctx.emit("einsum", {ctx.in(0), ctx.dout(0)}, {{"equation", spelt(a, c, b)}}));
}

// A product and a sum for each point of the iteration space.
double product_flops(const OpCall& call) {
  const ProductLoops loops = loops_of(call);
  double points = 2.0 * static_cast<double>(call.outputs[0].numel());
  for (const ProductLoop& loop : loops.summed) points *= static_cast<double>(loop.extent);
  return points;
}

void expect_factors(const OpCall& call) {
  expect_float(call, 0);
  expect_equal_dtypes(call, 0, 1);
}

std::vector<TensorType> batch_matmul_shape(const OpCall& call) {
  expect_factors(call);
  TensorType c = call.inputs[0];
  const TensorType& b = call.inputs[1];
  const bool ranks = c.rank() >= 2 && c.rank() == b.rank();
  if (!ranks || !std::equal(c.shape.begin(), c.shape.end() - 2, b.shape.begin()) || c.dim(-1) != b.dim(-2))
    bad_value(call.name, ": inputs have shapes ", to_string(c.shape), " and ", to_string(b.shape),
              "; expected (..., n, k) and (..., k, m) with equal extents before the last two");
  for (const char* attr : {"a_seq_length_dim", "b_seq_length_dim"})
    if (const int64_t dim = call.attrs.integer(attr); dim < -1 || dim > 1)
      bad_value(call.name, ": attribute \"", attr, "\" is ", dim,
                "; expected 0 (the last dimension), 1 (the one before it) or -1 (none)");
  c.shape.back() = b.shape.back();
  return {c};
}

OpDef batch_matmul() {
  OpDef op("batch_matmul");
  op.describe("a b, the matrix products of (..., n, k) and (..., k, m).");
  op.attr("a_seq_length_dim", int64_t{-1},
          "dimension of a that runs over a sequence, counted from the last, 0 or 1; -1: none");
  op.attr("b_seq_length_dim", int64_t{-1}, "likewise of b");
  op.inputs(2).space("b* n k, b* k m -> b* n m").linear_in({0, 1});
  op.shape = batch_matmul_shape;
  op.flops = product_flops;
  op.grad = product_grad;
  return op;
}

std::vector<TensorType> einsum_shape(const OpCall& call) {
  expect_factors(call);
  const Product product = product_of(call);
  const auto extent_in = [](const Product::Names& names, const Shape& shape, const std::string& name) {
    const auto it = std::find(names.begin(), names.end(), name);
    return it == names.end() ? -1 : shape[static_cast<size_t>(it - names.begin())];
  };
  for (const auto& [input, names] : {std::pair{0, &product.a}, {1, &product.b}})
    if (names->size() != call.inputs[input].rank())
      bad_value(call.name, ": input ", input, " has shape ", to_string(call.inputs[input].shape), "; expected rank ",
                names->size(), ", (", to_string(*names), ")");
  const Shape &a = call.inputs[0].shape, &b = call.inputs[1].shape;
  for (size_t d = 0; d < a.size(); ++d)
    if (const int64_t other = extent_in(product.b, b, product.a[d]); other >= 0 && other != a[d])
      bad_value(call.name, ": index \"", product.a[d], "\" has extents ", a[d], " and ", other, " in the inputs ",
                to_string(a), " and ", to_string(b), "; expected equal ones");
  TensorType c{call.inputs[0].dtype, {}};
  for (const std::string& name : product.c)
    c.shape.push_back(std::max(extent_in(product.a, a, name), extent_in(product.b, b, name)));
  return {c};
}

OpDef einsum() {
  OpDef op("einsum");
  op.describe("Sums of products of two tensors: over each index that the result lacks.");
  op.required(
      "equation", AttrType::text,
      "names of the dimensions of the inputs and of the result: \"b n k, b k m -> b n m\"; each in two of them");
  op.inputs(2).space("a*, b* -> c*").linear_in({0, 1});
  op.indices = [](const OpCall& call) {
    return Space::parse(call.attrs.text("equation"), Combiner::sum).indices(call);
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    return Space::parse(call.attrs.text("equation"), Combiner::sum).region(call, box, operand);
  };
  op.shape = einsum_shape;
  op.flops = product_flops;
  op.grad = product_grad;
  return op;
}

std::vector<OpDef> products() { return {batch_matmul(), einsum()}; }

REGISTER_OPS(products);

}  // namespace
}  // namespace ff
