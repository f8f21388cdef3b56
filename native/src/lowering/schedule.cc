// The order of execution on one device.
#include <algorithm>

#include "lowering/lower.h"

namespace ff {

std::vector<NodeId> schedule(const Graph& graph, bool separate_sections) {
  std::vector<NodeId> order = graph.order();
  std::stable_sort(order.begin(), order.end(),
                   [&](NodeId a, NodeId b) { return graph.node(a).section < graph.node(b).section; });
  if (separate_sections) return order;

  // Updates run as soon as their gradient is there and nobody needs the old value any more: the gradient is still in
  // the cache and its memory is free sooner.
  std::vector<int> readers(graph.size(), 0);  // uses of a state by nodes that are still to come
  std::vector<NodeId> rest, updates, out;
  for (const NodeId id : order) {
    (graph.node(id).section == Section::update ? updates : rest).push_back(id);
    for (const Value& input : graph.node(id).inputs) ++readers[input.node];
  }
  std::vector<bool> done(graph.size(), false);
  const auto emit = [&](NodeId id) {
    done[id] = true;
    for (const Value& input : graph.node(id).inputs) --readers[input.node];
    out.push_back(id);
  };
  const auto ready = [&](NodeId id) {
    const Node& node = graph.node(id);
    const bool inputs_done =
        std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Value& v) { return done[v.node]; });
    const bool states_there = std::all_of(graph.assignments.begin(), graph.assignments.end(),
                                          [&](const Assignment& a) { return a.value.node != id || done[a.state]; });
    const bool overwrites_read =
        std::any_of(graph.assignments.begin(), graph.assignments.end(), [&](const Assignment& a) {
          return a.value.node == id &&
                 readers[a.state] > std::count_if(node.inputs.begin(), node.inputs.end(),
                                                  [&](const Value& v) { return v.node == a.state; });
        });
    return inputs_done && states_there && !overwrites_read;
  };
  for (const NodeId id : rest) {
    emit(id);
    for (auto it = updates.begin(); it != updates.end();) {
      if (ready(*it)) {
        emit(*it);
        it = updates.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (const NodeId id : updates) emit(id);
  return out;
}

}  // namespace ff
