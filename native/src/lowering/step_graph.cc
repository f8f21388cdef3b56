#include "lowering/step_graph.h"

#include <algorithm>

#include "base/error.h"
#include "ops/grad.h"

namespace ff {
namespace {

NodeId add_in(Graph& graph, Section section, const std::string& op, Attrs attrs, std::vector<Value> inputs,
              const std::string& name) {
  const NodeId id = add_op(graph, op, std::move(attrs), std::move(inputs), name);
  graph.node(id).section = section;
  return id;
}

NodeId add_state(Graph& graph, const std::string& name, const TensorType& type, double value = 0.0) {
  const NodeId id = add_op(graph, "weight",
                           {{"shape", type.shape},
                            {"dtype", std::string(name_of(type.dtype))},
                            {"initializer", std::string("constant")},
                            {"value", value}},
                           {}, name);
  graph.node(id).trainable = false;
  return id;
}

// Fused onto the logits, unless the gradient of the prediction itself is to be kept.
NodeId add_loss(Graph& graph, const CompileSpec& compile, size_t first_gradient, Value prediction, Value label) {
  const NodeId id = add_in(graph, Section::loss, compile.loss, compile.loss_attrs, {prediction, label}, "loss");
  const bool kept = std::any_of(graph.outputs.begin() + static_cast<std::ptrdiff_t>(first_gradient),
                                graph.outputs.end(), [&](const auto& output) { return output.second == prediction; });
  if (compile.fuse && !kept) fuse_losses(graph, id);
  return id;
}

void add_metrics(Graph& graph, const CompileSpec& compile, Value prediction, Value label, Value loss) {
  const NodeId totals = add_state(graph, "metrics/totals", {DType::float64, {8}});
  const NodeId next =
      add_in(graph, Section::loss, "metrics", compile.metrics, {prediction, label, loss, {totals, 0}}, "metrics/next");
  graph.assignments.push_back({totals, {next, 0}});
}

std::vector<NodeId> trainable_weights(const Graph& graph) {
  std::vector<NodeId> weights;
  for (const NodeId id : graph.order())
    if (graph.node(id).op == "weight" && graph.node(id).trainable && is_float(graph.node(id).outputs[0].dtype))
      weights.push_back(id);
  return weights;
}

Value regularized(Graph& graph, NodeId weight, Value grad) {
  const Attrs& attrs = graph.node(weight).attrs;
  if (attrs.real("l1") == 0.0 && attrs.real("l2") == 0.0) return grad;
  const Attrs penalty = {{"l1", attrs.real("l1")}, {"l2", attrs.real("l2")}};
  return {add_in(graph, Section::backward, "regularize", penalty, {grad, {weight, 0}},
                 graph.node(weight).name + "/regularize"),
          0};
}

// Sections on their own: gradients add up in states until they are zeroed. The update reads the state, which backward
// has settled by then, whichever plan ran it.
Value accumulated(Graph& graph, NodeId weight, Value grad) {
  const NodeId state = add_state(graph, "gradient/" + graph.node(weight).name, graph.node(weight).outputs[0]);
  const NodeId sum =
      add_in(graph, Section::backward, "add", {}, {{state, 0}, grad}, graph.node(weight).name + "/accumulate");
  graph.assignments.push_back({state, {sum, 0}});
  return {state, 0};
}

// All gradients by one factor, so that their norm together is clip_norm at most.
void clip_gradients(Graph& graph, double clip_norm, const std::vector<NodeId>& weights, std::vector<Value>& grads) {
  std::vector<Value> sums;
  for (size_t i = 0; i < weights.size(); ++i)
    if (grads[i].valid())
      sums.push_back({add_in(graph, Section::update, "square_sum", {}, {grads[i]},
                             "optimizer/" + graph.node(weights[i]).name + "/square_sum"),
                      0});
  if (sums.empty()) return;
  const NodeId factor =
      add_in(graph, Section::update, "clip_factor", {{"norm", clip_norm}}, sums, "optimizer/clip_factor");
  for (size_t i = 0; i < weights.size(); ++i)
    if (grads[i].valid())
      grads[i] = {add_in(graph, Section::update, "scale", {}, {grads[i], {factor, 0}},
                         "optimizer/" + graph.node(weights[i]).name + "/clipped"),
                  0};
}

// The learning rate is a state; where a schedule computes it, that shows what the last step used.
Value learning_rate(Graph& graph, const CompileSpec& compile, NodeId state, Value step) {
  if (compile.schedule.empty()) return {state, 0};
  const Value rate = {
      add_in(graph, Section::update, compile.schedule, compile.schedule_attrs, {step}, "optimizer/schedule"), 0};
  graph.assignments.push_back({state, rate});
  return rate;
}

// One update op per weight; its own states (momentum and the like) and its results follow its definition.
void add_updates(Graph& graph, const CompileSpec& compile, const std::vector<NodeId>& weights,
                 std::vector<Value> grads) {
  const NodeId state = add_state(graph, "optimizer/learning_rate", {DType::float64, {}}, 0.01);
  const NodeId step = add_state(graph, "optimizer/step", {DType::int64, {}});
  const Value rate = learning_rate(graph, compile, state, {step, 0});
  if (compile.clip_norm > 0) clip_gradients(graph, compile.clip_norm, weights, grads);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!grads[i].valid()) continue;
    const std::string name = "optimizer/" + graph.node(weights[i]).name;
    const NodeId update = add_in(graph, Section::update, compile.optimizer, compile.optimizer_attrs,
                                 {{weights[i], 0}, grads[i], rate, {step, 0}}, name);
    graph.assignments.push_back({weights[i], {update, 0}});
    const std::vector<Value> inputs = graph.node(update).inputs;
    for (size_t k = 4; k < inputs.size(); ++k)
      graph.assignments.push_back({inputs[k].node, {update, static_cast<int32_t>(k) - 3}});
  }
  const NodeId next = add_in(graph, Section::update, "increment", {}, {{step, 0}}, "optimizer/next_step");
  graph.assignments.push_back({step, {next, 0}});
}

