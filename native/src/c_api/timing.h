// How long calls and engines take here: what measured costs stand on.
#pragma once

#include <string>

#include "engines/engine.h"
#include "graph/call.h"
#include "graph/kernel_query.h"

namespace ff::c_api {

// Seconds of a call by the kernel of a kind of device, its operands in the last cache, or (cold) in memory: lower
// quartile of many runs, so that what else runs on the machine counts little.
double time_call(const OpCall& call, const Layouts& layouts, const std::string& device, int threads, bool cold);

// Seconds of a run of an engine whose devices have nothing to do.
double time_start(Engine& engine);
// Seconds that an engine adds to a call of the first device.
double time_launch(Engine& engine);
// Seconds from the end of a step to the begin of one on another device that waits for it; 0 with one device.
double time_handoff(Engine& engine);

// How much longer a copy of memory takes beside another, as a share.
double time_contention();

// Bytes of the last cache that a core of this machine has a part in; 0: unknown.
double last_cache();

}  // namespace ff::c_api
