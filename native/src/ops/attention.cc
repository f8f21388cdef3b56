// multihead_attention, shorthand for products, a softmax and sums, all of which name their indices alike: b0 samples,
// s queries, t keys, h heads, d and e the features of a head, o outputs. The weights have the heads as a dimension of
// their own, so that splitting h splits them. And the mask of causal attention.
#include <cmath>
#include <limits>

#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

struct Heads {
  int64_t heads, key, value, out;  // their number, and features of a head and of the result

  explicit Heads(const OpCall& call)
      : heads(call.attrs.integer("num_heads")),
        key(call.attrs.integer("kdim")),
        value(call.attrs.integer("vdim")),
        out(call.attrs.integer("embed_dim")) {
    for (int64_t* features : {&key, &value})
      if (*features == 0) *features = out / heads;
  }
};

void expect_heads(const OpCall& call) {
  for (const char* attr : {"embed_dim", "num_heads"}) expect_least(call, attr, 1);
  for (const char* attr : {"kdim", "vdim"}) expect_least(call, attr, 0);
  const int64_t out = call.attrs.integer("embed_dim"), heads = call.attrs.integer("num_heads");
  const bool derived = call.attrs.integer("kdim") == 0 || call.attrs.integer("vdim") == 0;
  if (derived && out % heads != 0)
    bad_value(call.name, ": embed_dim ", out, " does not divide into ", heads,
              " heads; expected a multiple, or kdim and vdim");
  const double rate = call.attrs.real("dropout");
  if (!(rate >= 0 && rate < 1)) bad_value(call.name, ": attribute \"dropout\" is ", rate, "; expected 0 <= rate < 1");
}

void expect_sequences(const OpCall& call) {
  expect_float(call, 0);
  for (int i = 0; i < 3; ++i) {
    expect_rank(call, i, 3, 3, "(batch, sequence, features)");
    expect_equal_dtypes(call, 0, i);
  }
  const Shape &q = call.inputs[0].shape, &k = call.inputs[1].shape, &v = call.inputs[2].shape;
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1])
    bad_value(call.name, ": query, key and value have shapes ", to_string(q), ", ", to_string(k), " and ", to_string(v),
              "; expected (b, s, i), (b, t, j) and (b, t, l)");
}

std::vector<WeightSpec> attention_weights(const OpCall& call) {
  expect_heads(call);
  expect_sequences(call);
  const Heads n(call);
  const DType dtype = call.inputs[0].dtype;
  // As drawn for the matrix (heads features, inputs) that the three dimensions stand for.
  const auto kernel = [&](const std::string& name, Shape shape, int64_t in, int64_t out) {
    return WeightSpec{name,
                      {dtype, std::move(shape)},
                      {{"initializer", std::string("glorot_uniform")}, {"fan_in", in}, {"fan_out", out}}};
  };
  const auto in = [&](int i) { return call.inputs[i].dim(-1); };
  std::vector<WeightSpec> specs = {kernel("q_kernel", {n.heads, n.key, in(0)}, in(0), n.heads * n.key),
                                   kernel("k_kernel", {n.heads, n.key, in(1)}, in(1), n.heads * n.key),
                                   kernel("v_kernel", {n.heads, n.value, in(2)}, in(2), n.heads * n.value),
                                   kernel("out_kernel", {n.out, n.heads, n.value}, n.heads * n.value, n.out)};
  if (!call.attrs.flag("bias")) return specs;
  const auto bias = [&](const std::string& name, Shape shape) {
    specs.push_back({name, {dtype, std::move(shape)}, {{"initializer", std::string("zeros")}}});
  };
  bias("q_bias", {n.heads, n.key});
  bias("k_bias", {n.heads, n.key});
  bias("v_bias", {n.heads, n.value});
  bias("out_bias", {n.out});
  return specs;
}

std::vector<TensorType> attention_shape(const OpCall& call) {
  const std::vector<WeightSpec> specs = attention_weights(call);
  expect_inputs(call, 3 + specs.size(), "query, key, value and the weights");
  for (size_t i = 0; i < specs.size(); ++i) expect_type(call, static_cast<int>(i) + 3, specs[i].type, specs[i].name);
  TensorType y = call.inputs[0];
  y.shape.back() = call.attrs.integer("embed_dim");
  return {y};
}

