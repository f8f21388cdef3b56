// A call or several of every operator.
#include "calls.h"

namespace calls {
namespace {

using Ints = std::vector<int64_t>;
std::string text(const char* value) { return value; }

class Table {
 public:
  explicit Table(DType real) : real_(real) {}

  TensorType f(Shape shape) const { return {real_, std::move(shape)}; }
  static TensorType ids(Shape shape) { return {DType::int64, std::move(shape)}; }

  template <class... T>
  Sample& add(const std::string& op, Attrs attrs, T... inputs) {
    all.push_back({op, std::move(attrs), {inputs...}});
    return all.back();
  }

  std::vector<Sample> all;

 private:
  DType real_;
};

// Input `at` becomes what the forward op gives for the input `of`.
std::function<void(const OpCall&, Arrays&, const std::string&)> from_forward(const std::string& op, int of, int at,
                                                                             int output = 0) {
  return [=](const OpCall& call, Arrays& inputs, const std::string& device) {
    OpCall forward{.op = op, .name = op, .attrs = call.attrs, .inputs = {inputs[of].type}, .outputs = {}, .box = {}};
    forward.outputs = op_def(op).shape(forward);
    Arrays in;
    in.push_back(std::move(inputs[of]));
    Arrays made = run(forward, in, device);
    inputs[of] = std::move(in[0]);
    inputs[at] = std::move(made[output]);
  };
}

void elementwise(Table& t) {
  for (const char* op : {"relu", "sigmoid", "tanh", "gelu", "elu", "leaky_relu", "silu", "exp", "log", "sqrt", "rsqrt",
                         "sin", "cos", "abs", "square", "pow", "negative", "identity"}) {
    const Attrs attrs = op == text("pow") ? Attrs{{"exponent", 1.5}} : Attrs{};
    t.add(op, attrs, t.f({4, 5}));
    if (find_op(op + text("_grad")) != nullptr) t.add(op + text("_grad"), attrs, t.f({4, 5}), t.f({4, 5}));
  }
  for (const char* op : {"scalar_add", "scalar_sub", "scalar_multiply", "scalar_true_divide"})
    t.add(op, {{"scalar", 1.5}}, t.f({3, 4}));
  for (const char* op : {"add", "subtract", "multiply", "divide", "maximum", "minimum"}) {
    t.add(op, {}, t.f({4, 5}), t.f({4, 5}));
    t.add(op, {}, t.f({4, 1, 3}), t.f({5, 1}));
    t.add(op, {}, t.f({3}), t.f({2, 3}));
  }
  for (const char* op : {"maximum_grad", "minimum_grad"}) t.add(op, {}, t.f({4, 3}), t.f({4, 1}), t.f({3}));
  t.add("cast", {{"dtype", text("int32")}}, t.f({4, 3}));
  t.add("reorder", {{"to", text("dense")}}, t.f({4, 3}));
  t.add("increment", {}, Table::ids({}));
}

void shapes(Table& t) {
  t.add("flat", {}, t.f({4, 2, 3}));
  t.add("reshape", {{"shape", Ints{2, 3, 2}}}, t.f({4, 3}));
  t.add("reshape", {{"shape", Ints{6, 5, 2}}}, t.f({6, 10}));
  t.add("transpose", {{"perm", Ints{2, 0, 1}}}, t.f({3, 4, 5}));
  t.add("concat", {{"axis", int64_t{1}}}, t.f({4, 2}), t.f({4, 5}), t.f({4, 1}));
  t.add("split", {{"axis", int64_t{-1}}, {"sizes", Ints{2, 0, 5}}}, t.f({4, 7}));
  t.add("gather", {{"dim", int64_t{1}}}, t.f({4, 5, 3}), Table::ids({4, 6, 3}));
  t.add("gather_grad", {{"dim", int64_t{1}}, {"input_shape", Ints{4, 5, 3}}}, Table::ids({4, 6, 3}), t.f({4, 6, 3}));
  t.add("gather_grad", {{"dim", int64_t{-1}}, {"input_shape", Ints{4, 5}}}, Table::ids({3, 6}), t.f({3, 6}));
  t.add("top_k", {{"k", int64_t{2}}}, t.f({4, 3, 7}));
  t.add("top_k", {{"k", int64_t{3}}, {"sorted", false}}, t.f({5, 7}));
  t.add("broadcast_to", {{"shape", Ints{2, 4, 5}}}, t.f({4, 1}));
  t.add("constant", {{"shape", Ints{4, 3}}, {"value", 1.5}});
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
    t.add(op, {{"axes", Ints{1}}}, t.f({4, 5, 3}));
    t.add(op, {{"axes", Ints{0, -1}}, {"keepdims", true}}, t.f({4, 5, 3}));
    t.add(op, {}, t.f({5, 3}));
  }
  for (const char* op : {"reduce_max", "reduce_min"}) {
    t.add(op + text("_grad"), {{"axes", Ints{1}}}, t.f({4}), t.f({4, 6}), t.f({4})).prepare = from_forward(op, 1, 2);
    t.add(op + text("_grad"), {{"axes", Ints{0}}, {"keepdims", true}}, t.f({1, 6}), t.f({4, 6}), t.f({1, 6})).prepare =
        from_forward(op, 1, 2);
  }
}

void dense(Table& t) {
  t.add("linear", {{"out_channels", int64_t{6}}}, t.f({4, 5}));
  t.add("linear", {{"out_channels", int64_t{6}}, {"use_bias", false}}, t.f({2, 3, 5}));
  t.add("linear", {{"out_channels", int64_t{6}}, {"activation", text("tanh")}, {"use_bias", false}}, t.f({4, 5}));
  t.add("linear_grad_input", {}, t.f({4, 6}), t.f({6, 5}));
  t.add("linear_grad_weight", {}, t.f({4, 5}), t.f({4, 6}));
  t.add("linear_grad_weight", {{"use_bias", false}}, t.f({2, 3, 5}), t.f({2, 3, 6}));
  t.add("batch_matmul", {}, t.f({4, 3, 5}), t.f({4, 5, 6}));
  t.add("einsum", {{"equation", text("b s h d, b t h d -> b h s t")}}, t.f({2, 5, 3, 4}), t.f({2, 4, 3, 4}));
  t.add("einsum", {{"equation", text("b s h e, o h e -> b s o")}}, t.f({2, 5, 3, 4}), t.f({6, 3, 4}));
  t.add("multihead_attention", {{"embed_dim", int64_t{6}}, {"num_heads", int64_t{2}}}, t.f({2, 3, 4}), t.f({2, 5, 4}),
        t.f({2, 5, 7}));
  t.add("lstm", {{"hidden_size", int64_t{3}}}, t.f({4, 5, 6}));
  t.add("lstm_scan", {}, t.f({4, 5, 12}), t.f({12, 3}), t.f({4, 3}), t.f({4, 3}));
  t.add("lstm_scan_grad", {}, t.f({12, 3}), t.f({4, 5, 12}), t.f({4, 5, 3}), t.f({4, 3}), t.f({4, 5, 3}), t.f({4, 3}),
        t.f({4, 3}));
  t.add("causal_mask", {}, t.f({2, 3, 5}));
  t.add("causal_mask_grad", {}, t.f({2, 5, 3}));
  const TensorType ids = Table::ids({4, 3});
  for (const char* aggr : {"none", "sum", "avg"}) {
    const Attrs table = {{"num_entries", int64_t{7}}, {"out_dim", int64_t{5}}, {"aggr", text(aggr)}};
    Attrs typed = table;
    typed.set("dtype", text(name_of(t.f({}).dtype)));
    t.add("embedding", typed, ids);
    t.add("embedding_grad", table, ids, aggr == text("none") ? t.f({4, 3, 5}) : t.f({4, 5}));
  }
  for (const char* op : {"softmax", "log_softmax"}) {
    t.add(op, {}, t.f({4, 5}));
    t.add(op, {{"axis", int64_t{1}}}, t.f({3, 4, 5}));
    t.add(op + text("_grad"), {{"axis", int64_t{1}}}, t.f({3, 4, 5}), t.f({3, 4, 5}));
  }
  t.add("layer_norm", {}, t.f({4, 6}));
  t.add("layer_norm", {{"axes", Ints{-2, -1}}, {"elementwise_affine", false}}, t.f({3, 2, 5}));
  t.add("layer_norm_grad_input", {}, t.f({4, 6}), t.f({4, 6}), t.f({4}), t.f({4}), t.f({6}));
  t.add("layer_norm_grad_input", {{"axes", Ints{1, 2}}}, t.f({3, 2, 5}), t.f({3, 2, 5}), t.f({3}), t.f({3}));
  t.add("layer_norm_grad_weight", {}, t.f({4, 6}), t.f({4, 6}), t.f({4}), t.f({4}));
  t.add("batch_norm", {}, t.f({4, 6, 3}));
  t.add("batch_norm_grad", {}, t.f({4, 6, 3}), t.f({4, 6, 3}), t.f({6}), t.f({6}), t.f({6}));
  for (const int64_t groups : {1, 2, 3}) {
    t.add("batch_norm", {{"groups", groups}}, t.f({7, 4, 2}));
    for (const Shape& x : {Shape{7, 4}, Shape{3, 4}, Shape{5, 32, 3, 2}}) {
      const Shape each = {groups, x[1]}, channel = {x[1]};
      t.add("batch_norm_groups", {{"groups", groups}}, t.f(x), t.f(channel), t.f(channel));
      t.add("batch_norm_grad", {}, t.f(x), t.f(x), t.f(channel), t.f(each), t.f(each));
    }
    t.add("running_statistics", {{"momentum", 0.7}}, t.f({5}), t.f({groups, 5}));
    t.add("running_statistics", {{"counts", Ints(static_cast<size_t>(groups), 6)}}, t.f({5}), t.f({groups, 5}));
  }
  t.add("batch_norm_inference", {}, t.f({4, 6, 3, 2}), t.f({6}), t.f({6}), t.f({6}), t.f({6}));
  for (const char* op : {"dropout", "dropout_grad"})
    t.add(op, {{"rate", 0.4}, {"seed", int64_t{3}}, {"stream", int64_t{5}}}, t.f({5, 6}), Table::ids({}));
  t.add("initialize", {{"shape", Ints{5, 6}},
                       {"seed", int64_t{3}},
                       {"stream", int64_t{5}},
                       {"initializer", text("glorot_normal")},
                       {"dtype", text(name_of(t.f({}).dtype))}});
}

void experts(Table& t) {
  const TensorType choices = Table::ids({6, 2}), gates = t.f({6, 2}), made = t.f({3, 4, 2});
  const Attrs n = {{"n", int64_t{3}}};
  t.add("group_by", {{"n", int64_t{3}}, {"alpha", 0.75}}, t.f({6, 4, 2}), choices);
  t.add("group_by_grad", n, choices, made, made, made);
  t.add("aggregate", n, gates, choices, choices, t.f({6, 3}), made, made, made);
  t.add("aggregate_grad_gate", n, choices, choices, t.f({6, 4, 2}), made, made, made);
  t.add("aggregate_grad_experts", {{"n", int64_t{3}}, {"places", int64_t{3}}}, t.f({6, 4, 2}), choices, gates);
  t.add("expert_balance", {{"n", int64_t{3}}, {"lambda_bal", 0.5}, {"dtype", text(name_of(t.f({}).dtype))}}, choices);
}

Attrs with(Attrs attrs, const Attrs& more) {
  for (const auto& [name, value] : more) attrs.set(name, value);
  return attrs;
}

void windows(Table& t) {
  const Ints image = {4, 4, 9, 8};
  const Attrs plain = {{"kernel", Ints{3, 3}}};
  for (const Attrs& more : {Attrs{}, Attrs{{"stride", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}},
                            Attrs{{"padding", text("same")}}, Attrs{{"padding", text("same")}, {"stride", Ints{2, 3}}},
                            Attrs{{"dilation", Ints{2, 1}}, {"pads", Ints{2, 0, 1, 1}}}, Attrs{{"groups", int64_t{2}}},
                            Attrs{{"groups", int64_t{4}}, {"pads", Ints{1, 1, 1, 1}}}, Attrs{{"stride", Ints{4, 4}}}}) {
    const Attrs attrs = with(plain, more);
    const int64_t groups = more.has("groups") ? more.integer("groups") : 1;
    Sample& forward = t.add("conv2d", with(attrs, {{"out_channels", int64_t{8}}}), t.f(image));
    const TensorType y = call_of(forward).outputs[0], kernel = t.f({8, 4 / groups, 3, 3});
    t.add("conv2d_grad_input", with(attrs, {{"input_shape", image}}), y, kernel);
    t.add("conv2d_grad_weight", attrs, t.f(image), y);
  }
  t.add("conv2d", with(plain, {{"out_channels", int64_t{2}}, {"activation", text("relu")}, {"padding", text("same")}}),
        t.f(image));
  for (const char* type : {"max", "avg"})
    for (const Attrs& more :
         {Attrs{}, Attrs{{"stride", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 1}}},
          Attrs{{"padding", text("same")}, {"stride", Ints{2, 2}}}, Attrs{{"ceil_mode", true}, {"stride", Ints{2, 2}}},
          Attrs{{"count_include_pad", true}, {"pads", Ints{1, 0, 1, 2}}}}) {
      const Attrs attrs = with(with(plain, more), {{"pool_type", text(type)}});
      const TensorType y = call_of(t.add("pool2d", attrs, t.f(image))).outputs[0];
      t.add("pool2d", with(attrs, {{"workspace", false}}), t.f(image));
      if (type == text("avg")) t.add("pool2d_grad", with(attrs, {{"input_shape", image}}), y);
    }
}

