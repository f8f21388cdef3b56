#include "ops/op.h"

#include <algorithm>
#include <map>

namespace ff {
namespace {

std::map<std::string, OpDef>& registry() {
  static std::map<std::string, OpDef> ops;
  return ops;
}

// An integer where a real number is wanted is taken as one; nothing else is converted.
AttrValue convert(const AttrSpec& spec, AttrValue value, const std::string& who) {
  if (spec.type == AttrType::real && type_of(value) == AttrType::integer)
    value = static_cast<double>(std::get<int64_t>(value));
  if (type_of(value) != spec.type)
    fail(ErrorKind::type, who, ": attribute \"", spec.name, "\" is ", to_string(value), ", ", name_of(type_of(value)),
         "; expected ", name_of(spec.type), " (", spec.doc, ")");
  if (!spec.choices.empty()) {
    const auto& text = std::get<std::string>(value);
    if (std::find(spec.choices.begin(), spec.choices.end(), text) == spec.choices.end())
      bad_value(who, ": attribute \"", spec.name, "\" is \"", text, "\"; expected one of ", join(spec.choices));
  }
  return value;
}

// Message names for an op: 'conv2d "stem"'.
std::string who_is(const OpDef& def, const std::string& name) {
  return name.empty() || name == def.name ? def.name : cat(def.name, " \"", name, "\"");
}

// Ops that draw random numbers get a stream of their own, fixed here and kept through every rewrite.
NodeId add_with_stream(Graph& graph, Node node) {
  const bool draws = op_def(node.op).random && node.attrs.integer("stream") == 0;
  const NodeId id = graph.add(std::move(node));
  if (draws) graph.node(id).attrs.set("stream", static_cast<int64_t>(id) + 1);
  return id;
}

NodeId add_weight(Graph& graph, const std::string& name, const WeightSpec& spec) {
  Attrs attrs = spec.initializer;
  attrs.set("shape", spec.type.shape);
  attrs.set("dtype", std::string(name_of(spec.type.dtype)));
  attrs = complete_attrs(op_def("weight"), std::move(attrs), name);
  return add_with_stream(graph, {.name = name,
                                 .op = "weight",
                                 .attrs = std::move(attrs),
                                 .inputs = {},
                                 .outputs = {spec.type},
                                 .trainable = spec.trainable});
}

// Sizes are counted in 64 bits, in bytes as well.
void check_size(const std::string& who, const std::string& what, const TensorType& type) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 16;
  int64_t n = 1;
  for (const int64_t extent : type.shape) {
    if (extent == 0) continue;
    if (n > kMost / extent)
      bad_value(who, ": ", what, " of shape ", to_string(type.shape), " has more elements than can be counted");
    n *= extent;
  }
}

}  // namespace

OpDef& OpDef::describe(std::string text) {
  doc = std::move(text);
  return *this;
}

OpDef& OpDef::attr(std::string attr_name, AttrValue fallback, std::string attr_doc, std::vector<std::string> choices) {
  attrs.push_back({std::move(attr_name), type_of(fallback), fallback, std::move(attr_doc), std::move(choices)});
  return *this;
}

OpDef& OpDef::required(std::string attr_name, AttrType type, std::string attr_doc) {
  attrs.push_back({std::move(attr_name), type, std::nullopt, std::move(attr_doc), {}});
  return *this;
}

OpDef& OpDef::inputs(int least, int most) {
  least_inputs = least;
  most_inputs = most;
  return *this;
}

OpDef& OpDef::space(const std::string& line, Combiner combiner) {
  iteration = Space::parse(line, combiner);
  return *this;
}

OpDef& OpDef::unsplittable(std::string reason) {
  unsplittable_reason = std::move(reason);
  return *this;
}

OpDef& OpDef::linear_in(std::vector<int> operands) {
  linear_operands = std::move(operands);
  return *this;
}

OpDef& OpDef::whole(std::string axis_attribute) {
  whole_axis = std::move(axis_attribute);
  return *this;
}

OpDef& OpDef::whole_index(std::string index, std::string reason) {
  whole_indices.emplace_back(std::move(index), std::move(reason));
  return *this;
}

OpDef& OpDef::inplace(int output, int input) {
  inplace_pairs.emplace_back(output, input);
  return *this;
}

OpDef& OpDef::no_gradient() {
  gradient_free = true;
  return *this;
}

