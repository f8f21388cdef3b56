// Building and reading graphs.
#include <algorithm>
#include <cstring>

#include "c_api/objects.h"
#include "ops/op.h"
#include "parallel/parts.h"

using namespace ff;
using namespace ff::c_api;

namespace {

// A weight's further attributes; what concerns its first value must not come too late.
void set_weight(GraphObject& object, Node& node, Attrs changes) {
  const std::string trainable = "trainable";
  if (changes.has(trainable)) {
    node.trainable = changes.flag(trainable);
    changes.erase(trainable);
  }
  if (changes.begin() == changes.end()) return;
  Attrs attrs = node.attrs;
  for (const auto& [name, value] : changes) {
    if (name == "shape" || name == "dtype") bad_value(node.name, ": the ", name, " of a weight cannot change");
    attrs.set(name, value);
  }
  node.attrs = complete_attrs(op_def("weight"), std::move(attrs), node.name);
  State::Entry* entry = object.state.find(node.name);
  if (entry != nullptr && !entry->touched) entry->ready = false;
}

void copy_values(const std::vector<Value>& values, ff_tensor* out, size_t capacity, size_t* n) {
  *n = values.size();
  for (size_t i = 0; i < std::min(capacity, values.size()); ++i) out[i] = tensor_of(values[i]);
}

// What a split along an index is, or why there is none.
std::string index_text(const Graph& graph, NodeId id, const Splitting& splitting, size_t index) {
  if (const std::string obstacle = splitting.obstacle(index); !obstacle.empty()) return "whole: " + obstacle;
  if (splitting.box()[index].global < 2) return cat("whole: its extent is ", splitting.box()[index].global);
  return name_of(kind_of(splitting, index, graph, graph.node(id).inputs));
}

}  // namespace

extern "C" {

ff_status ff_graph_create(int64_t seed, ff_handle* graph) {
  return guarded([&] {
    required(graph, "graph");
    auto object = std::make_shared<GraphObject>();
    object->seed = seed;
    *graph = keep(std::move(object));
  });
}

ff_status ff_graph_add_op(ff_handle graph, const char* op, const char* name, const ff_attr* attrs, size_t n_attrs,
                          const ff_tensor* inputs, size_t n_inputs, ff_tensor* outputs, size_t capacity,
                          size_t* n_outputs) {
  return guarded([&] {
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    const OpDef& def = op_def(&required(op, "op"));
    if (def.internal) bad_value("operator \"", op, "\" is FlexFlow's own; it cannot be added to a graph");
    std::vector<Value> values;
    for (size_t i = 0; i < n_inputs; ++i) values.push_back(value_of(object->graph, inputs[i]));
    const NodeId node =
        add_op(object->graph, op, attrs_of(attrs, n_attrs), std::move(values), name == nullptr ? "" : name);
    std::vector<Value> made;
    for (size_t k = 0; k < object->graph.node(node).outputs.size(); ++k)
      made.push_back({node, static_cast<int32_t>(k)});
    copy_values(made, outputs, capacity, n_outputs);
  });
}

ff_status ff_graph_tensor_info(ff_handle graph, ff_tensor tensor, ff_tensor_info* info) {
  return guarded([&] {
    required(info, "info");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    const Value value = value_of(object->graph, tensor);
    const Node& node = object->graph.node(value.node);
    const TensorType& type = node.outputs[value.index];
    if (type.rank() > std::size(info->shape))
      bad_value(node.name, ": rank ", type.rank(), " is above ", std::size(info->shape));
    info->dtype = code_of(type.dtype);
    info->rank = static_cast<int32_t>(type.rank());
    std::copy(type.shape.begin(), type.shape.end(), info->shape);
    info->owner_first = tensor_of({value.node, 0});
    info->output = value.index;
    info->is_state = node.op == "weight" ? 1 : 0;
    info->trainable = node.op == "weight" && node.trainable ? 1 : 0;
    info->op = lend(node.op + '\0' + object->graph.name(value));
    info->name = info->op + node.op.size() + 1;
  });
}

ff_status ff_graph_op_inputs(ff_handle graph, ff_tensor tensor, ff_tensor* inputs, size_t capacity, size_t* n_inputs) {
  return guarded([&] {
    required(n_inputs, "n_inputs");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    copy_values(object->graph.node(value_of(object->graph, tensor).node).inputs, inputs, capacity, n_inputs);
  });
}

ff_status ff_graph_find(ff_handle graph, const char* name, ff_tensor* tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    const Value value = object->graph.find(&required(name, "name"));
    if (!value.valid()) bad_value("the graph has no tensor \"", name, "\"");
    *tensor = tensor_of(value);
  });
}

ff_status ff_graph_set_weight(ff_handle graph, ff_tensor weight, const ff_attr* attrs, size_t n_attrs) {
  return guarded([&] {
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    Node& node = object->graph.node(value_of(object->graph, weight).node);
    if (node.op != "weight")
      fail(ErrorKind::type, "\"", node.name, "\" is made by ", node.op, "; only a weight can be set");
    set_weight(*object, node, attrs_of(attrs, n_attrs));
    ++object->version;
  });
}

ff_status ff_graph_text(ff_handle graph, const char** text) {
  return guarded([&] {
    required(text, "text");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    *text = lend(to_string(object->graph));
  });
}

ff_status ff_graph_flops(ff_handle graph, ff_tensor tensor, double* flops) {
  return guarded([&] {
    required(flops, "flops");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    const NodeId id = value_of(object->graph, tensor).node;
    const OpDef& def = op_def(object->graph.node(id).op);
    *flops = def.flops ? def.flops(object->graph.call(id)) : 0.0;
  });
}

ff_status ff_graph_indices(ff_handle graph, ff_tensor tensor, const char** text) {
  return guarded([&] {
    required(text, "text");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    const NodeId id = value_of(object->graph, tensor).node;
    const Splitting splitting(op_def(object->graph.node(id).op), object->graph.call(id));
    std::ostringstream out;
    for (size_t i = 0; i < splitting.box().size(); ++i)
      out << splitting.box()[i].name << " " << splitting.box()[i].extent << " "
          << index_text(object->graph, id, splitting, i) << "\n";
    *text = lend(out.str());
  });
}

}  // extern "C"
