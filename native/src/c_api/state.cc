// What outlives steps, by name: for checkpoints.
#include "c_api/model.h"
#include "c_api/objects.h"
#include "kernels/kernel.h"

using namespace ff;
using namespace ff::c_api;

namespace {

// Inputs hold a batch, and gradients belong to the step that is under way: neither is worth keeping.
bool kept(const GraphObject& object, const std::string& name, const State::Entry& entry) {
  const Value value = object.graph.find(name);
  if (value.valid()) return entry.ready && object.graph.node(value.node).op == "weight";
  return entry.ready && name.rfind("gradient/", 0) != 0;
}

void collect(const Graph& graph, std::map<std::string, Attrs>& states) {
  for (const NodeId id : graph.order())
    if (graph.node(id).op == "weight") states.emplace(graph.node(id).name, graph.node(id).attrs);
}

// States that nobody has asked for yet get their first values now, so that what there is depends on the model alone and
// not on what it has done so far.
void draw_all(GraphObject& object) {
  std::map<std::string, Attrs> states;
  collect(object.graph, states);
  if (const auto model = object.model.lock(); model != nullptr) {
    const StepSpec step = model->step_spec(model->widest(), 0);
    collect(build_step(object.graph, model->spec(), step, kernel_query()), states);
  }
  initialize(object.state, {states.begin(), states.end()}, object.seed);
}

State::Entry& find_kept(GraphObject& object, const char* name) {
  State::Entry* entry = object.state.find(&required(name, "name"));
  if (entry == nullptr || !kept(object, name, *entry))
    bad_value("there is no state \"", name, "\"; ff_state_info lists them");
  return *entry;
}

}  // namespace

extern "C" {

ff_status ff_state_info(ff_handle graph, size_t index, ff_tensor_info* info, size_t* count) {
  return guarded([&] {
    required(info, "info");
    required(count, "count");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    if (index == 0) draw_all(*object);
    size_t at = 0;
    for (const auto& [name, entry] : object->state.entries()) {
      if (!kept(*object, name, entry) || at++ != index) continue;
      *info = {};
      info->dtype = code_of(entry.type.dtype);
      info->rank = static_cast<int32_t>(entry.type.rank());
      std::copy(entry.type.shape.begin(), entry.type.shape.end(), info->shape);
      info->is_state = 1;
      const Value value = object->graph.find(name);
      info->owner_first = value.valid() ? tensor_of(value) : -1;
      info->trainable = value.valid() && object->graph.node(value.node).trainable ? 1 : 0;
      info->op = info->name = lend(name);
    }
    *count = at;
  });
}

ff_status ff_state_read(ff_handle graph, const char* name, const ff_array* array) {
  return guarded([&] {
    required(array, "array");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    read_entry(*array, find_kept(*object, name), name);
  });
}

ff_status ff_state_write(ff_handle graph, const char* name, const ff_array* array) {
  return guarded([&] {
    required(array, "array");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    State::Entry& entry = find_kept(*object, name);
    write_entry(entry, *array, name);
    entry.touched = true;
    ++entry.version;
  });
}

}  // extern "C"