void losses(Table& t) {
  const TensorType scalar = t.f({});
  const auto both = [&](const std::string& op, const Attrs& attrs, const TensorType& prediction,
                        const TensorType& label) {
    t.add(op, attrs, prediction, label);
    t.add(op + "_grad", attrs, prediction, label, scalar);
  };
  for (const bool logits : {false, true}) {
    both("categorical_crossentropy", {{"from_logits", logits}}, t.f({6, 3}), t.f({6, 3}));
    both("sparse_categorical_crossentropy", {{"from_logits", logits}}, t.f({6, 3}), Table::ids({6, 1}));
    both("binary_crossentropy", {{"from_logits", logits}}, t.f({6, 3}), t.f({6, 3}));
  }
  both("sparse_categorical_crossentropy", {}, t.f({2, 5, 3}), Table::ids({2, 5}));
  both("mean_squared_error", {}, t.f({6, 3}), t.f({6, 3}));
  both("mean_squared_error", {{"reduction", text("sum")}}, t.f({6, 3}), t.f({6, 3}));
  both("mean_absolute_error", {}, t.f({6, 3}), t.f({6, 3}));
  t.add("identity_loss", {}, t.f({6, 3}));
  t.add("identity_loss_grad", {}, t.f({6, 3}), scalar);
  const TensorType totals{DType::float64, {8}};
  const Attrs dense = {{"accuracy", true},
                       {"categorical_crossentropy", true},
                       {"mean_squared_error", true},
                       {"root_mean_squared_error", true},
                       {"mean_absolute_error", true}};
  t.add("metrics", dense, t.f({6, 3}), t.f({6, 3}), scalar, totals);
  t.add("metrics", {{"accuracy", true}, {"sparse_categorical_crossentropy", true}, {"sparse", true}}, t.f({6, 3}),
        Table::ids({6, 1}), scalar, totals);
}

