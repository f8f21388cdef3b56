// The order of execution: of each device, and so that it respects what devices wait for.
#include <algorithm>
#include <set>
#include <utility>

#include "lowering/lower.h"

namespace ff {
namespace {

// Nodes that no gradient waits for float: updates run as soon as their gradient is there and nobody needs the old value
// any more, since the gradient is still in the cache and its memory is free sooner; so does what devices exchange for
// them, and loss and metrics, where the devices need not meet in the middle of the step. Devices that do not share
// their memory exchange these in buckets, since they meet at a price.
class Floating {
 public:
  Floating(const FlatGraph& flat, const Machine& machine, const std::vector<NodeId>& order)
      : flat_(flat),
        graph_(flat.graph),
        machine_(machine),
        order_(order),
        floats_(graph_.size(), false),
        readers_(graph_.size(), 0),
        done_(graph_.size(), false),
        assigned_(graph_.size()),
        waiting_(graph_.size()),
        overwriting_(graph_.size()) {
    find_floating(flat);
    for (const Assignment& assignment : graph_.assignments) {
      assigned_[assignment.value.node].push_back(assignment.state);
      // Slices that a move puts together may be made in the state's memory.
      if (const Node& value = graph_.node(assignment.value.node); value.op == "move")
        for (const Value& slice : value.inputs) assigned_[slice.node].push_back(assignment.state);
    }
    for (int place = 0; place < static_cast<int>(order.size()); ++place) {
      const Node& node = graph_.node(order[place]);
      for (const Value& input : node.inputs) ++readers_[input.node];
      if (!floats_[order[place]]) continue;
      for (const Value& input : node.inputs) waiting_[input.node].push_back(place);
      for (const NodeId state : assigned_[order[place]]) overwriting_[state].push_back(place);
    }
  }

  std::vector<NodeId> run() {
    for (const NodeId id : order_) {
      if (!floats_[id]) emit(id);
      if (bucket_bytes_ >= kBucket) exchange();
    }
    while (!bucket_.empty() || !due_.empty()) exchange();
    for (const NodeId id : order_)
      if (!done_[id]) emit(id);
    while (!bucket_.empty() || !due_.empty()) exchange();
    return std::move(out_);
  }

 private:
  void find_floating(const FlatGraph& flat) {
    const bool several =
        !flat.stages.empty() || std::any_of(flat.locals.begin(), flat.locals.end(),
                                            [&](const Local& local) { return local.device != flat.locals[0].device; });
    const auto users = graph_.users();
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Node& node = graph_.node(*it);
      const bool aside = several && (node.op == "move" || node.section == Section::loss);
      floats_[*it] = node.section == Section::update || (aside && std::all_of(users[*it].begin(), users[*it].end(),
                                                                              [&](NodeId id) { return floats_[id]; }));
    }
  }

  // A node, and then those that float and that it was the last to hold up.
  void emit(NodeId id) {
    std::set<int> perhaps;
    put(id, perhaps);
    while (!perhaps.empty()) {
      const NodeId next = order_[*perhaps.begin()];
      perhaps.erase(perhaps.begin());
      if (done_[next] || !ready(next)) continue;
      if (comes_from_afar(next))
        collect(next);
      else
        put(next, perhaps);
    }
  }

  bool comes_from_afar(NodeId id) const {
    const std::vector<Value>& inputs = graph_.node(id).inputs;
    return graph_.node(id).op == "move" && std::any_of(inputs.begin(), inputs.end(), [&](const Value& input) {
             return !machine_.share_memory(flat_.locals[input.node].device, flat_.locals[id].device);
           });
  }

  void collect(NodeId id) {
    if (std::find(bucket_.begin(), bucket_.end(), id) != bucket_.end()) return;
    bucket_.push_back(id);
    if (graph_.node(id).attrs.text("combiner") != "copy") bucket_bytes_ += graph_.type({id, 0}).bytes();
  }

  // What was collected before the last time: it has come by now. Who was the last to be ready goes first, so that who
  // waits for it need not wait for the others.
  void exchange() {
    std::vector<NodeId> due = std::exchange(due_, std::exchange(bucket_, {}));
    bucket_bytes_ = 0;
    for (; !due.empty(); due.pop_back()) emit(due.back());
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

  static constexpr size_t kBucket = 1 << 20;  // bytes of sums

  const FlatGraph& flat_;
  const Graph& graph_;
  const Machine& machine_;
  const std::vector<NodeId>& order_;
  std::vector<bool> floats_;
  std::vector<int> readers_;  // uses of a node by others that are still to come
  std::vector<bool> done_;
  std::vector<std::vector<NodeId>> assigned_;  // by node: the states that take its values
  std::vector<std::vector<int>> waiting_;      // by node: places in the order of the updates that take its values
  std::vector<std::vector<int>> overwriting_;  // by state: of those that overwrite it
  std::vector<NodeId> bucket_, due_;           // moves that are ready
  size_t bucket_bytes_ = 0;
  std::vector<NodeId> out_;
};

}  // namespace

std::vector<NodeId> schedule(const FlatGraph& flat, const Machine& machine, bool separate_sections) {
  const Graph& graph = flat.graph;
  std::vector<NodeId> order = graph.order();
  std::stable_sort(order.begin(), order.end(),
                   [&](NodeId a, NodeId b) { return graph.node(a).section < graph.node(b).section; });
  if (separate_sections) return order;
  if (!flat.stages.empty()) order = in_micro_batches(flat, order);
  return Floating(flat, machine, order).run();
}

}  // namespace ff
