// The command line that Legion is started with.
#pragma once

#include <string>
#include <vector>

#include "engines/engine.h"

namespace ff::legion {

// Our own defaults, then config.flags. A default gives way to the same flag in config.flags, REALM_DEFAULT_ARGS or
// LEGION_DEFAULT_ARGS. Throws an Error where a flag has a value with which Legion would end the process.
std::vector<std::string> command_line(const EngineConfig& config);

}  // namespace ff::legion