// The outputs from `first_gradient` on stand for tensors whose gradients are to be kept, and become these gradients.
void add_backward(Graph& graph, const CompileSpec& compile, const StepSpec& step, size_t first_gradient, Value loss) {
  const std::vector<NodeId> weights = trainable_weights(graph);
  std::vector<Value> wanted;
  for (const NodeId weight : weights) wanted.push_back({weight, 0});
  for (size_t k = 0; k < step.pinned_gradients.size(); ++k) wanted.push_back(graph.outputs[first_gradient + k].second);
  std::vector<Value> grads = gradients(graph, loss, wanted);
  for (size_t k = 0; k < step.pinned_gradients.size(); ++k) {
    const Value grad = grads[weights.size() + k];
    Value& kept = graph.outputs[first_gradient + k].second;
    kept = grad.valid() ? grad : Emitter(graph, kept.node, Section::backward).fill(graph.type(kept), 0.0);
  }
  grads.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!grads[i].valid()) continue;
    grads[i] = regularized(graph, weights[i], grads[i]);
    if (step.separate_sections) grads[i] = accumulated(graph, weights[i], grads[i]);
  }
  if (step.update && !compile.optimizer.empty()) add_updates(graph, compile, weights, grads);
}

}  // namespace

Graph build_step(const Graph& user, const CompileSpec& compile, const StepSpec& step, const KernelQuery& kernels) {
  std::vector<Value> roots = {compile.output};
  if (step.loss) roots.push_back(compile.label);
  roots.insert(roots.end(), step.pinned.begin(), step.pinned.end());
  roots.insert(roots.end(), step.pinned_gradients.begin(), step.pinned_gradients.end());
  Copied copied = copy_for_batch(user, roots, step.batch);
  Graph& graph = copied.graph;

  // Outputs follow their values through every rewrite.
  graph.outputs.emplace_back("prediction", copied(compile.output));
  for (const Value& value : step.pinned) graph.outputs.emplace_back(user.name(value), copied(value));
  const size_t first_gradient = graph.outputs.size();
  for (const Value& value : step.pinned_gradients)
    graph.outputs.emplace_back("gradient/" + user.name(value), copied(value));
  expand_composites(graph);
  set_mode(graph, step.training, compile.seed);
  expand_activations(graph);
  expand_split(graph, compile.strategy);

  if (step.loss) {
    const Value prediction = graph.outputs.front().second;
    const Value label = copied(compile.label);
    const Value loss = {add_loss(graph, compile, first_gradient, prediction, label), 0};
    graph.outputs.emplace_back("loss", loss);
    add_metrics(graph, compile, prediction, label, loss);
    if (step.backward) add_backward(graph, compile, step, first_gradient, loss);
  }
  graph.sweep();
  promote_halves(graph, compile.device, kernels);
  expand_unsupported(graph, compile.device, kernels);
  mark_recomputed(graph, compile.strategy);
  if (compile.fuse) fuse_activations(graph, compile, kernels);
  recompute(graph);
  graph.sweep();
  return std::move(copied.graph);
}

}  // namespace ff
