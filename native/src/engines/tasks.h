// What a runtime that orders tasks by the memory they use (Legion) is told of a plan, and all that the library and such
// a runtime share: the runtime is in a plug-in of its own, so these are plain data and virtual calls.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "graph/machine.h"

namespace ff {

// Memory that tasks of several devices use; it lies where its device is.
struct TaskMemory {
  std::string name;  // for messages
  int device = 0;
  void* data = nullptr;  // nullptr: the device belongs to another process
  size_t bytes = 0;
};

struct TaskUse {
  int memory = 0;             // in TaskProgram::memories
  size_t begin = 0, end = 0;  // bytes of it
  bool writes = false;        // they are read as well
};

struct Task {
  int device = 0;
  std::vector<TaskUse> uses;
};

// Tasks, in an order in which they could run one after another. Tasks of one device run in this order, and so do two
// tasks that use the same bytes when one of them writes; all others may run at the same time.
struct TaskProgram {
  std::vector<TaskMemory> memories;
  std::vector<Task> tasks;
  // Called on the thread of the task's device. addresses[i]: where byte 0 of the memory of uses[i] lies, or would lie,
  // for this task. It does not throw.
  std::function<void(int task, const std::vector<char*>& addresses)> body;
};

// A program that was made known to the runtime; it may run many times.
class LoadedTasks {
 public:
  virtual ~LoadedTasks() = default;
  // All tasks, to the end of the last one.
  virtual void run() = 0;
};

class TaskRuntime : public Processes {
 public:
  // Lines for `python -m flexflow info`: the runtime, whether it was started here or joined, processors, memories.
  virtual std::string description() const = 0;
  virtual std::unique_ptr<LoadedTasks> load(TaskProgram program) = 0;
};

// The one C entry of a plug-in, ff_plugin(), returns this.
struct TaskPlugin {
  const char* build;  // FF_BUILD_ID that it was built with
  // The runtime of this process, started or joined; throws an Error that says what to change.
  std::shared_ptr<TaskRuntime> (*open)(const EngineConfig& config);
  // Leave the runtime, and end it if it was started here; what is loaded cannot run any more. It happens by itself when
  // the process ends.
  void (*close)();
};

}  // namespace ff
