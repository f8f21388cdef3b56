// The definition of an operator: one object that answers every question asked of it, but for its kernels.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/call.h"
#include "graph/graph.h"
#include "ops/space.h"

namespace ff {

class GradContext;
class Expansion;

struct AttrSpec {
  std::string name;
  AttrType type;
  std::optional<AttrValue> fallback;  // absent: the attribute must be given
  std::string doc;
  std::vector<std::string> choices;  // of a text attribute; empty: any
};

// A weight that the op makes for itself when it is not given one.
struct WeightSpec {
  std::string name;  // "kernel": the weight of op "dense" is then called "dense/kernel"
  TensorType type;
  Attrs initializer;      // {"initializer": name, and its numbers}; see ops/initializer.cc
  bool trainable = true;  // running statistics are not
};

// The values that an integer input may take: [low, high).
struct Domain {
  int64_t low = 0;
  int64_t high = std::numeric_limits<int64_t>::max();
};

class OpDef {
 public:
  explicit OpDef(std::string name) : name(std::move(name)) {}

  // ---- schema ----
  OpDef& describe(std::string text);
  OpDef& attr(std::string name, AttrValue fallback, std::string doc, std::vector<std::string> choices = {});
  OpDef& required(std::string name, AttrType type, std::string doc);
  // Data inputs (weights not counted). most < 0: any number.
  OpDef& inputs(int least, int most);
  OpDef& inputs(int count) { return inputs(count, count); }

  // ---- sharding: see space.h ----
  OpDef& space(const std::string& line, Combiner combiner = Combiner::sum);
  // No index can be split; why, for the message and the table in the docs.
  OpDef& unsplittable(std::string reason);
  // Operands in which the op is linear: only these may arrive as partial sums.
  OpDef& linear_in(std::vector<int> operands);
  // Attribute that names an axis which the kernel needs unsplit; a split goes through expand.
  OpDef& whole(std::string axis_attribute);
  // An index that the op needs unsplit, and why, for the message.
  OpDef& whole_index(std::string index, std::string reason);
  // Output `output` may share memory with input `input`.
  OpDef& inplace(int output, int input);
  // No gradient flows through this op, by its nature.
  OpDef& no_gradient();

  // ---- rules ----
  std::function<std::vector<TensorType>(const OpCall&)> shape;    // from attributes and inputs (weights included)
  std::function<std::vector<WeightSpec>(const OpCall&)> weights;  // from attributes and data inputs
  std::function<double(const OpCall&)> flops;                     // floating-point operations of one call
  std::function<void(GradContext&)> grad;                         // emits the gradient as further ops
  std::function<std::vector<Value>(Expansion&)> expand;           // the same op as simpler ops
  // The op in inference mode, where that differs (dropout passes its input on).
  std::function<std::vector<Value>(Expansion&)> inference;
  std::function<Domain(const OpCall&, int input)> domain;          // of integer inputs
  std::function<Box(const OpCall&)> indices;                       // the iteration space, where no line can say it
  std::function<Rect(const OpCall&, const Box&, Operand)> region;  // operand's rectangle for a box, likewise
  // New attributes when an input changes its batch size (reshape holds the batch in an attribute).
  std::function<Attrs(const OpCall& before, const std::vector<TensorType>& inputs)> rebatch;

  std::string name;
  std::string doc;
  std::vector<AttrSpec> attrs;
  int least_inputs = 1, most_inputs = 1;
  std::optional<Space> iteration;
  std::string unsplittable_reason;
  std::vector<int> linear_operands;
  std::string whole_axis;
  std::vector<std::pair<std::string, std::string>> whole_indices;  // and the reasons
  std::vector<std::pair<int, int>> inplace_pairs;
  std::vector<std::pair<int, int>> state_updates;  // in training, the state that is input `first` takes output `second`
  bool gradient_free = false;
  bool random = false;     // draws random numbers; has an attribute "stream", and takes the step counter as last input
  bool internal = false;   // made by lowering only; not offered to users
  bool composite = false;  // no kernel and no gradient of its own: its expansion takes its place before all else
  bool view = false;       // output 0 is input 0 under another shape: no memory moves
  std::vector<int> residuals;  // outputs that are opaque workspaces, sized by the kernel

  const AttrSpec* find_attr(const std::string& attr_name) const;
};

// ---- registry ----
const OpDef& op_def(const std::string& name);  // throws an Error that lists near names
const OpDef* find_op(const std::string& name);
std::vector<const OpDef*> all_ops();  // by name

struct OpRegistration {
  explicit OpRegistration(std::vector<OpDef> defs);
};
// Register what a function returns: one OpDef, or a vector of them for a family.
#define REGISTER_OPS(function) static const ::ff::OpRegistration function##_registration(function())
#define REGISTER_OP(function) static const ::ff::OpRegistration function##_registration({function()})

// ---- building ----
// Append an op to a graph: look up its definition, complete and check the attributes, make its weights when only
// data inputs are given, infer the shapes. Every message names the op.
NodeId add_op(Graph& graph, const std::string& op, Attrs attrs, std::vector<Value> inputs,
              const std::string& name = "");
// Attributes completed with their defaults, each name and type checked.
Attrs complete_attrs(const OpDef& def, Attrs attrs, const std::string& who);
// The whole iteration space of a call, and the rectangle of an operand for a box of it.
Box iteration_space(const OpDef& def, const OpCall& call);
Rect operand_region(const OpDef& def, const OpCall& call, const Box& box, Operand operand);
// How many of a call's inputs are data (the rest are weights that the op would own).
int data_inputs(const OpDef& def, const OpCall& call);

}  // namespace ff
