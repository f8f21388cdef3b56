#include "parallel/pcg.h"

#include <functional>
#include <numeric>

#include "base/error.h"
#include "ops/op.h"

namespace ff {

int Placement::parts() const { return std::accumulate(degrees.begin(), degrees.end(), 1, std::multiplies<>()); }

Pcg lift(Graph graph) {
  Pcg pcg;
  pcg.placements.resize(graph.size());
  for (const NodeId id : graph.order()) {
    const OpCall call = graph.call(id);
    pcg.placements[id].degrees.assign(iteration_space(op_def(call.op), call).size(), 1);
  }
  pcg.graph = std::move(graph);
  return pcg;
}

OpCall local_call(const Pcg& pcg, NodeId node, int part) {
  FF_CHECK(part < pcg.placements[node].parts(), pcg.graph.node(node).name, " has no part ", part);
  OpCall call = pcg.graph.call(node);
  call.box = iteration_space(op_def(call.op), call);
  return call;
}

void check(const Pcg& pcg, const Machine& machine) {
  for (const NodeId id : pcg.graph.order()) {
    const Placement& placement = pcg.placements[id];
    const int device = placement.view.start;
    if (device < 0 || static_cast<size_t>(device) >= machine.devices.size())
      bad_value(pcg.graph.node(id).name, ": placed on device ", device, "; the machine has ", machine.devices.size());
  }
}

}  // namespace ff
