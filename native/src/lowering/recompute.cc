// Activations that a strategy does not keep from forward to backward: whoever reads them there reads what a copy of
// their op computes again, from tensors that are kept (Chen et al. 2016, "Training deep nets with sublinear memory
// cost"). A copy comes just before its first reader, because the order of a graph visits inputs from their readers.
#include <algorithm>

#include "lowering/step_graph.h"
#include "ops/op.h"

namespace ff {
namespace {

class Recomputing {
 public:
  explicit Recomputing(Graph& graph)
      : graph_(graph), order_(graph.order()), wanted_(graph.size(), false), copies_(graph.size(), -1) {}

  void run() {
    for (auto id = order_.rbegin(); id != order_.rend(); ++id)
      if (wanted_[*id] || graph_.node(*id).section == Section::backward) want_inputs(*id);
    for (const NodeId id : order_) {
      if (wanted_[id]) copies_[id] = copy(id);
      if (graph_.node(id).section == Section::backward)
        for (Value& input : graph_.node(id).inputs) input = again(input);
    }
  }

 private:
  void want_inputs(NodeId id) {
    const Node& node = graph_.node(id);
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (!is_state(node, k) && dropped(node.inputs[k])) wanted_[node.inputs[k].node] = true;
  }

  // A result that the caller wants to read is there anyway.
  bool dropped(Value value) const {
    return graph_.node(value.node).recompute &&
           std::none_of(graph_.outputs.begin(), graph_.outputs.end(),
                        [&](const auto& output) { return output.second == value; });
  }

  // The same op on the same operands: attributes hold the random stream, and the step counter is an operand that is
  // kept. No state takes a copy's values.
  NodeId copy(NodeId id) {
    Node node = graph_.node(id);
    node.name += "/again";
    node.section = Section::backward;
    node.recompute = false;
    node.again = id;
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (!is_state(node, k)) node.inputs[k] = again(node.inputs[k]);
    return graph_.add(std::move(node));
  }

  Value again(Value value) const {
    return dropped(value) && copies_[value.node] >= 0 ? Value{copies_[value.node], value.index} : value;
  }

  // Is the operand a state that the op moves on? Its old value decides about the new one only.
  static bool is_state(const Node& node, size_t input) {
    const auto& updates = op_def(node.op).state_updates;
    return std::any_of(updates.begin(), updates.end(),
                       [&](const auto& update) { return static_cast<size_t>(update.first) == input; });
  }

  Graph& graph_;
  const std::vector<NodeId> order_;
  std::vector<bool> wanted_;    // ops whose outputs are computed again
  std::vector<NodeId> copies_;  // by node
};

}  // namespace

void mark_recomputed(Graph& graph, const Strategy& strategy) {
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    node.recompute =
        node.section == Section::forward && !node.inputs.empty() && strategy.recomputed.count(node.origin) != 0;
  }
}

void recompute(Graph& graph) { Recomputing(graph).run(); }

}  // namespace ff
