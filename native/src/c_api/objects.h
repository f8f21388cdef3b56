// What stands behind the handles, and the guard around every call.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/dataset.h"
#include "engines/engine.h"
#include "flexflow_c.h"
#include "graph/graph.h"
#include "lowering/step_graph.h"
#include "search/machine_model.h"

namespace ff::c_api {

class Model;
class Search;
struct Simulation;

// A graph, the state of its tensors, and the lock that all its users take.
struct GraphObject {
  std::mutex mutex;
  Graph graph;
  State state;
  int64_t seed = 0;
  std::vector<NodeId> labels;  // inputs that compiles have made
  std::weak_ptr<Model> model;  // the last one compiled
  uint64_t version = 0;        // changes when plans made so far no longer fit the graph
};

struct DatasetObject {
  std::shared_ptr<GraphObject> owner;
  Dataset data;
};

// ---- handles ----
ff_handle keep(std::shared_ptr<GraphObject> graph);
ff_handle keep(std::shared_ptr<Model> model);
ff_handle keep(std::shared_ptr<DatasetObject> dataset);
ff_handle keep(std::shared_ptr<const MachineModel> machine);
ff_handle keep(std::shared_ptr<Simulation> simulation);
ff_handle keep(std::shared_ptr<Search> search);
std::shared_ptr<GraphObject> graph_of(ff_handle handle);
std::shared_ptr<Model> model_of(ff_handle handle);
std::shared_ptr<DatasetObject> dataset_of(ff_handle handle);
std::shared_ptr<const MachineModel> machine_of(ff_handle handle);
std::shared_ptr<Simulation> simulation_of(ff_handle handle);
std::shared_ptr<Search> search_of(ff_handle handle);
void close(ff_handle handle);

// ---- calls ----
void set_error(const char* message);
// Keep a string for the caller until this thread's next call.
const char* lend(std::string text);
// Held by every call, so that a fork waits until no thread is inside.
class CallLock {
 public:
  CallLock();
  ~CallLock();
};

// Run the body of a call: its exceptions become a status and a message.
template <class F>
ff_status guarded(F&& body) {
  const CallLock lock;
  try {
    body();
    return FF_OK;
  } catch (const Error& error) {
    set_error(error.what());
    constexpr ff_status kStatus[] = {FF_ERROR_VALUE, FF_ERROR_TYPE, FF_ERROR_STATE, FF_ERROR_MEMORY, FF_ERROR_INTERNAL};
    return kStatus[static_cast<size_t>(error.kind())];
  } catch (const std::bad_alloc&) {
    set_error("out of memory");
    return FF_ERROR_MEMORY;
  } catch (const std::exception& error) {
    set_error(error.what());
    return FF_ERROR_INTERNAL;
  } catch (...) {
    set_error("unknown exception");
    return FF_ERROR_INTERNAL;
  }
}

// ---- conversions ----
DType dtype_of(int32_t code);
int32_t code_of(DType dtype);
Attrs attrs_of(const ff_attr* attrs, size_t n);
TensorType type_of(const ff_array& array);
Value value_of(const Graph& graph, ff_tensor tensor);
ff_tensor tensor_of(Value value);
// Copy between a tensor's memory and a caller's array of the same shape; the dtype is converted, an integer never
// silently made from a fraction.
void copy_in(void* to, const TensorType& type, const ff_array& from, const std::string& who);
void copy_out(const ff_array& to, const void* from, const TensorType& type, const std::string& who);

// The same with the pieces of a state.
void write_entry(State::Entry& entry, const ff_array& from, const std::string& who);
void read_entry(const ff_array& to, const State::Entry& entry, const std::string& who);

template <class T>
const T& required(const T* pointer, const char* what) {
  if (pointer == nullptr) bad_value("argument ", what, " is NULL");
  return *pointer;
}

// Draw the values of states that have none yet, each by its initializer.
void initialize(State& state, const std::vector<std::pair<std::string, Attrs>>& states, int64_t seed);

}  // namespace ff::c_api
