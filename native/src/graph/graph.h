// A graph of operators in static single assignment form. The user's graph, the training graph with its gradients
// and updates, and the graph inside the parallel computation graph are all of this type.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/call.h"

namespace ff {

using NodeId = int32_t;

// Output `index` of a node.
struct Value {
  NodeId node = -1;
  int32_t index = 0;

  bool valid() const { return node >= 0; }
  bool operator==(const Value&) const = default;
  auto operator<=>(const Value&) const = default;
};

// The part of a training step that a node belongs to.
enum class Section : uint8_t { forward, loss, backward, update };
const char* name_of(Section section);

struct Node {
  std::string name;  // unique in the graph
  std::string op;
  Attrs attrs;
  std::vector<Value> inputs;
  std::vector<TensorType> outputs;
  NodeId origin = -1;  // the node of the user's graph that this one was made for
  Section section = Section::forward;
  bool trainable = true;   // of weights
  bool recompute = false;  // the outputs are not kept for the backward pass ...
  NodeId again = -1;       // ... but made again by a node there, of which this is the original
  bool dead = false;       // removed by a rewrite
};

// At the end of the step (or of its section), the state takes this value.
struct Assignment {
  NodeId state;
  Value value;
};

class Graph {
 public:
  // Append a node under unique_name(its name, or its op's when it has none).
  NodeId add(Node node);
  // The name itself, or with the first free suffix "_1", "_2", ...
  std::string unique_name(const std::string& wanted) const;

  const Node& node(NodeId id) const { return nodes_[check(id)]; }
  Node& node(NodeId id) { return nodes_[check(id)]; }
  size_t size() const { return nodes_.size(); }
  const TensorType& type(Value value) const;
  // The name of a tensor: its node's name, with ":k" for output k > 0.
  std::string name(Value value) const;
  // The tensor of that name; an invalid value when there is none.
  Value find(const std::string& name) const;

  // Node ids in a topological order: ids themselves unless a rewrite moved uses (then recomputed).
  std::vector<NodeId> order() const;
  std::vector<std::vector<NodeId>> users() const;  // by node, each user once per use
  // Take a node out of the graph (nobody may use it any more); its name is free again.
  void remove(NodeId id);
  void rename(NodeId id, const std::string& name);
  // Make every use of `from` a use of `to`, assignments and outputs included.
  void replace(Value from, Value to);
  // Drop nodes that neither an output, an assignment nor a live node needs.
  void sweep();

  std::vector<Assignment> assignments;
  std::vector<std::pair<std::string, Value>> outputs;  // named results that must be kept

  // The call of a node, over its whole iteration space (the box is left to who knows the op's definition).
  OpCall call(NodeId id) const;

 private:
  NodeId check(NodeId id) const;
  void free_name(const std::string& name);

  std::vector<Node> nodes_;
  std::unordered_map<std::string, NodeId> by_name_;
  mutable std::unordered_map<std::string, int> next_suffix_;  // by name: none below is free
};

std::string to_string(const Graph& graph);

}  // namespace ff
