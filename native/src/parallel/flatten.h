// The parallel computation graph made flat: every node is one call on one device, and what crosses from one sharding to
// another is a node of its own, the fused form of Repartition, Combine, Replicate and Reduction.
#pragma once

#include "parallel/pcg.h"

namespace ff {

// What a node of the flat graph is, beyond the node itself.
struct Local {
  int device = 0;
  int micro = -1;     // of a call: the micro-batch that it works on; -1: none
  Box box;            // of a call
  std::string state;  // of a weight or an input: its name in the unsplit graph ...
  Rect piece;         // ... the rectangle of it that lies here ...
  Shape whole;        // ... and its whole shape
};

struct FlatGraph {
  Graph graph;
  std::vector<Local> locals;  // by node
  std::vector<int> stages;    // by device; none without a pipeline
};

FlatGraph flatten(const Pcg& pcg, const Machine& machine);

}  // namespace ff
