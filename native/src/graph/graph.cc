#include "graph/graph.h"

#include <algorithm>

#include "base/error.h"

namespace ff {

const char* name_of(Section section) {
  constexpr const char* kNames[] = {"forward", "loss", "backward", "update"};
  return kNames[static_cast<size_t>(section)];
}

std::string to_string(const OpCall& call) {
  std::vector<std::string> in, out;
  for (const TensorType& type : call.inputs) in.push_back(to_string(type));
  for (const TensorType& type : call.outputs) out.push_back(to_string(type));
  const std::string attrs = to_string(call.attrs);
  return cat(call.op, "(", join(in), attrs.empty() ? "" : "; ", attrs, ") -> ", join(out));
}

NodeId Graph::check(NodeId id) const {
  FF_CHECK(id >= 0 && static_cast<size_t>(id) < nodes_.size(), "node ", id, " of ", nodes_.size());
  return id;
}

std::string Graph::unique_name(const std::string& wanted) const {
  if (by_name_.count(wanted) == 0) return wanted;
  int& suffix = next_suffix_.try_emplace(wanted, 1).first->second;
  std::string name = cat(wanted, "_", suffix);
  for (; by_name_.count(name) != 0; name = cat(wanted, "_", suffix)) ++suffix;
  return name;
}

NodeId Graph::add(Node node) {
  node.name = unique_name(node.name.empty() ? node.op : node.name);
  const auto id = static_cast<NodeId>(nodes_.size());
  by_name_[node.name] = id;
  nodes_.push_back(std::move(node));
  return id;
}

const TensorType& Graph::type(Value value) const {
  const Node& owner = node(value.node);
  FF_CHECK(value.index >= 0 && static_cast<size_t>(value.index) < owner.outputs.size(), owner.name, " has no output ",
           value.index);
  return owner.outputs[value.index];
}

std::string Graph::name(Value value) const {
  const Node& owner = node(value.node);
  return value.index == 0 ? owner.name : cat(owner.name, ":", value.index);
}

Value Graph::find(const std::string& name) const {
  if (const auto it = by_name_.find(name); it != by_name_.end()) return {it->second, 0};
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos) return {};
  const auto it = by_name_.find(name.substr(0, colon));
  const int index = std::atoi(name.c_str() + colon + 1);
  if (it == by_name_.end() || index < 0 || static_cast<size_t>(index) >= nodes_[it->second].outputs.size()) return {};
  return {it->second, index};
}

std::vector<NodeId> Graph::order() const {
  std::vector<NodeId> out;
  std::vector<bool> seen(nodes_.size(), false);
  std::vector<std::pair<NodeId, size_t>> stack;  // a node and how many of its inputs were visited
  for (NodeId root = 0; root < static_cast<NodeId>(nodes_.size()); ++root) {
    if (nodes_[root].dead || seen[root]) continue;
    seen[root] = true;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      if (next == nodes_[id].inputs.size()) {
        out.push_back(id);
        stack.pop_back();
      } else if (const NodeId input = nodes_[id].inputs[next++].node; !seen[input]) {
        seen[input] = true;
        stack.emplace_back(input, 0);
      }
    }
  }
  return out;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> out(nodes_.size());
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id)
    if (!nodes_[id].dead)
      for (const Value& input : nodes_[id].inputs) out[input.node].push_back(id);
  return out;
}

void Graph::remove(NodeId id) {
  node(id).dead = true;
  free_name(node(id).name);
}

// Names with a suffix may be free again below the one that is next.
void Graph::free_name(const std::string& name) {
  by_name_.erase(name);
  if (const size_t at = name.rfind('_'); at != std::string::npos) next_suffix_.erase(name.substr(0, at));
}

void Graph::rename(NodeId id, const std::string& name) {
  free_name(node(id).name);
  node(id).name = unique_name(name);
  by_name_[node(id).name] = id;
}

void Graph::replace(Value from, Value to) {
  for (Node& node : nodes_)
    if (!node.dead) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  for (Assignment& assignment : assignments)
    if (assignment.value == from) assignment.value = to;
  for (auto& [name, value] : outputs)
    if (value == from) value = to;
}

void Graph::sweep() {
  std::vector<uint8_t> live(nodes_.size(), 0);
  std::vector<NodeId> stack;
  const auto need = [&](NodeId id) {
    if (!live[id]) {
      live[id] = 1;
      stack.push_back(id);
    }
  };
  for (const auto& [name, value] : outputs) need(value.node);
  for (const Assignment& assignment : assignments) {
    need(assignment.value.node);
    need(assignment.state);
  }
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    for (const Value& input : nodes_[id].inputs) need(input.node);
  }
  for (size_t id = 0; id < nodes_.size(); ++id)
    if (!live[id] && !nodes_[id].dead) remove(static_cast<NodeId>(id));
}

OpCall Graph::call(NodeId id) const {
  const Node& n = node(id);
  OpCall call{.op = n.op, .name = n.name, .attrs = n.attrs, .inputs = {}, .outputs = n.outputs, .box = {}};
  for (const Value& input : n.inputs) call.inputs.push_back(type(input));
  return call;
}

std::string to_string(const Graph& graph) {
  std::ostringstream out;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<std::string> in, types;
    for (const Value& input : node.inputs) in.push_back(graph.name(input));
    for (const TensorType& type : node.outputs) types.push_back(to_string(type));
    const std::string attrs = to_string(node.attrs);
    out << node.name << " = " << node.op << "(" << join(in) << (attrs.empty() || in.empty() ? "" : "; ") << attrs
        << ") -> " << join(types) << "  # " << name_of(node.section) << "\n";
  }
  for (const Assignment& assignment : graph.assignments)
    out << graph.node(assignment.state).name << " <- " << graph.name(assignment.value) << "\n";
  return out.str();
}

}  // namespace ff
