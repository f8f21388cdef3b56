// Machine models and costs for the tests of the search.
#pragma once

#include <algorithm>

#include "ops/op.h"
#include "search/costs.h"

namespace machines {

using namespace ff;

// Nodes of devices on a switch each, and the switches on one.
inline MachineModel of(int nodes, int per_node, double near, double far) {
  const int n = nodes * per_node;
  std::vector<Link> links;
  for (int d = 0; d < n; ++d) {
    links.push_back({d, n + d / per_node, 1e-6, near});
    links.push_back({n + d / per_node, d, 1e-6, near});
  }
  for (int k = 0; k < nodes && nodes > 1; ++k) {
    links.push_back({n + k, n + nodes, 5e-6, far});
    links.push_back({n + nodes, n + k, 5e-6, far});
  }
  MachineModel model;
  for (int d = 0; d < n; ++d) model.machine.devices.push_back({"gpu", 1, int64_t{40} << 30, d / per_node, -1});
  model.rates.assign(static_cast<size_t>(n), {{{DType::float32, 1e14}}, 1.5e12, 5e-6});
  model.network = Network(n, nodes + 1, std::move(links));
  return model;
}

class Roof : public Costs {
 public:
  explicit Roof(double flops = 1e14, double bandwidth = 1.5e12) : flops_(flops), bandwidth_(bandwidth) {}
  double seconds(const OpCall& call, const Layouts&, int, int) const override {
    double bytes = 0;
    for (const auto* types : {&call.inputs, &call.outputs})
      for (const TensorType& type : *types)
        if (type.dtype != DType::opaque) bytes += static_cast<double>(type.bytes());
    const OpDef& def = op_def(call.op);
    return std::max((def.flops ? def.flops(call) : 0.0) / flops_, bytes / bandwidth_) + 5e-6;
  }

 private:
  double flops_, bandwidth_;
};

}  // namespace machines
