// What an operator's gradient and expansion rules use to emit further operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace ff {

// Emits ops for the sake of one node of the graph; names derive from that node's name.
class Emitter {
 public:
  Emitter(Graph& graph, NodeId node, Section section) : graph_(graph), node_(node), section_(section) {}

  // Append an op and return its only (or its first) output, or all of them.
  Value emit(const std::string& op, std::vector<Value> inputs, Attrs attrs = {});
  std::vector<Value> emit_all(const std::string& op, std::vector<Value> inputs, Attrs attrs = {});
  // A tensor of one value.
  Value fill(const TensorType& type, double value);

  const Node& node() const { return graph_.node(node_); }
  const Attrs& attrs() const { return node().attrs; }
  Value in(int i) const { return node().inputs[i]; }
  int in_count() const { return static_cast<int>(node().inputs.size()); }
  const TensorType& in_type(int i) const { return graph_.type(in(i)); }
  Graph& graph() { return graph_; }

 protected:
  Graph& graph_;
  NodeId node_;
  Section section_;
};

class Expansion : public Emitter {
 public:
  Expansion(Graph& graph, NodeId node) : Emitter(graph, node, graph.node(node).section) {}
};

class GradContext : public Emitter {
 public:
  GradContext(Graph& graph, NodeId node, std::vector<Value> output_grads, std::vector<bool> needed)
      : Emitter(graph, node, Section::backward),
        output_grads_(std::move(output_grads)),
        needed_(std::move(needed)),
        input_grads_(needed_.size()) {}

  Value out(int i) const { return {node_, i}; }
  const TensorType& out_type(int i) const { return node().outputs[i]; }
  // Is there a gradient for this output, and what is it (zeros when there is none)?
  bool has_dout(int i) const { return output_grads_[i].valid(); }
  Value dout(int i);
  // Does anybody want the gradient of this input? An op computes only these.
  bool needs(int i) const { return needed_[i]; }
  // Set the gradient of an input; a second call for one input adds.
  void in_grad(int i, Value grad);

  const std::vector<Value>& input_grads() const { return input_grads_; }

 private:
  std::vector<Value> output_grads_;
  std::vector<bool> needed_;
  std::vector<Value> input_grads_;
};

}  // namespace ff
