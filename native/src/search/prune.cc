// Fewer candidates: a part of a problem, and what can be left out of it without loss.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "search/elimination.h"

namespace ff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Candidates = std::vector<int>;

// What one candidate costs more than another; where it is forbidden, nothing speaks for it.
double difference(double a, double b) { return a == kInfinity ? kInfinity : a - b; }

// A variable's costs and those towards each neighbour, of its candidates that are left (rows), under one weighting.
struct Surroundings {
  std::vector<double> own;
  struct Side {
    size_t columns = 0;
    std::vector<double> costs;
    std::vector<size_t> best;  // column, by row
  };
  std::vector<Side> sides;
};

Surroundings surroundings(const ChoiceProblem& problem, const std::vector<Candidates>& keep, int v,
                          const std::vector<double>& weights) {
  Surroundings around;
  const std::vector<double> all = weighted(problem.tables()[problem.variables()[v].table], weights);
  for (const int k : keep[v]) around.own.push_back(all[k]);
  for (const int e : problem.edges_of(v)) {
    const ChoiceProblem::Edge& edge = problem.edges()[e];
    const ChoiceTable& table = problem.tables()[edge.table];
    const std::vector<double> costs = weighted(table, weights);
    const Candidates& others = keep[edge.from == v ? edge.to : edge.from];
    Surroundings::Side side{others.size(), {}, {}};
    for (const int k : keep[v]) {
      const size_t row = side.costs.size();
      for (const int other : others)
        side.costs.push_back(edge.from == v ? costs[static_cast<size_t>(k) * table.columns + other]
                                            : costs[static_cast<size_t>(other) * table.columns + k]);
      side.best.push_back(std::min_element(side.costs.begin() + row, side.costs.end()) - side.costs.begin() - row);
    }
    around.sides.push_back(std::move(side));
  }
  return around;
}

// The least that a costs more than b, over all choices of the neighbours; a quick look may say that it is negative.
double least_excess(const Surroundings& around, size_t a, size_t b) {
  double quick = difference(around.own[a], around.own[b]);
  double exact = quick;
  for (const Surroundings::Side& side : around.sides) {
    const size_t column = side.best[a];
    quick += difference(side.costs[a * side.columns + column], side.costs[b * side.columns + column]);
  }
  if (!(quick >= 0)) return -1;
  for (const Surroundings::Side& side : around.sides) {
    double least = kInfinity;
    for (size_t y = 0; y < side.columns; ++y)
      least = std::min(least, difference(side.costs[a * side.columns + y], side.costs[b * side.columns + y]));
    exact += least;
  }
  return exact;
}

// Dead-end elimination (Goldstein, 1994), in each weighting at once, so that limits on some of them lose nothing. All
// variables may be pruned at the same time: a candidate's superior is no worse for any of the neighbours' old ones.
Candidates undominated(const std::vector<Surroundings>& weightings, const Candidates& candidates, Deadline& deadline) {
  std::vector<bool> alive(candidates.size(), true);
  for (size_t a = 0; a < candidates.size() && !deadline.over(); ++a)
    for (size_t b = 0; b < candidates.size() && alive[a]; ++b) {
      if (a == b || !alive[b]) continue;
      const auto no_better = [&](const Surroundings& around) { return least_excess(around, a, b) >= 0; };
      if (std::all_of(weightings.begin(), weightings.end(), no_better)) alive[a] = false;
    }
  Candidates left;
  for (size_t k = 0; k < candidates.size(); ++k)
    if (alive[k]) left.push_back(candidates[k]);
  return left;
}

}  // namespace

Choices Restricted::lift(const Choices& chosen) const {
  Choices lifted(chosen.size());
  for (size_t v = 0; v < chosen.size(); ++v) lifted[v] = keep[v][chosen[v]];
  return lifted;
}

Restricted restrict_candidates(const ChoiceProblem& problem, std::vector<Candidates> keep, Deadline& deadline) {
  ChoiceProblem less(problem.resources());
  less.weights = problem.weights;
  less.limits = problem.limits;
  std::map<Candidates, int> sets;
  std::vector<int> set_of;
  for (const Candidates& left : keep) set_of.push_back(sets.emplace(left, static_cast<int>(sets.size())).first->second);
  std::map<std::array<int, 3>, int> made;
  const auto part = [&](int table, int row_set, const Candidates& rows, int column_set, const Candidates& columns) {
    const auto [it, fresh] = made.emplace(std::array{table, row_set, column_set}, 0);
    if (!fresh) return it->second;
    (void)deadline.over();  // asked only: whoever solves the problem sees it
    const ChoiceTable& whole = problem.tables()[table];
    ChoiceTable cut{static_cast<int>(rows.size()), static_cast<int>(columns.size()), {}};
    for (const std::vector<double>& values : whole.values) {
      std::vector<double>& taken = cut.values.emplace_back();
      if (values.empty()) continue;
      taken.reserve(rows.size() * columns.size());
      for (const int row : rows)
        for (const int column : columns) taken.push_back(values[static_cast<size_t>(row) * whole.columns + column]);
    }
    return it->second = less.add_table(std::move(cut));
  };
  for (int v = 0; v < problem.size(); ++v)
    less.add_variable(part(problem.variables()[v].table, -1, {0}, set_of[v], keep[v]));
  for (const ChoiceProblem::Edge& edge : problem.edges())
    less.add_edge(edge.from, edge.to,
                  part(edge.table, set_of[edge.from], keep[edge.from], set_of[edge.to], keep[edge.to]));
  return {std::move(less), std::move(keep)};
}

Restricted without_dominated(const ChoiceProblem& problem, const Targets& targets, Deadline& deadline) {
  constexpr int kRounds = 4;
  std::vector<std::vector<double>> weightings = targets;
  for (int r = 0; r < problem.resources(); ++r)
    if (problem.limits[r] < kInfinity) weightings.emplace_back(problem.resources(), 0.0)[r] = 1;
  std::vector<Candidates> keep(problem.size());
  for (int v = 0; v < problem.size(); ++v) {
    keep[v].resize(problem.candidates(v));
    std::iota(keep[v].begin(), keep[v].end(), 0);
  }
  bool changed = true;
  for (int round = 0; round < kRounds && changed && !deadline.over(); ++round) {
    std::vector<Candidates> next = keep;
    std::map<Candidates, int> sets;
    std::vector<int> set_of;
    for (const Candidates& left : keep)
      set_of.push_back(sets.emplace(left, static_cast<int>(sets.size())).first->second);
    std::map<std::vector<int>, Candidates> known;  // by what surrounds a variable
    for (int v = 0; v < problem.size() && !deadline.over(); ++v) {
      std::vector<int> key{problem.variables()[v].table, set_of[v]};
      for (const int e : problem.edges_of(v)) {
        const ChoiceProblem::Edge& edge = problem.edges()[e];
        key.insert(key.end(), {edge.table, edge.from == v, set_of[edge.from == v ? edge.to : edge.from]});
      }
      const auto [it, fresh] = known.emplace(std::move(key), Candidates{});
      if (fresh) {
        std::vector<Surroundings> around;
        for (const std::vector<double>& weights : weightings) around.push_back(surroundings(problem, keep, v, weights));
        it->second = undominated(around, keep[v], deadline);
      }
      next[v] = it->second;
    }
    changed = next != keep;
    keep = std::move(next);
  }
  return restrict_candidates(problem, std::move(keep), deadline);
}

}  // namespace ff
