// The parallel computation graph: a graph and, for each node, its parts. It is what lowering lowers.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "graph/graph.h"
#include "graph/machine.h"
#include "parallel/parts.h"

namespace ff {

// Below so many bytes a sum is made by everybody who wants it: one meeting instead of two. Likewise an update.
constexpr int64_t kSmallSum = 16 << 10;

struct Pcg {
  Graph graph;
  std::vector<Parts> parts;                // by node; none for constants, which are made where they are wanted
  std::vector<std::vector<Shard>> pieces;  // by node, of states and inputs: where they lie
  std::vector<int> stages;                 // as of the strategy
};

// What a strategy says, by the nodes of the user's graph.
struct Strategy {
  std::map<NodeId, Placement> ops;  // those that it does not name follow what they read
  // Weights whose copies share out the update: each device updates a slice, keeps the optimizer's state of it only, and
  // gets the other slices from the others (ZeRO stage 1, Rajbhandari et al. 2020).
  std::set<NodeId> shared_updates;
  // By device, the stage of the pipeline that it belongs to; none: no pipeline. The micro-batches of an op are parts
  // along an index of samples that lie on one device: a split of stride 0.
  std::vector<int> stages;
  // Ops whose outputs are not kept from forward to backward but computed again there.
  std::set<NodeId> recomputed;
};

// Gradients and updates follow the op that they are made for, everything else the operand that spares most moves.
// Devices that share their memory share out updates too, whatever the strategy says: they have one copy between them.
// lenient: an op that cannot be split as the strategy says follows instead, as when it is to be expanded.
Pcg place(Graph graph, const Strategy& strategy, const Machine& machine, bool lenient = false);

// Throws an Error naming the node when a part lies on a device that the machine has not.
void check(const Pcg& pcg, const Machine& machine);

}  // namespace ff
