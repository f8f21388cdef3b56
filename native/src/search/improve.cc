// From a known assignment to a better one.
#include <algorithm>
#include <cmath>

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

// The part alone, in its order: edges that leave it are costs of their inner end, and a last variable without choice
// costs what all the rest does.
ChoiceProblem conditioned(const ChoiceProblem& problem, const std::vector<int>& part, const Choices& chosen) {
  ChoiceProblem small(problem.resources());
  small.weights = problem.weights;
  small.limits = problem.limits;
  std::vector<int> place(problem.size(), -1);
  for (size_t i = 0; i < part.size(); ++i) place[part[i]] = static_cast<int>(i);
  for (const int v : part) {
    ChoiceTable own{1, problem.candidates(v), std::vector<std::vector<double>>(problem.resources())};
    for (int k = 0; k < own.columns; ++k) {
      std::vector<double> sums(problem.resources(), 0.0);
      add_costs(sums, problem.tables()[problem.variables()[v].table], 0, k);
      for (const int e : problem.edges_of(v)) {
        const ChoiceProblem::Edge& edge = problem.edges()[e];
        if (place[edge.from] >= 0 && place[edge.to] >= 0) continue;
        add_costs(sums, problem.tables()[edge.table], edge.from == v ? k : chosen[edge.from],
                  edge.to == v ? k : chosen[edge.to]);
      }
      for (size_t r = 0; r < sums.size(); ++r) own.values[r].push_back(sums[r]);
    }
    small.add_variable(small.add_table(std::move(own)));
  }
  std::vector<double> rest(problem.resources(), 0.0);
  for (int v = 0; v < problem.size(); ++v)
    if (place[v] < 0) add_costs(rest, problem.tables()[problem.variables()[v].table], 0, chosen[v]);
  for (const ChoiceProblem::Edge& edge : problem.edges()) {
    const ChoiceTable& table = problem.tables()[edge.table];
    if (place[edge.from] < 0 && place[edge.to] < 0) add_costs(rest, table, chosen[edge.from], chosen[edge.to]);
    if (place[edge.from] >= 0 && place[edge.to] >= 0)
      small.add_edge(place[edge.from], place[edge.to], small.add_table(table));
  }
  ChoiceTable fixed;
  fixed.columns = 1;
  for (const double total : rest) fixed.values.push_back({total});
  small.add_variable(small.add_table(std::move(fixed)));
  return small;
}

// False when the part is too large.
bool solve_part(const ChoiceProblem& problem, const std::vector<int>& part, Incumbent& best, const Neighbourhoods& how,
                Deadline& deadline) {
  constexpr int64_t kPoints = 10'000;
  const bool frontiers = problem.limited() || how.targets.size() > 1;
  const Restricted small = without_dominated(conditioned(problem, part, best.assignment()), how.targets, deadline);
  const EliminationLimits quick{.operations = frontiers ? 2e5 : 5e7, .bytes = 64 << 20, .tries = 0};
  const EliminationPlan plan = plan_elimination(small.problem, quick, deadline);
  const auto offer = [&](const Choices& chosen) {
    Choices next = best.assignment();
    const Choices lifted = small.lift(chosen);
    for (size_t i = 0; i < part.size(); ++i) next[part[i]] = lifted[i];
    best.offer(next);
  };
  if (!plan.exact) return false;
  if (frontiers) {
    FrontierOptions options;
    options.above = best.cost();
    options.most_points = kPoints;
    const std::optional<Frontier> frontier = pareto_optimum(small.problem, plan, how.targets, options, deadline);
    if (frontier && frontier->found) offer(frontier->assignment);
    if (frontier) return true;
  }
  const Messages messages(small.problem, plan, how.weights, deadline);
  if (messages.done()) offer(messages.assignment());
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
  constexpr int64_t kIdle = 30;  // rounds without success that end it
  size_t count = std::min<size_t>(problem.size(), 8);
  int64_t idle = 0;
  for (int64_t round = 0; round < how.rounds && idle < kIdle && best.cost() > how.enough && !deadline.over(); ++round) {
    const double before = best.cost();
    const std::vector<int> part =
        connected_part(problem, count, RandomStream(how.seed, 1, static_cast<uint64_t>(round)));
    if (solve_part(problem, part, best, how, deadline)) {
      count = std::min<size_t>(problem.size(), count + 1 + count / 8);
    } else {
      count = std::max<size_t>(1, count / 2);
    }
    idle = best.cost() < before ? 0 : idle + 1;
  }
}

}  // namespace ff
