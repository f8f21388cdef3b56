// Small plans for the tests of memory, the null engine and rewriting.
#pragma once

#include "kernels/kernel.h"
#include "lowering/lower.h"
#include "lowering/step_graph.h"
#include "ops/op.h"

namespace plans {

using namespace ff;

inline Value add(Graph& graph, const std::string& op, std::vector<Value> inputs, Attrs attrs = {},
                 const std::string& name = "") {
  return {add_op(graph, op, std::move(attrs), std::move(inputs), name), 0};
}

inline Value input(Graph& graph, Shape shape, const std::string& name = "x", const std::string& dtype = "float32") {
  return add(graph, "input", {}, {{"shape", std::move(shape)}, {"dtype", dtype}}, name);
}

inline Value dense(Graph& graph, Value x, int64_t out, const std::string& activation = "none",
                   const std::string& name = "") {
  return add(graph, "linear", {x}, {{"out_channels", out}, {"activation", activation}}, name);
}

// A classifier: two dense layers and a softmax; its label is the last input.
struct Classifier {
  Graph graph;
  CompileSpec spec;
};

inline Classifier classifier(const std::string& device = "reference") {
  Classifier made;
  const Value x = input(made.graph, {8, 5});
  made.spec.output = add(made.graph, "softmax",
                         {dense(made.graph, dense(made.graph, x, 6, "relu", "hidden"), 3, "none", "top")}, {}, "y");
  made.spec.label = input(made.graph, {8, 1}, "label", "int32");
  made.spec.loss = "sparse_categorical_crossentropy";
  made.spec.loss_attrs = complete_attrs(op_def(made.spec.loss), {}, "loss");
  made.spec.optimizer = "adam";
  made.spec.optimizer_attrs = complete_attrs(op_def("adam"), {}, "adam");
  made.spec.metrics = complete_attrs(op_def("metrics"), {{"sparse", true}, {"accuracy", true}}, "metrics");
  made.spec.device = device;
  return made;
}

inline StepSpec training(bool separate_sections = false) {
  StepSpec step;
  step.training = step.loss = step.backward = step.update = true;
  step.separate_sections = separate_sections;
  return step;
}

inline Plan plan_of(Graph graph, bool separate_sections = false, const std::string& device = "reference") {
  const Machine machine{{Device{.kind = device}}};
  return lower(place(std::move(graph), {}, machine), machine, kernel_query(), {.separate_sections = separate_sections});
}

inline std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const NodeId id : graph.order()) ops.push_back(graph.node(id).op);
  return ops;
}

}  // namespace plans
