// From a parallel computation graph to a plan.
#pragma once

#include "graph/kernel_query.h"
#include "lowering/plan.h"
#include "parallel/flatten.h"

namespace ff {

struct LowerOptions {
  // Each section may be run on its own: what one leaves for another is pinned, and updates wait for their section.
  bool separate_sections = false;
};

Plan lower(const Pcg& pcg, const Machine& machine, const KernelQuery& kernels, const LowerOptions& options = {});

// The stages of lower, in their order.
std::vector<NodeId> schedule(const FlatGraph& flat, const Machine& machine, bool separate_sections);
// The same for a step in micro-batches.
std::vector<NodeId> in_micro_batches(const FlatGraph& flat, const std::vector<NodeId>& order);
void place_buffers(Plan& plan, bool separate_sections);  // aliases, lifetimes, offsets
void share_moves(Plan& plan);                            // aliases: what is a run of memory at both ends is not moved
void add_waits(Plan& plan);                              // between the queues of devices
// By step: what it has to wait for of other queues, where a step is in the queue of that number. A wait's device is a
// queue.
std::vector<std::vector<Wait>> waits_between(const Plan& plan, const std::vector<int>& queues);

}  // namespace ff
