// The oracle of small problems.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "search/elimination.h"
#include "search/walk.h"

namespace ff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Depth first; what the variables that are not yet chosen add at least is known by depth.
class Branching {
 public:
  Branching(const ChoiceProblem& problem, const SearchBudget& budget)
      : problem_(problem),
        left_(budget.iterations),
        deadline_(budget),
        best_(problem, [&](const std::vector<double>& totals) { return problem.cost(totals); }),
        chosen_(problem.size(), 0) {
    ends_at_.resize(problem.size());
    for (const ChoiceProblem::Edge& edge : problem.edges()) ends_at_[std::max(edge.from, edge.to)].push_back(edge);
    rest_.assign(problem.size() + 1, std::vector<double>(problem.resources(), 0.0));
    for (int v = problem.size(); v-- > 0;) {
      rest_[v] = rest_[v + 1];
      add_least(rest_[v], problem.variables()[v].table);
      for (const ChoiceProblem::Edge& edge : ends_at_[v]) add_least(rest_[v], edge.table);
    }
  }

  ChoiceSolution run() {
    const bool whole = descend(0, std::vector<double>(problem_.resources(), 0.0));
    ChoiceSolution found;
    found.assignment = best_.assignment();
    found.totals = best_.totals();
    found.cost = best_.cost();
    found.lower_bound = whole ? found.cost : problem_.cost(rest_[0]);
    found.exact = whole;
    return found;
  }

 private:
  void add_least(std::vector<double>& sums, int table) const {
    for (size_t r = 0; r < sums.size(); ++r) {
      const std::vector<double>& values = problem_.tables()[table].values[r];
      if (!values.empty()) sums[r] += *std::min_element(values.begin(), values.end());
    }
  }

  // False when the budget ended.
  bool descend(int v, const std::vector<double>& totals) {
    if (--left_ < 0 || deadline_.over()) return false;
    if (v == problem_.size()) {
      if (problem_.excess(totals) == 0) best_.offer(chosen_);
      return true;
    }
    for (chosen_[v] = 0; chosen_[v] < problem_.candidates(v); ++chosen_[v]) {
      std::vector<double> sums = totals;
      add_costs(sums, problem_.tables()[problem_.variables()[v].table], 0, chosen_[v]);
      for (const ChoiceProblem::Edge& edge : ends_at_[v])
        add_costs(sums, problem_.tables()[edge.table], chosen_[edge.from], chosen_[edge.to]);
      if (hopeless(v + 1, sums)) continue;
      if (!descend(v + 1, sums)) return false;
    }
    return true;
  }

  // With a margin for rounding: nothing is left out that might be the best.
  bool hopeless(int v, std::vector<double> sums) const {
    double magnitude = 0;
    for (size_t r = 0; r < sums.size(); ++r) {
      sums[r] += rest_[v][r];
      if (sums[r] - 1e-12 * std::abs(sums[r]) > problem_.limits[r]) return true;
      magnitude += problem_.weights[r] * std::abs(sums[r]);
    }
    const double cost = problem_.cost(sums);
    return cost == kInfinity || cost - 1e-12 * magnitude > best_.cost();
  }

  const ChoiceProblem& problem_;
  int64_t left_;
  Deadline deadline_;
  Incumbent best_;
  Choices chosen_;
  std::vector<std::vector<ChoiceProblem::Edge>> ends_at_;  // by the later end
  std::vector<std::vector<double>> rest_;
};

}  // namespace

ChoiceSolution branch_and_bound(const ChoiceProblem& problem, const SearchBudget& budget) {
  return Branching(problem, budget).run();
}

Walked enumerate(const std::vector<int>& candidates, const std::function<double(const Choices&)>& cost,
                 const SearchBudget& budget) {
  Deadline deadline(budget);
  Walked best;
  Choices chosen(candidates.size(), 0);
  for (size_t next = 0; next < candidates.size() || candidates.empty();) {
    if (best.looked_at >= budget.iterations || deadline.over()) return best;
    const double value = cost(chosen);
    ++best.looked_at;
    if (best.assignment.empty() || value < best.cost) {
      best.assignment = chosen;
      best.cost = value;
    }
    for (next = 0; next < candidates.size(); ++next) {
      if (++chosen[next] < candidates[next]) break;
      chosen[next] = 0;
    }
    if (candidates.empty()) break;
  }
  best.complete = true;
  return best;
}

}  // namespace ff
