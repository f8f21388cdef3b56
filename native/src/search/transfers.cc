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

// What devices hold, or want, of a tensor: by dimension the number of its cut.
class Placed {
 public:
  Placed(const Sharding& sharding, const Shape& shape) : sharding_(sharding) {
    for (size_t d = 0; d < shape.size(); ++d) cuts_.push_back(cuts_of(sharding, static_cast<int>(d), shape[d]));
  }

  const std::vector<Cut>& cuts(size_t dim) const { return cuts_[dim]; }
  // Whether a device has a part, and which.
  bool find(int device, std::vector<size_t>& part) const {
    part.assign(cuts_.size(), 0);
    int rest = device - sharding_.start;
    if (rest < 0) return false;
    for (const ShardAxis& axis : sharding_.axes) {
      const int digit = digit_of(axis, device);
      rest -= digit * axis.stride;
      if (axis.dim >= 0)
        part[axis.dim] = part[axis.dim] * static_cast<size_t>(axis.degree) + static_cast<size_t>(digit);
    }
    return rest == 0;
  }
  // Of the devices that have the part which is so far from the first one's, that which lies as this device does.
  int like(int device, int offset) const {
    int holder = sharding_.start + offset;
    for (const ShardAxis& axis : sharding_.axes)
      if (axis.dim < 0) holder += digit_of(axis, device) * axis.stride;
    return holder;
  }

 private:
  int digit_of(const ShardAxis& axis, int device) const {
    return std::max(0, device - sharding_.start) / axis.stride % axis.degree;
  }

  const Sharding& sharding_;
  std::vector<std::vector<Cut>> cuts_;
};

// A part of what a device wants: how far from the first one its holder is, how many elements are wanted of it, and
// whether the device has it itself.
struct Wanted {
  int offset;
  double elements;
  bool here;
};

void find_wanted(const Placed& have, const Placed& want, int device, std::vector<Wanted>& parts) {
  std::vector<size_t> wants, has;
  parts.clear();
  if (!want.find(device, wants)) return;
  parts.push_back({0, 1, have.find(device, has)});
  std::vector<Wanted> next;
  for (size_t d = 0; d < wants.size(); ++d) {
    next.clear();
    const Cut& cut = want.cuts(d)[wants[d]];
    const std::vector<Cut>& cuts = have.cuts(d);
    for (size_t c = 0; c < cuts.size(); ++c)
      if (const int64_t both = common(cuts[c], cut); both > 0)
        for (const Wanted& part : parts)
          next.push_back(
              {part.offset + cuts[c].offset, part.elements * static_cast<double>(both), part.here && has[d] == c});
    std::swap(parts, next);
  }
}

double rounds(size_t members) { return members > 1 ? std::ceil(std::log2(static_cast<double>(members))) : 0; }

}  // namespace

// Bytes on each link, of all that is under way at one time.
class Transfers::Load {
 public:
  explicit Load(const Network& network) : network_(network) {}

  void add(int from, int to, double bytes) {
    if (from == to || bytes <= 0) return;
    for (const int link : network_.route(from, to)) bytes_[link] += bytes;
    latency_ = std::max(latency_, network_.latency(from, to));
  }
  // The busiest link, and the latency of the rounds that an algorithm takes.
  double seconds(double rounds) const {
    double longest = 0;
    for (const auto& [link, bytes] : bytes_) longest = std::max(longest, bytes / network_.links()[link].bandwidth);
    return longest + rounds * latency_;
  }

 private:
  const Network& network_;
  std::unordered_map<int, double> bytes_;
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
  std::vector<Wanted> parts;
  std::vector<int> brought(model_.machine.devices.size());
  double longest = 0;
  for (const size_t node : std::set<size_t>{0, nodes_.size() - 1}) {
    Load load(model_.network);
    size_t most = 1;
    std::fill(brought.begin(), brought.end(), -1);  // by offset: who has brought that part into this node
    for (const int device : nodes_[node]) {
      find_wanted(have, want, device, parts);
      most = std::max(most, parts.size());
      for (const Wanted& part : parts) {
        if (part.here) continue;
        int source = have.like(device, part.offset);
        if (node_of(source) != node_of(device)) {
          int& neighbour = brought[part.offset];
          if (neighbour < 0)
            neighbour = device;
          else
            source = neighbour;
        }
        load.add(source, device, part.elements * element);
      }
    }
    longest = std::max(longest, load.seconds(std::max(1.0, rounds(most))));
  }
  return longest;
}

// Each device of a group gets the sum of one slice: first among its neighbours in slices for each of them, then between
// nodes, where each has sums already.
double Transfers::reduce(double bytes, const Sharding& sharding) const {
  const std::vector<ShardAxis> group = axes_of(sharding, ShardAxis::kPartial);
  Sharding heads = sharding;
  std::erase_if(heads.axes, [](const ShardAxis& axis) { return axis.dim == ShardAxis::kPartial; });
  const std::set<int> looked_at = {0, static_cast<int>(nodes_.size()) - 1};
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

int Transfers::node_of(int device) const { return model_.machine.devices[device].node; }

double Transfers::all_reduce(double bytes, const Sharding& terms) const {
  if (terms.degree(ShardAxis::kPartial) == 1) return 0;
  // A sum in slices and a gathering of slices move the same bytes.
  return 2 * reduce(bytes, terms);
}

}  // namespace ff
