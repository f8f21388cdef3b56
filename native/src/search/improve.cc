// From a known assignment to a better one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "search/elimination.h"

namespace ff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The first variables of a walk by breadth from a random one, neighbours in random order.
std::vector<int> connected_part(const ChoiceProblem& problem, size_t count, RandomStream random) {
  uint64_t drawn = 0;
  const auto below = [&](size_t n) { return static_cast<size_t>(uint64_t{random.bits(drawn++)} * n >> 32); };
  std::vector<int> part;
  std::vector<bool> seen(problem.size(), false);
  const auto take = [&](int v) {
    if (!seen[v] && part.size() < count) part.push_back(v);
    seen[v] = true;
  };
  for (size_t next = 0; part.size() < count; ++next) {
    if (next == part.size()) {  // another component
      size_t v = below(problem.size());
      while (seen[v]) v = (v + 1) % seen.size();
      take(static_cast<int>(v));
    }
    std::vector<int> edges = problem.edges_of(part[next]);
    for (size_t i = edges.size(); i > 1; --i) std::swap(edges[i - 1], edges[below(i)]);
    for (const int e : edges)
      take(problem.edges()[e].from == part[next] ? problem.edges()[e].to : problem.edges()[e].from);
  }
  return part;
}

// False when the part is too large.
bool solve_part(const ChoiceProblem& problem, const std::vector<int>& part, Incumbent& best, const Neighbourhoods& how,
                Deadline& deadline) {
  constexpr int64_t kPoints = 50'000;
  const bool frontiers = problem.limited() || how.targets.size() > 1;
  const EliminationLimits quick{.operations = frontiers ? 1e6 : 5e7, .bytes = 64 << 20, .tries = 0};
  std::vector<std::vector<int>> keep;
  for (const int k : best.assignment()) keep.push_back({k});
  for (const int v : part) {
    keep[v].resize(problem.candidates(v));
    std::iota(keep[v].begin(), keep[v].end(), 0);
  }
  const Restricted restricted = restrict_candidates(problem, std::move(keep));
  const EliminationPlan plan = plan_elimination(restricted.problem, quick);
  if (!plan.exact) return false;
  if (frontiers) {
    const auto frontier = pareto_optimum(restricted.problem, plan, how.targets, best.cost(), kPoints, deadline);
    if (frontier && frontier->found) best.offer(restricted.lift(frontier->assignment));
    if (frontier) return true;
  }
  const Messages messages(restricted.problem, plan, how.weights, deadline);
  if (messages.done()) best.offer(restricted.lift(messages.assignment()));
  return !frontiers;
}

}  // namespace

bool Incumbent::better(const std::vector<double>& totals) const {
  const double excess = problem_.excess(totals);
  return excess < excess_ || (excess == excess_ && cost_of_(totals) < cost_);
}

bool Incumbent::offer(const Choices& chosen) {
  std::vector<double> totals = problem_.totals(chosen);
  if (!assignment_.empty() && !better(totals)) return false;
  assignment_ = chosen;
  excess_ = problem_.excess(totals);
  cost_ = cost_of_(totals);
  totals_ = std::move(totals);
  return true;
}

void descend(const ChoiceProblem& problem, Incumbent& best, Deadline& deadline) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (int v = 0; v < problem.size(); ++v) {
      if (deadline.over()) return;
      const std::vector<double> without = share_of(problem, best.assignment(), v);
      for (int k = 0; k < problem.candidates(v); ++k) {
        Choices next = best.assignment();
        next[v] = k;
        std::vector<double> totals = share_of(problem, next, v);
        // A forbidden choice elsewhere would hide what is not.
        if (std::find(without.begin(), without.end(), kInfinity) != without.end())
          totals = problem.totals(next);
        else
          for (size_t r = 0; r < totals.size(); ++r) totals[r] += best.totals()[r] - without[r];
        if (!best.better(totals)) continue;
        changed = best.offer(next) || changed;
        break;
      }
    }
  }
}

void improve(const ChoiceProblem& problem, Incumbent& best, const Neighbourhoods& how, Deadline& deadline) {
  size_t count = problem.size();
  for (int64_t round = 0; round < how.rounds && best.cost() > how.enough && !deadline.over(); ++round) {
    const std::vector<int> part =
        connected_part(problem, count, RandomStream(how.seed, 1, static_cast<uint64_t>(round)));
    if (solve_part(problem, part, best, how, deadline)) {
      count = std::min<size_t>(problem.size(), count + 1 + count / 8);
    } else {
      count = std::max<size_t>(1, count / 2);
    }
  }
}

}  // namespace ff
