// Reverse-mode differentiation: walk the graph backwards and let each op emit its gradient as further ops.
#include <algorithm>

#include "base/error.h"
#include "lowering/step_graph.h"
#include "ops/grad.h"

namespace ff {
namespace {

// Nodes with a float path from one of the wanted tensors: only these carry gradients.
std::vector<bool> reached_from(const Graph& graph, const std::vector<NodeId>& order, const std::vector<Value>& wanted) {
  std::vector<bool> reached(graph.size(), false);
  for (const Value& value : wanted) reached[value.node] = true;
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    if (!reached[id] && !op_def(node.op).gradient_free)
      reached[id] = std::any_of(node.inputs.begin(), node.inputs.end(),
                                [&](const Value& in) { return reached[in.node] && is_float(graph.type(in).dtype); });
  }
  return reached;
}

}  // namespace

std::vector<Value> gradients(Graph& graph, Value loss, const std::vector<Value>& wanted) {
  const std::vector<NodeId> order = graph.order();
  const std::vector<bool> reached = reached_from(graph, order, wanted);
  std::vector<std::vector<Value>> grads(graph.size());  // by node and output
  for (const NodeId id : order) grads[id].resize(graph.node(id).outputs.size());
  const auto is_wanted = [&](Value value) { return std::find(wanted.begin(), wanted.end(), value) != wanted.end(); };

  Emitter seed(graph, loss.node, Section::backward);
  grads[loss.node][loss.index] = seed.fill(graph.type(loss), 1.0);

  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const NodeId id = *it;
    const std::vector<Value>& douts = grads[id];
    const bool flows = std::any_of(douts.begin(), douts.end(), [](const Value& v) { return v.valid(); });
    if (!flows || !reached[id] || graph.node(id).inputs.empty()) continue;
    const OpDef& def = op_def(graph.node(id).op);
    if (def.gradient_free) continue;
    if (!def.grad)
      bad_value(graph.node(id).name, ": operator ", def.name,
                " has no gradient, but a weight before it is to be trained");
    std::vector<bool> needed;
    for (const Value& input : graph.node(id).inputs)
      needed.push_back((reached[input.node] || is_wanted(input)) && is_float(graph.type(input).dtype));
    GradContext context(graph, id, douts, needed);
    def.grad(context);
    for (size_t i = 0; i < needed.size(); ++i) {
      const Value grad = context.input_grads()[i];
      if (!needed[i] || !grad.valid()) continue;
      const Value input = graph.node(id).inputs[i];
      FF_CHECK(graph.type(grad).shape == graph.type(input).shape, def.name, ": gradient of input ", i, " has shape ",
               to_string(graph.type(grad).shape), ", the input ", to_string(graph.type(input).shape));
      Value& sum = grads[input.node][input.index];
      sum = sum.valid() ? context.emit("add", {sum, grad}) : grad;
    }
  }
  std::vector<Value> result;
  for (const Value& value : wanted) result.push_back(grads[value.node][value.index]);
  return result;
}

}  // namespace ff
