// A plan as tasks for a runtime that keeps them in order by the memory that they use.
#pragma once

#include <vector>

#include "engines/bound_plan.h"
#include "engines/tasks.h"

namespace ff {

// Memory as a plan uses it: the arena of a device, or a buffer that lies apart from it.
struct Area {
  bool arena = false;
  int id = 0;  // device, or root buffer
  auto operator<=>(const Area&) const = default;
};

// An input of a step that lies in another process: the step reads a copy.
struct Import {
  int step = 0, input = 0;
  int use = 0;        // of the task
  size_t offset = 0;  // in the memory of that use
};

struct TaskGraph {
  std::vector<Area> areas;  // by TaskProgram::memories
  std::vector<Task> tasks;
  std::vector<std::vector<int>> steps;  // by task, in their order
  std::vector<std::vector<Import>> imports;
};

// The steps of some sections, as long runs of one device's as no other device waits within. Only bytes that several
// devices use are told: what a device alone uses its own order keeps.
TaskGraph tasks_of(const Plan& plan, unsigned sections);

}  // namespace ff
