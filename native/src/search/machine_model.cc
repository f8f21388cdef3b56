#include "search/machine_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <queue>
#include <shared_mutex>
#include <tuple>
#include <unordered_map>

#include "base/error.h"

namespace ff {
namespace {

constexpr double kTypicalBytes = 1e6;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_positive(double number) { return number > 0 && number < kInfinity; }
bool is_time(double number) { return number >= 0 && number < kInfinity; }

void check_link(const Link& link, size_t number, int devices, int vertices) {
  const std::string who = cat("link ", number, ", from ", link.from, " to ", link.to, ": ");
  for (const int end : {link.from, link.to})
    if (end < 0 || end >= vertices)
      bad_value(who, "there is no ", end, "; expected one of ", devices, " devices and, after them, ",
                vertices - devices, " switches");
  if (link.from == link.to) bad_value(who, "it ends where it begins");
  if (!is_time(link.latency)) bad_value(who, "latency is ", link.latency, ", expected seconds, 0 or more");
  if (!is_positive(link.bandwidth))
    bad_value(who, "bandwidth is ", link.bandwidth, ", expected bytes per second, more than 0");
}

// How far a vertex is from the source, in seconds and in links, and the links by which it is reached in that.
struct Reached {
  double seconds = kInfinity;
  int hops = 0;
  std::vector<int> by;
};

}  // namespace

struct Network::Way {
  std::vector<int> links;
  double latency = 0, bandwidth = kInfinity;
};

struct Network::Ways {
  explicit Ways(int vertices) : leaving(vertices) {}

  // Dijkstra (1959). For each vertex the link over which data from the source arrives; -1: none does.
  std::vector<int> tree(int source, const std::vector<Link>& links) const;

  std::vector<std::vector<int>> leaving;  // links by the vertex that they leave
  std::shared_mutex mutex;                // of what follows; entries stay where they are
  std::unordered_map<int, std::vector<int>> trees;
  std::unordered_map<int64_t, Way> found;
};

std::vector<int> Network::Ways::tree(int source, const std::vector<Link>& links) const {
  std::vector<Reached> reached(leaving.size());
  using Entry = std::tuple<double, int, int>;  // seconds, links, vertex
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  reached[source].seconds = 0;
  open.emplace(0, 0, source);
  while (!open.empty()) {
    const auto [seconds, hops, vertex] = open.top();
    open.pop();
    if (std::tie(seconds, hops) != std::tie(reached[vertex].seconds, reached[vertex].hops)) continue;
    for (const int number : leaving[vertex]) {
      const Link& link = links[number];
      Reached& next = reached[link.to];
      const double arrival = seconds + link.latency + kTypicalBytes / link.bandwidth;
      const auto now = std::tuple(arrival, hops + 1), before = std::tuple(next.seconds, next.hops);
      if (now > before) continue;
      if (now < before) {
        next = {arrival, hops + 1, {}};
        open.emplace(arrival, hops + 1, link.to);
      }
      next.by.push_back(number);
    }
  }
  std::vector<int> arriving;
  arriving.reserve(reached.size());
  for (const auto& [seconds, hops, by] : reached) arriving.push_back(by.empty() ? -1 : by[source % by.size()]);
  return arriving;
}

Network::Network() : Network(0, 0, {}) {}

Network::Network(int devices, int switches, std::vector<Link> links) : devices_(devices), links_(std::move(links)) {
  if (devices < 0 || switches < 0 || switches > std::numeric_limits<int>::max() - devices)
    bad_value("a network of ", devices, " devices and ", switches, " switches");
  ways_ = std::make_shared<Ways>(devices + switches);
  for (size_t i = 0; i < links_.size(); ++i) {
    check_link(links_[i], i, devices, devices + switches);
    ways_->leaving[links_[i].from].push_back(static_cast<int>(i));
  }
}

const Network::Way& Network::way(int from, int to) const {
  for (const int device : {from, to})
    if (device < 0 || device >= devices_)
      bad_value("a way from device ", from, " to ", to, ": there are ", devices_, " devices, counted from 0");
  const int64_t key = int64_t{from} * devices_ + to;
  {
    const std::shared_lock lock(ways_->mutex);
    if (const auto it = ways_->found.find(key); it != ways_->found.end()) return it->second;
  }
  const std::unique_lock lock(ways_->mutex);
  auto& tree = ways_->trees[from];
  if (tree.empty()) tree = ways_->tree(from, links_);
  Way way;
  for (int vertex = to; vertex != from; vertex = links_[way.links.back()].from) {
    if (tree[vertex] < 0) bad_value("no way leads from device ", from, " to device ", to, "; add links between them");
    way.links.push_back(tree[vertex]);
  }
  std::reverse(way.links.begin(), way.links.end());
  for (const int number : way.links) {
    way.latency += links_[number].latency;
    way.bandwidth = std::min(way.bandwidth, links_[number].bandwidth);
  }
  return ways_->found.emplace(key, std::move(way)).first->second;
}

const std::vector<int>& Network::route(int from, int to) const { return way(from, to).links; }
double Network::latency(int from, int to) const { return way(from, to).latency; }
double Network::bandwidth(int from, int to) const { return way(from, to).bandwidth; }

void check(const MachineModel& model) {
  const size_t devices = model.machine.devices.size();
  const auto on_network = static_cast<size_t>(model.network.devices());
  if (devices == 0) bad_value("a machine has no devices; expected one or more");
  if (model.rates.size() != devices || on_network != devices)
    bad_value("a machine of ", devices, " devices has rates of ", model.rates.size(), " and a network of ", on_network);
  for (size_t d = 0; d < devices; ++d) {
    const Device& device = model.machine.devices[d];
    const Rates& rates = model.rates[d];
    const std::string who = cat("device ", d, ": ");
    if (device.kind.empty()) bad_value(who, "it has no kind, such as \"cpu\"");
    if (device.threads < 1) bad_value(who, "threads is ", device.threads, ", expected 1 or more");
    if (device.memory < 1) bad_value(who, "memory is ", device.memory, ", expected bytes, 1 or more");
    if (device.node < 0) bad_value(who, "node is ", device.node, ", expected 0 or more");
    if (!is_positive(rates.bandwidth))
      bad_value(who, "bandwidth is ", rates.bandwidth, ", expected bytes per second, more than 0");
    if (!is_time(rates.launch)) bad_value(who, "launch is ", rates.launch, ", expected seconds, 0 or more");
    if (!rates.flops.contains(DType::float32)) bad_value(who, "it has no rate for float32");
    for (const auto& [dtype, flops] : rates.flops)
      if (!is_positive(flops))
        bad_value(who, "its rate for ", name_of(dtype), " is ", flops, ", expected operations per second, more than 0");
  }
}

}  // namespace ff
