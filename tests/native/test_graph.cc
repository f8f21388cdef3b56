#include "check.h"
#include "graph/graph.h"
#include "ops/op.h"

using namespace ff;

namespace {

Value add(Graph& graph, const std::string& op, std::vector<Value> inputs, Attrs attrs = {},
          const std::string& name = "") {
  return {add_op(graph, op, std::move(attrs), std::move(inputs), name), 0};
}

Value input(Graph& graph, Shape shape, const std::string& name = "x") {
  return add(graph, "input", {}, {{"shape", std::move(shape)}}, name);
}

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> out;
  for (const NodeId id : graph.order()) out.push_back(graph.node(id).name);
  return out;
}

TEST(names_are_unique) {
  Graph graph;
  const Value x = input(graph, {2, 3});
  const Value a = add(graph, "relu", {x}), b = add(graph, "relu", {x}), c = add(graph, "relu", {x}, {}, "relu_1");
  CHECK(graph.name(a) == "relu" && graph.name(b) == "relu_1" && graph.name(c) == "relu_1_1");
  CHECK(graph.find("relu_1") == b && graph.find("relu_1_1") == c);
  CHECK(!graph.find("tanh").valid() && !graph.find("").valid());
}

TEST(outputs_have_names) {
  Graph graph;
  const Value x = input(graph, {2, 5});
  const Value parts = add(graph, "split", {x}, {{"sizes", std::vector<int64_t>{2, 3}}, {"axis", int64_t{1}}}, "s");
  CHECK(graph.name({parts.node, 1}) == "s:1");
  CHECK((graph.find("s:1") == Value{parts.node, 1}));
  CHECK(graph.find("s:0") == parts);
  for (const char* wrong : {"s:2", "s:-1", "x:1", "t:0", ":1"}) CHECK(!graph.find(wrong).valid(), wrong);
  CHECK(graph.type({parts.node, 1}).shape == Shape({2, 3}));
  CHECK_THROWS(graph.type({parts.node, 2}), "no output 2");
}

TEST(weights_come_before_their_op) {
  Graph graph;
  const Value x = input(graph, {4, 3});
  const Value y = add(graph, "linear", {x}, {{"out_channels", int64_t{2}}}, "dense");
  CHECK(names(graph) == std::vector<std::string>({"x", "dense/kernel", "dense/bias", "dense"}));
  const std::vector<Value> inputs = graph.node(y.node).inputs;
  CHECK(inputs.size() == 3);
  const Value shared = add(graph, "linear", {x, inputs[1], inputs[2]}, {{"out_channels", int64_t{2}}}, "again");
  CHECK(graph.node(shared.node).inputs == inputs);
  CHECK(graph.size() == 5, graph.size());
}

TEST(order_follows_uses_that_were_moved) {
  Graph graph;
  const Value x = input(graph, {2});
  const Value a = add(graph, "relu", {x}, {}, "a");
  const Value b = add(graph, "tanh", {a}, {}, "b");
  const Value late = add(graph, "exp", {x}, {}, "late");
  graph.replace(a, late);  // b now uses a node with a larger id
  CHECK(graph.node(b.node).inputs[0] == late);
  const auto order = names(graph);
  const auto at = [&](const char* name) { return std::find(order.begin(), order.end(), name) - order.begin(); };
  CHECK(at("late") < at("b") && at("x") < at("late"), join(order));
}

TEST(replace_reaches_outputs_and_assignments) {
  Graph graph;
  const Value x = input(graph, {2});
  const Value state = add(graph, "weight", {}, {{"shape", Shape{2}}}, "w");
  const Value a = add(graph, "relu", {x}), b = add(graph, "tanh", {x});
  graph.outputs.emplace_back("y", a);
  graph.assignments.push_back({state.node, a});
  graph.replace(a, b);
  CHECK(graph.outputs[0].second == b && graph.assignments[0].value == b);
}

TEST(sweep_drops_what_nothing_needs) {
  Graph graph;
  const Value x = input(graph, {2}), unused = input(graph, {2}, "unused");
  const Value state = add(graph, "weight", {}, {{"shape", Shape{2}}}, "w");
  const Value y = add(graph, "relu", {x}, {}, "y");
  add(graph, "tanh", {y}, {}, "dead");
  const Value next = add(graph, "add", {state, y}, {}, "next");
  graph.outputs.emplace_back("y", y);
  graph.assignments.push_back({state.node, next});
  graph.sweep();
  CHECK(names(graph) == std::vector<std::string>({"x", "w", "y", "next"}), join(names(graph)));
  CHECK(graph.node(unused.node).dead && !graph.find("unused").valid());
  CHECK(graph.users()[y.node].size() == 1);
  graph.rename(y.node, "dead");  // the name is free again
  CHECK(graph.find("dead") == y);
}

TEST(streams_are_fixed_when_the_graph_is_built) {
  Graph graph;
  const Value x = input(graph, {2, 3});
  const Attrs attrs = {{"rate", 0.5}};
  const Value a = add(graph, "dropout", {x}, attrs), b = add(graph, "dropout", {x}, attrs);
  const auto stream = [&](Value v) { return graph.node(v.node).attrs.integer("stream"); };
  CHECK(stream(a) != 0 && stream(b) != 0 && stream(a) != stream(b));
}

TEST(attributes_are_completed_and_checked) {
  const OpDef& pool = op_def("pool2d");
  const Attrs attrs = complete_attrs(pool, {{"kernel", std::vector<int64_t>{2, 2}}}, "p");
  CHECK(attrs.text("pool_type") == "max" && !attrs.flag("ceil_mode"));
  CHECK_THROWS(complete_attrs(pool, {}, "p"), "p: attribute \"kernel\" is missing");
  CHECK_THROWS(complete_attrs(pool, {{"kernle", int64_t{2}}}, "p"), "unknown attribute \"kernle\"; known: kernel");
  CHECK_THROWS(complete_attrs(pool, {{"kernel", int64_t{2}}}, "p"), "expected a list of int");
  CHECK_THROWS(complete_attrs(pool, {{"kernel", std::vector<int64_t>{2, 2}}, {"pool_type", std::string("min")}}, "p"),
               "expected one of max, avg");
  // An integer is a real number, and not the other way round.
  CHECK(complete_attrs(op_def("pow"), {{"exponent", int64_t{2}}}, "p").real("exponent") == 2.0);
  CHECK_THROWS(complete_attrs(op_def("concat"), {{"axis", 1.0}}, "p"), "expected an int");
  CHECK_THROWS(op_def("conv"), "did you mean conv2d");
}

}  // namespace
