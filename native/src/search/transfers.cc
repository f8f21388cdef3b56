#include "search/transfers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>

namespace ff {
namespace {

// The devices that axes lead to from a first one.
std::vector<int> devices_of(int start, const std::vector<ShardAxis>& axes) {
  std::vector<int> devices{start};
  for (const ShardAxis& axis : axes) {
    std::vector<int> next;
    next.reserve(devices.size() * static_cast<size_t>(axis.degree));
    for (const int device : devices)
      for (int p = 0; p < axis.degree; ++p) next.push_back(device + p * axis.stride);
    devices = std::move(next);
  }
  return devices;
}

std::vector<ShardAxis> axes_of(const Sharding& sharding, int dim) {
  std::vector<ShardAxis> axes;
  for (const ShardAxis& axis : sharding.axes)
    if (axis.dim == dim) axes.push_back(axis);
  return axes;
}

// A range of one dimension, and how far it leads from the first device.
struct Cut {
  int64_t begin = 0, end = 0;
  int offset = 0;
};

std::vector<Cut> cuts_of(const Sharding& sharding, int dim, int64_t extent) {
  std::vector<Cut> cuts{{0, extent, 0}};
  for (const ShardAxis& axis : axes_of(sharding, dim)) {
    std::vector<Cut> next;
    for (const Cut& cut : cuts)
      for (int p = 0; p < axis.degree; ++p) {
        const Range range = part_of(cut.end - cut.begin, p, axis.degree);
        next.push_back(
            {cut.begin + range.origin, cut.begin + range.origin + range.extent, cut.offset + p * axis.stride});
      }
    cuts = std::move(next);
  }
  return cuts;
}

int64_t common(const Cut& a, const Cut& b) {
  return std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

// What each device holds, or wants, of a tensor: by dimension the number of its cut; copies share it.
class Placed {
 public:
  Placed(const Sharding& sharding, const Shape& shape) {
    cuts_.reserve(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) cuts_.push_back(cuts_of(sharding, static_cast<int>(d), shape[d]));
    copies_ = devices_of(sharding.start, axes_of(sharding, ShardAxis::kCopies));
    std::vector<size_t> at(shape.size(), 0);
    add_devices(0, 0, at);
  }

  const std::vector<std::vector<Cut>>& cuts() const { return cuts_; }
  const std::vector<int>& copies() const { return copies_; }  // devices of the first part
  // By dimension; nullptr: nothing lies on that device.
  const std::vector<size_t>* at(int device) const {
    const auto it = at_.find(device);
    return it == at_.end() ? nullptr : &it->second;
  }

 private:
  void add_devices(size_t dim, int offset, std::vector<size_t>& at) {
    if (dim == cuts_.size()) {
      for (const int copy : copies_) at_.emplace(copy + offset, at);
      return;
    }
    for (size_t c = 0; c < cuts_[dim].size(); ++c) {
      at[dim] = c;
      add_devices(dim + 1, offset + cuts_[dim][c].offset, at);
    }
  }

  std::vector<std::vector<Cut>> cuts_;
  std::vector<int> copies_;
  std::unordered_map<int, std::vector<size_t>> at_;
};

double rounds(size_t members) { return members > 1 ? std::ceil(std::log2(static_cast<double>(members))) : 0; }

}  // namespace

// Bytes on each link, of all that is under way at one time.
class Transfers::Load {
 public:
  explicit Load(const Network& network) : network_(network), bytes_(network.links().size()) {}

  void add(int from, int to, double bytes) {
    if (from == to || bytes <= 0) return;
    for (const int link : network_.route(from, to)) bytes_[link] += bytes;
    latency_ = std::max(latency_, network_.latency(from, to));
  }
  // The busiest link, and the latency of the rounds that an algorithm takes.
  double seconds(double rounds) const {
    double longest = 0;
    for (size_t l = 0; l < bytes_.size(); ++l)
      if (bytes_[l] > 0) longest = std::max(longest, bytes_[l] / network_.links()[l].bandwidth);
    return longest + rounds * latency_;
  }

