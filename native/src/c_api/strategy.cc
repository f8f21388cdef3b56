// Strategies: as options of a call, and as a text of what they come to.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "c_api/objects.h"
#include "c_api/options.h"
#include "lowering/step_graph.h"
#include "ops/op.h"
#include "parallel/flatten.h"

namespace ff::c_api {
namespace {

// "0 b0:2:1 o:4:2": from device 0 on, index b0 in 2 parts one device apart, index o in 4 parts two devices apart.
Placement placement_of(const std::string& op, const std::string& text) {
  Placement placement;
  std::istringstream in(text);
  in >> placement.start;
  bool good = !in.fail();
  for (std::string item; good && in >> item;) {
    std::replace(item.begin(), item.end(), ':', ' ');
    std::istringstream fields(item);
    Split split;
    fields >> split.index >> split.degree >> split.stride;
    good = !fields.fail();
    placement.splits.push_back(std::move(split));
  }
  if (!good) bad_value(op, ": placement \"", text, "\" is not of the form \"start index:degree:stride ...\"");
  return placement;
}

using Kinds = std::set<std::string>;  // of moves

// What a node of the user's graph comes to, in all the calls that are made for it.
struct Spread {
  std::set<int> devices;
  std::set<int> micros;   // micro-batches; -1: of a call that is in none
  bool whole_op = false;  // some call is of the node's own op
  // Of the parts in a micro-batch, by index; of these calls, if there are.
  std::map<std::string, std::map<int, std::set<int64_t>>> begins;
  std::map<NodeId, Kinds> reads;  // by the node that made what is read, itself included
};

bool is_source(const Node& node) { return node.op == "weight" || node.op == "constant" || node.op == "input"; }

// The forward pass in training, split as the strategy says; nothing is fused, no loss follows.
FlatGraph forward(const Graph& user, const Strategy& strategy, int64_t seed) {
  std::vector<Value> roots;
  const auto users = user.users();
  for (const NodeId id : user.order())
    if (users[id].empty() && !is_source(user.node(id))) roots.push_back({id, 0});
  Copied copied = copy_for_batch(user, roots, 0);
  for (const Value& root : roots) copied.graph.outputs.emplace_back(user.name(root), copied(root));
  expand_composites(copied.graph);
  set_mode(copied.graph, true, seed);
  expand_activations(copied.graph);
  expand_split(copied.graph, strategy);
  copied.graph.sweep();
  return flatten(place(std::move(copied.graph), strategy, {}), {});
}

// Who made a value, and the moves between devices that brought it.
void trace(const FlatGraph& flat, Value value, Kinds kinds, std::map<NodeId, Kinds>& found) {
  const Node& node = flat.graph.node(value.node);
  if (node.op != "move") {
    if (node.origin >= 0 && node.op != "weight" && node.op != "constant") found[node.origin].merge(kinds);
    return;
  }
  const auto here = [&](Value input) { return flat.locals[input.node].device == flat.locals[value.node].device; };
  if (!std::all_of(node.inputs.begin(), node.inputs.end(), here))
    kinds.insert(node.name.substr(0, node.name.find('/')));
  for (const Value& input : node.inputs) trace(flat, input, kinds, found);
}

// The micro-batch of each call, also of one that follows: that of what it reads; -1: of none.
std::vector<int> micros_of(const FlatGraph& flat) {
  std::vector<int> micros(flat.graph.size(), -1);
  for (const NodeId id : flat.graph.order()) {
    micros[id] = flat.locals[id].micro;
    for (const Value& input : flat.graph.node(id).inputs) micros[id] = std::max(micros[id], micros[input.node]);
  }
  return micros;
}

std::map<NodeId, Spread> spreads_of(const Graph& user, const FlatGraph& flat) {
  std::map<NodeId, Spread> spreads;
  const std::vector<int> micros = micros_of(flat);
  for (const NodeId id : flat.graph.order()) {
    const Node& node = flat.graph.node(id);
    if (node.origin < 0 || node.op == "move" || node.op == "weight" || node.op == "constant") continue;
    Spread& spread = spreads[node.origin];
    const Local& local = flat.locals[id];
    spread.devices.insert(local.device);
    spread.micros.insert(micros[id]);
    const bool own = node.op == user.node(node.origin).op;
    if (own && !std::exchange(spread.whole_op, true)) spread.begins.clear();
    if (own == spread.whole_op)
      for (const IndexRange& range : local.box) spread.begins[range.name][micros[id]].insert(range.origin);
    for (const Value& input : node.inputs) trace(flat, input, {}, spread.reads);
  }
  return spreads;
}

std::string text_of(const std::map<NodeId, Spread>& spreads) {
  std::ostringstream out;
  const auto list = [&](const auto& items) {
    const char* separator = "";
    for (const auto& item : items) out << std::exchange(separator, " ") << item;
  };
  for (const auto& [id, spread] : spreads) {
    out << "op\t" << tensor_of({id, 0}) << "\t";
    list(spread.devices);
    out << "\t";
    std::vector<std::string> splits;
    for (const auto& [index, begins] : spread.begins) {
      size_t parts = 0;
      for (const auto& [micro, of_micro] : begins) parts = std::max(parts, of_micro.size());
      if (parts > 1) splits.push_back(cat(index, ":", parts));
    }
    list(splits);
    out << "\t" << spread.micros.size() - spread.micros.count(-1) << "\n";
    for (const auto& [from, kinds] : spread.reads) {
      if (from == id && kinds.empty()) continue;
      out << "edge\t" << tensor_of({from, 0}) << "\t" << tensor_of({id, 0}) << "\t";
      list(kinds);
      out << "\n";
    }
  }
  return out.str();
}

}  // namespace

Strategy take_strategy(const Graph& graph, Options& options) {
  Strategy strategy;
  const auto stages = options.take("stages", std::vector<int64_t>{});
  const int64_t per_stage = std::max<int64_t>(1, std::count(stages.begin(), stages.end(), 0));
  for (size_t device = 0; device < stages.size(); ++device) {
    if (stages[device] != static_cast<int64_t>(device) / per_stage ||
        stages.size() % static_cast<size_t>(per_stage) != 0)
      bad_value("stages: device ", device, " of ", stages.size(), " is in stage ", stages[device],
                "; expected stages from 0 on, with as many devices each, in order");
    strategy.stages.push_back(static_cast<int>(stages[device]));
  }
  for (const auto& [name, value] : options.take_prefix("place:")) {
    const Value op = graph.find(name);
    if (!op.valid()) bad_value("the strategy places an op \"", name, "\" that the model does not have");
    if (!std::holds_alternative<std::string>(value)) bad_value(name, ": a placement is a text");
    Placement& placement = strategy.ops[op.node] = placement_of(name, std::get<std::string>(value));
    placement.op = graph.node(op.node).op;
    const Splitting splitting(op_def(placement.op), graph.call(op.node));
    for (Split& split : placement.splits)
      for (size_t i = 0; i < splitting.box().size(); ++i)
        if (splitting.box()[i].name == split.index) {
          split.dim = splitting.dim_of(i, {true, 0});
          split.extent = splitting.box()[i].global;
        }
  }
  for (const auto& [name, value] : options.take_prefix("share_update:")) {
    const Value weight = graph.find(name);
    if (!weight.valid() || graph.node(weight.node).op != "weight")
      bad_value("the strategy shares out the update of \"", name, "\", which is no weight of the model");
    if (value != AttrValue(true))
      bad_value("share_update:", name, " is ", to_string(value), "; expected true, or no such option");
    strategy.shared_updates.insert(weight.node);
  }
  for (const auto& [name, value] : options.take_prefix("recompute:")) {
    const Value op = graph.find(name);
    if (!op.valid()) bad_value("the strategy recomputes an op \"", name, "\" that the model does not have");
    if (graph.node(op.node).inputs.empty())
      bad_value("the strategy recomputes \"", name, "\" of kind \"", graph.node(op.node).op,
                "\", which reads nothing; expected an op that computes its output from other tensors");
    if (value != AttrValue(true))
      bad_value("recompute:", name, " is ", to_string(value), "; expected true, or no such option");
    strategy.recomputed.insert(op.node);
  }
  return strategy;
}

}  // namespace ff::c_api

using namespace ff::c_api;

extern "C" ff_status ff_graph_layout(ff_handle graph, const ff_attr* options, size_t n_options, const char** text) {
  return guarded([&] {
    required(text, "text");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    Options given(attrs_of(options, n_options));
    const ff::Strategy strategy = take_strategy(object->graph, given);
    given.finish();
    *text = lend(text_of(spreads_of(object->graph, forward(object->graph, strategy, object->seed))));
  });
}
