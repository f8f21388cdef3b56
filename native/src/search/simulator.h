// What a plan would do on a machine, event by event.
//
// A device has a queue of calls and, where it moves data while it computes, another of moves; each queue is worked off
// in the order of the plan, and a step begins when those that it waits for have ended. What a move takes from a device
// of another memory goes over the links of its way. A link serves transfers in turn, as they come, one at a time, and
// passes on what it has begun to receive. Transfers that come together, such as those of a collective, take turns by
// receiver, each beginning with its next neighbour. All ties are broken by the number of the step: the same plan gives
// the same times.
#pragma once

#include <array>
#include <vector>

#include "lowering/plan.h"
#include "search/jobs.h"

namespace ff {

struct Simulated {
  struct Stay {
    double begin = 0, end = 0;
  };
  struct Transfer {
    int link = 0, step = 0;
    int64_t bytes = 0;
    double begin = 0, end = 0;  // of the link's service
  };

  double seconds = 0;
  std::vector<Stay> steps;                  // by step of the plan
  std::vector<bool> beside;                 // by step: it is in a queue of moves beside the calls
  std::vector<Transfer> transfers;          // by begin
  std::vector<double> busy;                 // by device: seconds in which it computes; moves count that take turns
  std::vector<double> exposed;              // by device: seconds in which it moves data, and does not compute
  std::vector<size_t> memory;               // by device: bytes, at most
  std::vector<double> link_busy;            // by link
  std::array<int64_t, kMoveKinds> moved{};  // bytes between devices, by MoveKind
};

Simulated simulate(const Plan& plan, const MachineModel& machine, const Costs& costs);

}  // namespace ff
