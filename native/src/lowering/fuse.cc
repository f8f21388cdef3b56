// Rewrites into fused operators. Each leaves the graph as it was where no kernel takes the fused form or a tensor
// between is wanted by somebody else.
#include <algorithm>
#include <array>

#include "lowering/step_graph.h"
#include "ops/op.h"

namespace ff {
namespace {

bool is_output(const Graph& graph, Value value) {
  const auto same = [&](const auto& named) { return named.second == value; };
  const auto assigned = [&](const Assignment& a) { return a.value == value; };
  return std::any_of(graph.outputs.begin(), graph.outputs.end(), same) ||
         std::any_of(graph.assignments.begin(), graph.assignments.end(), assigned);
}

bool is_activation(const OpDef& def, const Node& node) {
  const AttrSpec* spec = def.find_attr("activation");
  return spec != nullptr && std::find(spec->choices.begin(), spec->choices.end(), node.op) != spec->choices.end();
}

// The activation's own attributes must have their defaults: the fused attribute has a name only.
bool plain(const Node& activation) {
  for (const AttrSpec& spec : op_def(activation.op).attrs)
    if (!spec.fallback || activation.attrs != complete_attrs(op_def(activation.op), {}, activation.op)) return false;
  return true;
}

// An activation must not come before a sum is complete, nor lie elsewhere than the strategy says.
bool placed_apart(const Graph& graph, const Strategy& strategy, NodeId producer, NodeId activation) {
  const auto of_producer = strategy.ops.find(graph.node(producer).origin);
  const auto of_activation = strategy.ops.find(graph.node(activation).origin);
  if (of_activation != strategy.ops.end() && graph.node(activation).origin != graph.node(producer).origin) return true;
  if (of_producer == strategy.ops.end()) return false;
  const Splitting splitting(op_def(graph.node(producer).op), graph.call(producer));
  for (const Split& split : of_producer->second.splits)
    for (size_t i = 0; i < splitting.box().size(); ++i)
      if (splitting.box()[i].name == split.index && split.degree > 1 && splitting.combined(i)) return true;
  return false;
}

}  // namespace

void fuse_activations(Graph& graph, const CompileSpec& compile, const KernelQuery& kernels) {
  const auto users = graph.users();
  for (const NodeId id : graph.order()) {
    const Node activation = graph.node(id);
    if (activation.inputs.size() != 1) continue;
    const Value before = activation.inputs[0];
    Node& producer = graph.node(before.node);
    if (before.index != 0 || producer.dead || !is_activation(op_def(producer.op), activation) || !plain(activation))
      continue;
    if (producer.attrs.text("activation") != "none" || users[before.node].size() != 1 || is_output(graph, before))
      continue;
    if (placed_apart(graph, compile.strategy, before.node, id)) continue;
    OpCall fused = graph.call(before.node);
    fused.attrs.set("activation", activation.op);
    if (!kernels.supported(fused, compile.device)) continue;
    producer.attrs.set("activation", activation.op);
    producer.recompute = activation.recompute;  // whose output it is that is kept or not
    graph.replace({id, 0}, before);
    graph.remove(id);
    graph.rename(before.node, activation.name);
  }
}

void fuse_losses(Graph& graph, NodeId loss) {
  // A loss on probabilities that come straight from the matching activation is the loss on logits: exact where the
  // probabilities round to 0 or 1, and one pass instead of three.
  static constexpr std::array<std::array<const char*, 2>, 3> kPairs = {{{"softmax", "categorical_crossentropy"},
                                                                        {"softmax", "sparse_categorical_crossentropy"},
                                                                        {"sigmoid", "binary_crossentropy"}}};
  const Node& node = graph.node(loss);
  const Value prediction = node.inputs[0];
  const Node& producer = graph.node(prediction.node);
  const bool pair =
      std::any_of(kPairs.begin(), kPairs.end(), [&](const auto& p) { return producer.op == p[0] && node.op == p[1]; });
  if (!pair || node.attrs.flag("from_logits")) return;
  const auto last = static_cast<int64_t>(graph.type(prediction).rank()) - 1;
  if (producer.attrs.has("axis") && producer.attrs.integer("axis") != -1 && producer.attrs.integer("axis") != last)
    return;
  graph.node(loss).inputs[0] = producer.inputs[0];
  graph.node(loss).attrs.set("from_logits", true);
}

}  // namespace ff