void updates(Table& t) {
  const TensorType rate{DType::float64, {}}, step = Table::ids({});
  t.add("sgd", {{"weight_decay", 0.1}}, t.f({5, 4}), t.f({5, 4}), rate, step);
  t.add("sgd", {{"momentum", 0.5}, {"nesterov", true}}, t.f({5, 4}), t.f({5, 4}), rate, step);
  t.add("adam", {}, t.f({5, 4}), t.f({5, 4}), rate, step);
  t.add("square_sum", {}, t.f({5, 4}));
  t.add("clip_factor", {{"norm", 0.5}}, rate, rate, rate);
  t.add("scale", {}, t.f({5, 4}), rate);
  const Attrs decay = {{"initial", 0.5}, {"decay_steps", int64_t{7}}, {"warmup_steps", int64_t{3}}};
  t.add("exponential_decay", decay, step).attrs.set("decay_rate", 0.5);
  t.add("cosine_decay", decay, step);
  t.add("polynomial_decay", decay, step);
  t.add("piecewise_constant", {{"boundaries", Ints{2, 5}}, {"values", std::vector<double>{0.3, 0.2, 0.1}}}, step);
  t.add("regularize", {{"l1", 0.1}, {"l2", 0.2}}, t.f({5, 4}), t.f({5, 4}));
}

}  // namespace

std::vector<Sample> samples(DType real) {
  Table table(real);
  for (const auto part : {elementwise, shapes, dense, experts, windows, losses, updates}) part(table);
  return std::move(table.all);
}

}  // namespace calls
