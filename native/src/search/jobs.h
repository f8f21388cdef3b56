// What each step of a plan asks of a machine: the simulator's input.
#pragma once

#include <string>
#include <vector>

#include "lowering/plan.h"
#include "search/costs.h"

namespace ff {

// What a move takes from a device that shares no memory with its own.
struct Flow {
  int from = 0;  // device
  int64_t bytes = 0;
};

// What a move does: a tensor as it is, a part of one, parts that are put together, or combined by a sum or the like.
enum class MoveKind { replicate, repartition, combine, reduction };
constexpr size_t kMoveKinds = 4;

struct Job {
  double work = 0;    // seconds of its device, once all flows have come
  double hunger = 0;  // the share of the bytes that it touches which come from memory, not from a cache
  MoveKind kind = MoveKind::replicate;  // of a move
  int64_t moved = 0;                    // bytes from other devices, over links or not
  std::vector<Flow> flows;
};

// By step. A step that only gives another name to memory, or that is skipped as long as weights stay as they are, asks
// nothing.
std::vector<Job> jobs_of(const Plan& plan, const MachineModel& machine, const Costs& costs);

}  // namespace ff
