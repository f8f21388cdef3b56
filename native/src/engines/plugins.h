// Plug-ins: runtimes of tasks, each in a library of its own that is loaded when it is asked for.
#pragma once

#include <memory>
#include <string>

#include "engines/tasks.h"

namespace ff {

// Whether libflexflow_NAME.so was built and lies where it is looked for: beside this library or in its folder
// flexflow/.
bool has_plugin(const std::string& name);

// The runtime of a plug-in in this process, started or joined. Throws an Error that says what is missing and what to
// do.
std::shared_ptr<TaskRuntime> open_runtime(const std::string& name, const EngineConfig& config);

// Whether somebody else has started a Legion runtime in this process, or we have. They load nothing, and say no in a
// process that was forked from one with a runtime.
bool runtime_is_up();
bool runtime_is_ours();

// Leave and end the runtimes that were opened, as happens by itself when the process ends. What is loaded cannot run
// any more.
void close_runtimes();

// What a library of this path has to offer; throws an Error unless it is a plug-in of this very build.
const TaskPlugin& load_plugin(const std::string& path);
const TaskPlugin& checked_plugin(const TaskPlugin& plugin, const std::string& path);

}  // namespace ff
