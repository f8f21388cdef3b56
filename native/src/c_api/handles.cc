#include <pthread.h>

#include <new>
#include <shared_mutex>
#include <unordered_map>
#include <variant>

#include "c_api/model.h"
#include "c_api/objects.h"

namespace ff::c_api {
namespace {

using Object = std::variant<std::shared_ptr<GraphObject>, std::shared_ptr<Model>, std::shared_ptr<DatasetObject>,
                            std::shared_ptr<const MachineModel>, std::shared_ptr<Simulation>, std::shared_ptr<Search>>;
constexpr const char* kKinds[] = {"graph", "model", "data set", "machine model", "simulation", "search"};

std::mutex table_mutex;
ff_handle last_handle = 0;

std::unordered_map<ff_handle, Object>& table() {
  // Never destroyed: threads may still call while the process ends.
  static auto* objects = new std::unordered_map<ff_handle, Object>;
  return *objects;
}

template <class T>
ff_handle keep_object(std::shared_ptr<T> object) {
  const std::lock_guard lock(table_mutex);
  table().emplace(++last_handle, std::move(object));
  return last_handle;
}

template <class T>
std::shared_ptr<T> find_object(ff_handle handle, size_t kind) {
  const std::lock_guard lock(table_mutex);
  const auto it = table().find(handle);
  if (it == table().end())
    fail(ErrorKind::state, "this ", kKinds[kind],
         handle == 0 || handle > last_handle ? " was never made" : " was closed");
  if (it->second.index() != kind)
    fail(ErrorKind::type, "handle of a ", kKinds[it->second.index()], " where a ", kKinds[kind], " is expected");
  return std::get<std::shared_ptr<T>>(it->second);
}

thread_local std::string last_error;
thread_local std::string lent;

// Calls hold it shared, a fork exclusively: a child finds every lock of the library free.
std::shared_mutex* call_mutex() {
  static auto* mutex = new std::shared_mutex;
  return mutex;
}

const int fork_guard =
    pthread_atfork([] { call_mutex()->lock(); }, [] { call_mutex()->unlock(); },
                   // The child's only thread has another id than the locker had: the lock is made anew.
                   [] { new (call_mutex()) std::shared_mutex; });

}  // namespace

ff_handle keep(std::shared_ptr<GraphObject> graph) { return keep_object(std::move(graph)); }
ff_handle keep(std::shared_ptr<Model> model) { return keep_object(std::move(model)); }
ff_handle keep(std::shared_ptr<DatasetObject> dataset) { return keep_object(std::move(dataset)); }
ff_handle keep(std::shared_ptr<const MachineModel> machine) { return keep_object(std::move(machine)); }
ff_handle keep(std::shared_ptr<Simulation> simulation) { return keep_object(std::move(simulation)); }
ff_handle keep(std::shared_ptr<Search> search) { return keep_object(std::move(search)); }
std::shared_ptr<GraphObject> graph_of(ff_handle handle) { return find_object<GraphObject>(handle, 0); }
std::shared_ptr<Model> model_of(ff_handle handle) { return find_object<Model>(handle, 1); }
std::shared_ptr<DatasetObject> dataset_of(ff_handle handle) { return find_object<DatasetObject>(handle, 2); }
std::shared_ptr<const MachineModel> machine_of(ff_handle handle) { return find_object<const MachineModel>(handle, 3); }
std::shared_ptr<Simulation> simulation_of(ff_handle handle) { return find_object<Simulation>(handle, 4); }
std::shared_ptr<Search> search_of(ff_handle handle) { return find_object<Search>(handle, 5); }

void close(ff_handle handle) {
  Object object;  // destroyed after the table's lock is free
  const std::lock_guard lock(table_mutex);
  const auto it = table().find(handle);
  if (it == table().end())
    fail(ErrorKind::state, handle == 0 || handle > last_handle ? "no such handle" : "the handle was closed already");
  object = std::move(it->second);
  table().erase(it);
}

void set_error(const char* message) { last_error = message; }

const char* lend(std::string text) {
  lent = std::move(text);
  return lent.c_str();
}

CallLock::CallLock() { call_mutex()->lock_shared(); }
CallLock::~CallLock() { call_mutex()->unlock_shared(); }

}  // namespace ff::c_api

extern "C" const char* ff_last_error(void) { return ff::c_api::last_error.c_str(); }

extern "C" ff_status ff_close(ff_handle handle) {
  return ff::c_api::guarded([&] { ff::c_api::close(handle); });
}