std::vector<Value> attention_expand(Expansion& ctx) {
  const Attrs attrs = ctx.attrs();
  const bool bias = attrs.flag("bias");
  const auto product = [&](Value a, Value b, const std::string& equation) {
    return ctx.emit("einsum", {a, b}, {{"equation", equation}});
  };
  const auto biased = [&](Value x, int weight) { return bias ? ctx.emit("add", {x, ctx.in(weight)}) : x; };
  const Value q = biased(product(ctx.in(0), ctx.in(3), "b0 s i, h d i -> b0 s h d"), 7);
  const Value k = biased(product(ctx.in(1), ctx.in(4), "b0 t j, h d j -> b0 t h d"), 8);
  const Value v = biased(product(ctx.in(2), ctx.in(5), "b0 t l, h e l -> b0 t h e"), 9);
  const double scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(ctx.in_type(3).dim(1), 1)));
  Value p = product(ctx.emit("scalar_multiply", {q}, {{"scalar", scale}}), k, "b0 s h d, b0 t h d -> b0 h s t");
  if (attrs.flag("causal")) p = ctx.emit("causal_mask", {p});
  p = ctx.emit("softmax", {p});
  if (attrs.real("dropout") > 0)
    p = ctx.emit(
        "dropout", {p},
        {{"rate", attrs.real("dropout")}, {"seed", attrs.integer("seed")}, {"stream", attrs.integer("stream")}});
  const Value mixed = product(p, v, "b0 h s t, b0 t h e -> b0 s h e");
  return {biased(product(mixed, ctx.in(6), "b0 s h e, o h e -> b0 s o"), 10)};
}

// Of the six products.
double attention_flops(const OpCall& call) {
  const auto times = [](std::initializer_list<int64_t> extents) {
    double product = 2;
    for (const int64_t extent : extents) product *= static_cast<double>(extent);
    return product;
  };
  const Heads n(call);
  const Shape &q = call.inputs[0].shape, &k = call.inputs[1].shape;
  return times({q[0], q[1], q[2], n.heads, n.key}) + times({q[0], k[1], k[2], n.heads, n.key}) +
         times({q[0], k[1], call.inputs[2].dim(2), n.heads, n.value}) + times({q[0], n.heads, q[1], k[1], n.key}) +
         times({q[0], n.heads, q[1], k[1], n.value}) + times({q[0], q[1], n.heads, n.value, n.out});
}

OpDef multihead_attention() {
  OpDef op("multihead_attention");
  op.describe(
      "Attention of each query over the keys, softmax(q k^T / sqrt(kdim)) v, in num_heads heads with projections of "
      "their own, whose results a last projection joins; weights: q_kernel (heads, kdim, in), k_kernel, v_kernel "
      "(heads, vdim, in), out_kernel (embed_dim, heads, vdim), and a bias to each.");
  op.required("embed_dim", AttrType::integer, "features of the result");
  op.required("num_heads", AttrType::integer, "how many heads");
  op.attr("kdim", int64_t{0}, "features of a head's queries and keys; 0: embed_dim / num_heads");
  op.attr("vdim", int64_t{0}, "features of a head's values; 0: embed_dim / num_heads");
  op.attr("dropout", 0.0, "share of the attention weights that become zero in training, from 0 to less than 1");
  op.attr("bias", true, "add a bias to each of the four projections");
  op.attr("causal", false, "query i attends to no key after key i");
  op.attr("seed", int64_t{-1}, "seed of the dropout; -1: the model's seed");
  op.attr("stream", int64_t{0}, "random stream; 0: one of its own");
  op.inputs(3).space("b* s i, b* t j, b* t l, h d i, h d j, h e l, o h e, h d, h d, h e, o -> b* s o");
  op.random = true;
  op.composite = true;
  op.shape = attention_shape;
  op.weights = attention_weights;
  op.flops = attention_flops;
  op.expand = attention_expand;
  return op;
}

OpDef mask(const std::string& name) {
  OpDef op(name);
  op.inputs(1).space("b* s t -> b* s t").inplace(0, 0);
  op.shape = [](const OpCall& call) {
    expect_float(call, 0);
    expect_rank(call, 0, 2, 8, "(..., queries, keys)");
    return like_first(call);
  };
  op.flops = flops_per_element(1);
  op.internal = true;
  return op;
}

OpDef causal_mask() {
  OpDef op = mask("causal_mask");
  op.describe("x where the last index is at most the one before it, minus infinity elsewhere.");
  op.grad = [](GradContext& ctx) { ctx.in_grad(0, ctx.emit("causal_mask_grad", {ctx.dout(0)})); };
  return op;
}

OpDef causal_mask_grad() {
  OpDef op = mask("causal_mask_grad");
  op.describe("Gradient of causal_mask: dy where the last index is at most the one before it, 0 elsewhere.");
  op.linear_in({0}).no_gradient();
  return op;
}

std::vector<OpDef> attention_family() { return {multihead_attention(), causal_mask(), causal_mask_grad()}; }

REGISTER_OPS(attention_family);

}  // namespace
}  // namespace ff