const AttrSpec* OpDef::find_attr(const std::string& attr_name) const {
  for (const AttrSpec& spec : attrs)
    if (spec.name == attr_name) return &spec;
  return nullptr;
}

OpRegistration::OpRegistration(std::vector<OpDef> defs) {
  for (OpDef& def : defs) {
    const std::string name = def.name;
    FF_CHECK(registry().emplace(name, std::move(def)).second, "operator ", name, " is defined twice");
  }
}

const OpDef* find_op(const std::string& name) {
  const auto it = registry().find(name);
  return it == registry().end() ? nullptr : &it->second;
}

const OpDef& op_def(const std::string& name) {
  if (const OpDef* def = find_op(name)) return *def;
  std::vector<std::string> near;
  for (const auto& [known, def] : registry())
    if (!def.internal && (known.find(name) != std::string::npos || name.find(known) != std::string::npos))
      near.push_back(known);
  bad_value("unknown operator \"", name, "\"", near.empty() ? "" : "; did you mean ", join(near));
}

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> ops;
  for (const auto& [name, def] : registry()) ops.push_back(&def);
  return ops;
}

Attrs complete_attrs(const OpDef& def, Attrs attrs, const std::string& who) {
  Attrs complete;
  for (const auto& [name, value] : attrs) {
    const AttrSpec* spec = def.find_attr(name);
    if (spec == nullptr) {
      std::vector<std::string> known;
      for (const AttrSpec& s : def.attrs) known.push_back(s.name);
      bad_value(who, ": unknown attribute \"", name, "\"; known: ", known.empty() ? "none" : join(known));
    }
    complete.set(name, convert(*spec, value, who));
  }
  for (const AttrSpec& spec : def.attrs) {
    if (complete.has(spec.name)) continue;
    if (!spec.fallback) bad_value(who, ": attribute \"", spec.name, "\" is missing (", spec.doc, ")");
    complete.set(spec.name, *spec.fallback);
  }
  return complete;
}

NodeId add_op(Graph& graph, const std::string& op, Attrs attrs, std::vector<Value> inputs, const std::string& name) {
  const OpDef& def = op_def(op);
  const std::string who = who_is(def, name);
  OpCall call{.op = op,
              .name = who,
              .attrs = complete_attrs(def, std::move(attrs), who),
              .inputs = {},
              .outputs = {},
              .box = {}};
  for (const Value& input : inputs) call.inputs.push_back(graph.type(input));
  const int given = static_cast<int>(inputs.size());
  if (given < def.least_inputs || (def.most_inputs >= 0 && !def.weights && given > def.most_inputs))
    bad_value(who, ": got ", given, " inputs; expected ", def.least_inputs,
              def.most_inputs == def.least_inputs ? ""
              : def.most_inputs < 0               ? " or more"
                                                  : cat(" to ", def.most_inputs));
  const std::string base = graph.unique_name(name.empty() ? op : name);
  std::vector<WeightSpec> owned;
  if (def.weights && given <= def.most_inputs) owned = def.weights(call);
  for (const WeightSpec& spec : owned) {
    check_size(who, "its weight " + spec.name, spec.type);
    call.inputs.push_back(spec.type);
  }
  std::vector<TensorType> outputs = def.shape(call);  // before the graph changes: it may throw
  for (const TensorType& output : outputs) check_size(who, "an output", output);
  // Weights come before the node so that ids are a topological order.
  for (const WeightSpec& spec : owned) inputs.push_back({add_weight(graph, base + "/" + spec.name, spec), 0});
  return add_with_stream(
      graph, {.name = base, .op = op, .attrs = call.attrs, .inputs = std::move(inputs), .outputs = std::move(outputs)});
}

Box iteration_space(const OpDef& def, const OpCall& call) {
  if (def.indices) return def.indices(call);
  if (def.iteration) return def.iteration->indices(call);
  return {};
}

Rect operand_region(const OpDef& def, const OpCall& call, const Box& box, Operand operand) {
  if (def.region) return def.region(call, box, operand);
  FF_CHECK(def.iteration, def.name, " has no sharding rule");
  return def.iteration->region(call, box, operand);
}

int data_inputs(const OpDef& def, const OpCall& call) {
  const int n = static_cast<int>(call.inputs.size());
  return def.weights ? std::min(n, def.most_inputs) : n;
}

}  // namespace ff