 private:
  const Network& network_;
  std::vector<double> bytes_;
  double latency_ = 0;
};

Transfers::Transfers(const MachineModel& model) : model_(model) {
  for (size_t d = 0; d < model.machine.devices.size(); ++d) {
    const auto node = static_cast<size_t>(model.machine.devices[d].node);
    if (nodes_.size() <= node) nodes_.resize(node + 1);
    nodes_[node].push_back(static_cast<int>(d));
  }
}

double Transfers::reshard(const TensorType& type, const Sharding& from, const Sharding& to) const {
  if (from == to || type.numel() == 0) return 0;
  const Key key{type.shape, type.dtype, from, to};
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
  }
  double seconds = 0;
  Sharding summed = from;
  if (from.degree(ShardAxis::kPartial) > 1) {
    // The sum is made in slices, along the dimension that is wanted in slices, if there is one.
    const TensorType part{type.dtype, part_shape(from, type.shape)};
    seconds += reduce(static_cast<double>(part.bytes()), from);
    for (ShardAxis& axis : summed.axes) {
      if (axis.dim != ShardAxis::kPartial) continue;
      const auto same = std::find_if(to.axes.begin(), to.axes.end(), [&](const ShardAxis& other) {
        return other.dim >= 0 && other.degree == axis.degree && other.stride == axis.stride;
      });
      axis.dim = same != to.axes.end()
                     ? same->dim
                     : static_cast<int>(slicing_dim(whole_of(part.shape), static_cast<size_t>(axis.degree)));
      if (axis.dim >= static_cast<int>(type.shape.size())) axis.dim = ShardAxis::kCopies;
    }
  }
  Sharding wanted = to;  // a term of a sum can be made from the whole by one, the others having nothing
  std::erase_if(wanted.axes, [](const ShardAxis& axis) { return axis.dim == ShardAxis::kPartial; });
  if (summed != wanted) seconds += gather(type, summed, wanted);
  const std::lock_guard lock(mutex_);
  return known_[key] = seconds;
}

double Transfers::gather(const TensorType& type, const Sharding& from, const Sharding& to) const {
  const Placed have(from, type.shape), want(to, type.shape);
  const auto element = static_cast<double>(size_of(type.dtype));
  const auto node_of = [&](int device) { return model_.machine.devices[device].node; };
  const std::set<size_t> looked_at = {0, nodes_.size() / 2, nodes_.size() - 1};
  double longest = 0;
  for (const size_t node : looked_at) {
    Load load(model_.network);
    std::set<int> sources;
    std::unordered_map<int, int> brought;  // by the first holder of a part, who has brought it into this node
    for (const int device : nodes_[node]) {
      const std::vector<size_t>* wants = want.at(device);
      if (wants == nullptr) continue;
      const std::vector<size_t>* has = have.at(device);
      // Every part that has something of what is wanted, dimension by dimension.
      std::vector<std::tuple<int, double, bool>> parts{{0, element, has != nullptr}};
      for (size_t d = 0; d < wants->size(); ++d) {
        std::vector<std::tuple<int, double, bool>> next;
        for (size_t c = 0; c < have.cuts()[d].size(); ++c) {
          const int64_t both = common(have.cuts()[d][c], want.cuts()[d][(*wants)[d]]);
          if (both == 0) continue;
          for (const auto& [offset, bytes, here] : parts)
            next.emplace_back(offset + have.cuts()[d][c].offset, bytes * static_cast<double>(both),
                              here && (*has)[d] == c);
        }
        parts = std::move(next);
      }
      for (const auto& [offset, bytes, here] : parts) {
        if (here) continue;
        // The nearest copy: one of this node, or what a neighbour has brought, or one far away.
        const std::vector<int>& copies = have.copies();
        const auto near = std::find_if(copies.begin(), copies.end(), [&, away = offset](int copy) {
          return node_of(copy + away) == node_of(device);
        });
        int source =
            near != copies.end() ? *near + offset : copies[static_cast<size_t>(device) % copies.size()] + offset;
        if (near == copies.end()) {
          const auto [it, first] = brought.try_emplace(offset, device);
          if (!first) source = it->second;
        }
        load.add(source, device, bytes);
        sources.insert(source);
      }
    }
    longest = std::max(longest, load.seconds(std::max(1.0, rounds(sources.size()))));
  }
  return longest;
}

// Each device of a group gets the sum of one slice: first among its neighbours in slices for each of them, then between
// nodes, where each has sums already.
double Transfers::reduce(double bytes, const Sharding& sharding) const {
  const std::vector<ShardAxis> group = axes_of(sharding, ShardAxis::kPartial);
  Sharding heads = sharding;
  std::erase_if(heads.axes, [](const ShardAxis& axis) { return axis.dim == ShardAxis::kPartial; });
  const auto node_of = [&](int device) { return model_.machine.devices[device].node; };
  const std::set<int> looked_at = {0, static_cast<int>(nodes_.size()) / 2, static_cast<int>(nodes_.size()) - 1};
  Load local(model_.network), far(model_.network);
  double near_rounds = 0, far_rounds = 0;
  for (const int head : devices_of(sharding.start, heads.axes)) {
    const std::vector<int> members = devices_of(head, group);
    std::map<int, std::vector<int>> by_node;
    for (const int member : members) by_node[node_of(member)].push_back(member);
    far_rounds = std::max(far_rounds, rounds(by_node.size()));
    for (const auto& [node, here] : by_node) {
      if (looked_at.count(node) == 0) continue;
      near_rounds = std::max(near_rounds, rounds(here.size()));
      const double slice = bytes / static_cast<double>(here.size());
      for (const int to : here)
        for (const int from : here) local.add(from, to, slice);
      for (const auto& [other, there] : by_node)
        for (size_t k = 0; k < here.size() && other != node; ++k)
          far.add(there[k % there.size()], here[k], bytes / static_cast<double>(members.size()));
    }
  }
  return local.seconds(near_rounds) + far.seconds(far_rounds);
}

double Transfers::all_reduce(double bytes, const Sharding& terms) const {
  if (terms.degree(ShardAxis::kPartial) == 1) return 0;
  // A sum in slices and a gathering of slices move the same bytes.
  return 2 * reduce(bytes, terms);
}

}  // namespace ff
