#include <algorithm>
#include <limits>

#include "base/error.h"
#include "search/machine_model.h"

namespace ff {

Network::Network(int devices, int switches, std::vector<Link> links) : devices_(devices), links_(std::move(links)) {
  for (size_t l = 0; l < links_.size(); ++l) {
    const Link& link = links_[l];
    for (const int end : {link.from, link.to})
      if (end < 0 || end >= devices + switches)
        bad_value("link ", l, " ends at ", end, "; expected one of ", devices + switches, " devices and switches");
    if (!(link.bandwidth > 0) || !(link.latency >= 0))
      bad_value("link ", l, " has latency ", link.latency, " and bandwidth ", link.bandwidth,
                "; expected at least 0, and more than 0");
  }
}

const std::vector<int>& Network::route(int from, int to) const {
  const auto [it, fresh] = routes_.try_emplace({from, to});
  if (!fresh || from == to) return it->second;
  constexpr double kBytes = 1e6;
  std::map<int, std::pair<double, int>> best = {{from, {0, -1}}};  // by end: seconds, and the link that leads there
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t l = 0; l < links_.size(); ++l) {
      const auto start = best.find(links_[l].from);
      if (start == best.end()) continue;
      const double seconds = start->second.first + links_[l].latency + kBytes / links_[l].bandwidth;
      const auto [at, first] = best.try_emplace(links_[l].to, std::numeric_limits<double>::infinity(), -1);
      if (seconds >= at->second.first) continue;
      at->second = {seconds, static_cast<int>(l)};
      changed = true;
    }
  }
  if (best.count(to) == 0) {
    routes_.erase(it);
    bad_value("there is no way from device ", from, " to device ", to);
  }
  for (int at = to; at != from; at = links_[static_cast<size_t>(it->second.back())].from)
    it->second.push_back(best[at].second);
  std::reverse(it->second.begin(), it->second.end());
  return it->second;
}

double Network::latency(int from, int to) const {
  double seconds = 0;
  for (const int link : route(from, to)) seconds += links_[static_cast<size_t>(link)].latency;
  return seconds;
}

double Network::bandwidth(int from, int to) const {
  double least = std::numeric_limits<double>::infinity();
  for (const int link : route(from, to)) least = std::min(least, links_[static_cast<size_t>(link)].bandwidth);
  return least;
}

}  // namespace ff
