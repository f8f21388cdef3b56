// From the user's graph to the graph of a step: modes, fusion, gradients, other batch sizes.
#include <algorithm>

#include "check.h"
#include "plans.h"

using namespace ff;
using namespace plans;

namespace {

int count(const Graph& graph, const std::string& op) {
  const auto ops = ops_of(graph);
  return static_cast<int>(std::count(ops.begin(), ops.end(), op));
}

Graph predicted(const Graph& user, Value output, const std::string& device = "cpu", bool fuse = true) {
  CompileSpec spec;
  spec.output = output;
  spec.device = device;
  spec.fuse = fuse;
  return build_step(user, spec, {}, kernel_query());
}

TEST(an_activation_joins_the_layer_before_it) {
  Graph user;
  const Value h = dense(user, input(user, {4, 5}), 6);
  const Value y = add(user, "relu", {h}, {}, "y");
  const Graph graph = predicted(user, y);
  CHECK(count(graph, "relu") == 0 && count(graph, "linear") == 1);
  CHECK(graph.find("y").valid() && graph.node(graph.find("y").node).attrs.text("activation") == "relu");
  CHECK(graph.outputs[0].second == graph.find("y"));
  CHECK(count(predicted(user, y, "cpu", false), "relu") == 1);
}

TEST(an_activation_stays_where_its_input_is_wanted) {
  Graph user;
  const Value h = dense(user, input(user, {4, 5}), 6, "none", "h");
  const Value y = add(user, "add", {add(user, "relu", {h}), h});
  CHECK(count(predicted(user, y), "relu") == 1);  // a second reader
  Graph kept;
  const Value g = dense(kept, input(kept, {4, 5}), 6, "none", "g");
  const Value r = add(kept, "relu", {g});
  CompileSpec spec;
  spec.output = r;
  StepSpec step;
  step.pinned = {g};
  CHECK(count(build_step(kept, spec, step, kernel_query()), "relu") == 1);  // somebody wants to read it
}

TEST(an_activation_with_attributes_of_its_own_stays) {
  Graph user;
  const Value y = add(user, "gelu", {dense(user, input(user, {4, 5}), 6)}, {{"approximate", true}});
  CHECK(count(predicted(user, y), "gelu") == 1);
}

TEST(softmax_and_cross_entropy_become_one) {
  const Classifier model = classifier();
  const Graph graph = build_step(model.graph, model.spec, training(), kernel_query());
  const NodeId loss = graph.find("loss").node;
  CHECK(graph.node(loss).attrs.flag("from_logits") && graph.name(graph.node(loss).inputs[0]) == "top");
  CHECK(count(graph, "softmax_grad") == 0);
  CHECK(count(graph, "softmax") == 1);  // the prediction is still wanted
  CompileSpec plain = model.spec;
  plain.fuse = false;
  CHECK(count(build_step(model.graph, plain, training(), kernel_query()), "softmax_grad") == 1);
}

TEST(softmax_over_another_axis_is_no_probability_of_classes) {
  Graph user;
  const Value x = input(user, {4, 5});
  CompileSpec spec;
  spec.output = add(user, "softmax", {dense(user, x, 3)}, {{"axis", int64_t{0}}});
  spec.label = input(user, {4, 3}, "label");
  spec.loss = "categorical_crossentropy";
  spec.loss_attrs = complete_attrs(op_def(spec.loss), {}, "loss");
  spec.metrics = complete_attrs(op_def("metrics"), {}, "metrics");
  const Graph graph = build_step(user, spec, training(), kernel_query());
  CHECK(!graph.node(graph.find("loss").node).attrs.flag("from_logits"));
}

TEST(dropout_is_gone_in_inference) {
  Graph user;
  const Value x = input(user, {4, 5});
  const Value y = dense(user, add(user, "dropout", {x}, {{"rate", 0.5}}), 3);
  CHECK(count(predicted(user, y), "dropout") == 0);
  CompileSpec spec;
  spec.output = y;
  StepSpec step;
  step.training = true;
  const Graph graph = build_step(user, spec, step, kernel_query());
  CHECK(count(graph, "dropout") == 1 && count(graph, "increment") == 1);
}

TEST(frozen_weights_take_no_gradient) {
  Classifier model = classifier();
  model.graph.node(model.graph.find("hidden/kernel").node).trainable = false;
  model.graph.node(model.graph.find("hidden/bias").node).trainable = false;
  const Graph graph = build_step(model.graph, model.spec, training(), kernel_query());
  CHECK(count(graph, "adam") == 2);
  CHECK(count(graph, "linear_grad_weight") == 1);
  CHECK(count(graph, "linear_grad_input") == 0);  // nothing before the top layer needs it
}

TEST(another_batch_size_reaches_every_tensor) {
  Graph user;
  const Value x = input(user, {8, 3, 4});
  const Value rows = add(user, "reshape", {add(user, "flat", {x})}, {{"shape", Shape{8, 4, 3}}}, "rows");
  const Value spread = add(user, "broadcast_to",
                           {add(user, "reduce_sum", {rows}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", true}})},
                           {{"shape", Shape{8, 4, 3}}}, "spread");
  for (const int64_t batch : {1, 5, 8, 100}) {
    const Copied copied = copy_for_batch(user, {spread}, batch);
    CHECK(copied.graph.type(copied(rows)).shape == Shape({batch, 4, 3}), batch);
    CHECK(copied.graph.type(copied(spread)).shape == Shape({batch, 4, 3}), batch);
  }
}

TEST(a_reshape_that_cannot_follow_the_batch_says_so) {
  Graph user;
  const Value y = add(user, "reshape", {input(user, {8, 3})}, {{"shape", Shape{6, 4}}}, "mix");
  CHECK_THROWS(copy_for_batch(user, {y}, 5), "mix");
}

TEST(a_constant_may_mean_the_batch) {
  Graph user;
  const Value x = input(user, {4, 3});
  const Value ones = add(user, "constant", {}, {{"shape", Shape{4, 3}}, {"value", 1.0}});
  const Value table = add(user, "constant", {}, {{"shape", Shape{4, 3}}, {"value", 1.0}}, "table");
  const Value y = add(user, "add", {x, ones});
  CHECK(copy_for_batch(user, {y}, 7).graph.type({copy_for_batch(user, {y}, 7)(y)}).shape == Shape({7, 3}));
  CHECK(copy_for_batch(user, {table}, 7).graph.find("table").valid());
}

TEST(gradients_add_up_over_several_uses) {
  Graph user;
  const Value x = input(user, {4, 3});
  const Value kernel = add(user, "weight", {}, {{"shape", Shape{3, 3}}}, "shared");
  const Attrs attrs = {{"out_channels", int64_t{3}}, {"use_bias", false}};
  const Value once = add(user, "linear", {x, kernel}, attrs), twice = add(user, "linear", {once, kernel}, attrs);
  CompileSpec spec;
  spec.output = twice;
  spec.label = input(user, {4, 3}, "label");
  spec.loss = "mean_squared_error";
  spec.loss_attrs = complete_attrs(op_def(spec.loss), {}, "loss");
  spec.metrics = complete_attrs(op_def("metrics"), {}, "metrics");
  spec.optimizer = "sgd";
  spec.optimizer_attrs = complete_attrs(op_def("sgd"), {}, "sgd");
  const Graph graph = build_step(user, spec, training(), kernel_query());
  CHECK(count(graph, "linear_grad_weight") == 2 && count(graph, "add") == 1 && count(graph, "sgd") == 1);
}

TEST(updates_come_as_soon_as_nobody_needs_the_old_weight) {
  const Classifier model = classifier();
  const Graph graph = build_step(model.graph, model.spec, training(), kernel_query());
  for (const bool separate : {false, true}) {
    const std::vector<NodeId> order =
        schedule({graph, std::vector<Local>(graph.size()), {}}, Machine{{Device{}}}, separate);
    const auto at = [&](const std::string& name) {
      return std::find(order.begin(), order.end(), graph.find(name).node) - order.begin();
    };
    CHECK(at("optimizer/top/kernel") > at("top/linear_grad_input"));
    CHECK((at("optimizer/top/bias") < at("hidden:linear/linear_grad_weight")) == !separate);
    for (size_t i = 0; i < order.size(); ++i)
      for (const Value& value : graph.node(order[i]).inputs)
        CHECK(std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), value.node) !=
              order.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace
