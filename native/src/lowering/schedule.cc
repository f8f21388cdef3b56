// The order of execution on one device.
#include <algorithm>
#include <set>

#include "lowering/lower.h"

namespace ff {
namespace {

// Updates run as soon as their gradient is there and nobody needs the old value any more: the gradient is still in the
// cache and its memory is free sooner.
class EarlyUpdates {
 public:
  EarlyUpdates(const Graph& graph, const std::vector<NodeId>& order)
      : graph_(graph),
        order_(order),
        readers_(graph.size(), 0),
        done_(graph.size(), false),
        assigned_(graph.size()),
        waiting_(graph.size()),
        overwriting_(graph.size()) {
    for (const Assignment& assignment : graph.assignments) {
      assigned_[assignment.value.node].push_back(assignment.state);
      // Slices that a move puts together may be made in the state's memory.
      if (const Node& value = graph.node(assignment.value.node); value.op == "move")
        for (const Value& slice : value.inputs) assigned_[slice.node].push_back(assignment.state);
    }
    for (int place = 0; place < static_cast<int>(order.size()); ++place) {
      const Node& node = graph.node(order[place]);
      for (const Value& input : node.inputs) ++readers_[input.node];
      if (node.section != Section::update) continue;
      for (const Value& input : node.inputs) waiting_[input.node].push_back(place);
      for (const NodeId state : assigned_[order[place]]) overwriting_[state].push_back(place);
    }
  }

  std::vector<NodeId> run() {
    for (const NodeId id : order_)
      if (graph_.node(id).section != Section::update) emit(id);
    for (const NodeId id : order_)
      if (!done_[id]) emit(id);
    return std::move(out_);
  }

 private:
  // A node, and then the updates that it was the last to hold up.
  void emit(NodeId id) {
    std::set<int> perhaps;
    put(id, perhaps);
    while (!perhaps.empty()) {
      const NodeId update = order_[*perhaps.begin()];
      perhaps.erase(perhaps.begin());
      if (!done_[update] && ready(update)) put(update, perhaps);
    }
  }

  void put(NodeId id, std::set<int>& perhaps) {
    done_[id] = true;
    out_.push_back(id);
    perhaps.insert(waiting_[id].begin(), waiting_[id].end());
    perhaps.insert(overwriting_[id].begin(), overwriting_[id].end());
    for (const Value& input : graph_.node(id).inputs) {
      --readers_[input.node];
      perhaps.insert(overwriting_[input.node].begin(), overwriting_[input.node].end());
    }
  }

  bool ready(NodeId id) const {
    const std::vector<Value>& inputs = graph_.node(id).inputs;
    const auto own_reads = [&](NodeId state) {
      return std::count_if(inputs.begin(), inputs.end(), [&](const Value& v) { return v.node == state; });
    };
    return std::all_of(inputs.begin(), inputs.end(), [&](const Value& v) { return done_[v.node]; }) &&
           std::all_of(assigned_[id].begin(), assigned_[id].end(),
                       [&](NodeId state) { return done_[state] && readers_[state] <= own_reads(state); });
  }

  const Graph& graph_;
  const std::vector<NodeId>& order_;
  std::vector<int> readers_;  // uses of a node by others that are still to come
  std::vector<bool> done_;
  std::vector<std::vector<NodeId>> assigned_;  // by node: the states that take its values
  std::vector<std::vector<int>> waiting_;      // by node: places in the order of the updates that take its values
  std::vector<std::vector<int>> overwriting_;  // by state: of those that overwrite it
  std::vector<NodeId> out_;
};

}  // namespace

std::vector<NodeId> schedule(const Graph& graph, bool separate_sections) {
  std::vector<NodeId> order = graph.order();
  std::stable_sort(order.begin(), order.end(),
                   [&](NodeId a, NodeId b) { return graph.node(a).section < graph.node(b).section; });
  return separate_sections ? order : EarlyUpdates(graph, order).run();
}

}  // namespace ff
