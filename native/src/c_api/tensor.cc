// Reading and writing tensors.
#include "c_api/model.h"
#include "c_api/objects.h"

using namespace ff;
using namespace ff::c_api;

namespace {

std::shared_ptr<Model> compiled(const GraphObject& object, const std::string& name) {
  auto model = object.model.lock();
  if (model == nullptr)
    fail(ErrorKind::state, "\"", name,
         "\" is computed by the graph; compile the model and run forward before reading it");
  return model;
}

}  // namespace

extern "C" {

ff_status ff_tensor_read(ff_handle graph, ff_tensor tensor, const ff_array* array) {
  return guarded([&] {
    required(array, "array");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    const Value value = value_of(object->graph, tensor);
    const Node& node = object->graph.node(value.node);
    if (node.op == "weight") initialize(object->state, {{node.name, node.attrs}}, object->seed);
    if (node.op == "weight" || node.op == "input") {
      State::Entry* entry = object->state.find(node.name);
      if (entry == nullptr || !entry->ready) fail(ErrorKind::state, "input \"", node.name, "\" was never written");
      return read_entry(*array, *entry, node.name);
    }
    compiled(*object, node.name)->read(value, *array);
  });
}

ff_status ff_tensor_write(ff_handle graph, ff_tensor tensor, const ff_array* array) {
  return guarded([&] {
    required(array, "array");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    const Value value = value_of(object->graph, tensor);
    const Node& node = object->graph.node(value.node);
    if (node.op != "weight" && node.op != "input")
      fail(ErrorKind::type, "\"", node.name, "\" is computed by ", node.op, "; only inputs and weights can be written");
    TensorType type = node.outputs[0];
    // Rows of a batch may be more or fewer than the graph was built with: that is a plan of its own.
    const bool batched = node.op == "input" && type.rank() > 0 && type.shape[0] == batch_size(object->graph);
    if (batched && array->rank == static_cast<int32_t>(type.rank()) && array->shape != nullptr)
      type.shape[0] = array->shape[0];
    if (type_of(*array).shape != type.shape)
      bad_value("\"", node.name, "\": got an array of shape ", to_string(type_of(*array).shape), "; expected ",
                to_string(node.outputs[0].shape));
    State::Entry& entry = object->state.entry(node.name, type);
    write_entry(entry, *array, node.name);
    entry.ready = entry.touched = true;
    ++entry.version;
    if (const auto model = object->model.lock(); model != nullptr && batched) model->set_batch(type.shape[0]);
  });
}

ff_status ff_gradient_read(ff_handle graph, ff_tensor tensor, const ff_array* array) {
  return guarded([&] {
    required(array, "array");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    const Value value = value_of(object->graph, tensor);
    compiled(*object, object->graph.name(value))->read_gradient(value, *array);
  });
}

}  // extern "C"
