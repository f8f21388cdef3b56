// What it costs to bring a tensor from one sharding to another on a network, and to sum up what several devices have:
// latency, bandwidth and contention, by the algorithms that libraries of collectives use.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "search/machine_model.h"
#include "search/sharding.h"

namespace ff {

class Transfers {
 public:
  explicit Transfers(const MachineModel& model);

  // Seconds, all devices at one time, from tensors that lie as `from` says to copies, parts or terms as `to` says.
  // Symmetric by devices: the first and the last node are looked at.
  double reshard(const TensorType& type, const Sharding& from, const Sharding& to) const;
  // Each device of a group ends with the sum of what all have: a reduction in slices, then a gathering of the slices
  // (Thakur et al. 2005), first within nodes and then between them. bytes: that each device has; terms: how the terms
  // lie, all groups working at one time.
  double all_reduce(double bytes, const Sharding& terms) const;

 private:
  class Load;
  using Key = std::tuple<Shape, DType, Sharding, Sharding>;

  int node_of(int device) const;
  double gather(const TensorType& type, const Sharding& from, const Sharding& to) const;
  double reduce(double bytes, const Sharding& sharding) const;

  const MachineModel& model_;
  std::vector<std::vector<int>> nodes_;  // devices by node
  mutable std::mutex mutex_;
  mutable std::map<Key, double> known_;
};

}  // namespace ff
