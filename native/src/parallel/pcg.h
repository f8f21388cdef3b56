// The parallel computation graph: a graph and, for each node, the degrees of its indices and the devices that hold its
// parts. It is what lowering lowers.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/machine.h"

namespace ff {

// How one node is split: a degree per index of its iteration space, and where the parts run.
struct Placement {
  std::vector<int> degrees;
  MachineView view;

  int parts() const;
};

struct Pcg {
  Graph graph;
  std::vector<Placement> placements;  // by node
};

// Every node whole, on device 0.
Pcg lift(Graph graph);

// The call that part `part` of a node makes: its box, and operands cut to it.
OpCall local_call(const Pcg& pcg, NodeId node, int part);

// Throws an Error naming the node when degrees or devices do not fit the operator or the machine.
void check(const Pcg& pcg, const Machine& machine);

}  // namespace ff
