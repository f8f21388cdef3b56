#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "search/elimination.h"
#include "search/walk.h"

namespace ff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

AdditiveLandscape::AdditiveLandscape(const ChoiceProblem& problem, std::vector<double> penalties)
    : problem_(problem), penalties_(std::move(penalties)) {
  penalties_.resize(problem.resources(), 0.0);
}

double AdditiveLandscape::start(const Choices& chosen) {
  chosen_ = chosen;
  totals_ = proposed_ = problem_.totals(chosen);
  return value();
}

double AdditiveLandscape::propose(int variable, int candidate) {
  variable_ = variable;
  candidate_ = candidate;
  const int old = chosen_[variable];
  const std::vector<double> before = share_of(problem_, chosen_, variable);
  chosen_[variable] = candidate;
  const std::vector<double> after = share_of(problem_, chosen_, variable);
  // Differences would not lead out of what is forbidden.
  if (std::find(totals_.begin(), totals_.end(), kInfinity) != totals_.end()) {
    proposed_ = problem_.totals(chosen_);
  } else {
    for (size_t r = 0; r < totals_.size(); ++r) proposed_[r] = totals_[r] - before[r] + after[r];
  }
  chosen_[variable] = old;
  return value();
}

void AdditiveLandscape::accept() {
  chosen_[variable_] = candidate_;
  totals_ = proposed_;
}

double AdditiveLandscape::value() const {
  double sum = problem_.cost(proposed_);
  for (size_t r = 0; r < proposed_.size(); ++r)
    if (proposed_[r] > problem_.limits[r]) sum += penalties_[r] * (proposed_[r] - problem_.limits[r]);
  return sum;
}

double CostLandscape::start(const Choices& chosen) {
  chosen_ = chosen;
  return cost_(chosen);
}

double CostLandscape::propose(int variable, int candidate) {
  proposed_ = chosen_;
  proposed_[variable] = candidate;
  return cost_(proposed_);
}

Walked metropolis(const std::vector<int>& candidates, const Choices& start, Landscape& landscape,
                  const WalkOptions& options) {
  FF_CHECK(start.size() == candidates.size(), start.size(), " of ", candidates.size());
  Deadline deadline(options.budget);
  std::vector<int> movable;
  for (size_t v = 0; v < candidates.size(); ++v)
    if (candidates[v] > 1) movable.push_back(static_cast<int>(v));
  Walked best{start, landscape.start(start)};
  const int64_t each = options.budget.iterations / std::max(1, options.restarts);
  const int64_t reset_span = std::clamp<int64_t>(each / 100, 1, 1000);
  for (int restart = 0; restart < options.restarts && !movable.empty(); ++restart) {
    RandomStream random(options.seed, 2, static_cast<uint64_t>(restart));
    Choices current = start, walk_best = start;
    double current_cost = landscape.start(start), walk_best_cost = current_cost;
    for (int64_t i = 0; i < each && !deadline.over(); ++i) {
      if (i % reset_span == 0 && current != walk_best) {
        current = walk_best;
        current_cost = landscape.start(current);
      }
      const auto below = [&](uint64_t element, uint64_t n) {
        return static_cast<int>(random.bits(4 * static_cast<uint64_t>(i) + element) * n >> 32);
      };
      const int v = movable[below(0, movable.size())];
      int k = below(1, static_cast<uint64_t>(candidates[v] - 1));
      if (k >= current[v]) ++k;
      const double cost = landscape.propose(v, k);
      ++best.looked_at;
      const double worse = cost - current_cost;
      if (!(worse < 0) && !(random.uniform(4 * static_cast<uint64_t>(i) + 2) < std::exp(-options.alpha * worse)))
        continue;
      landscape.accept();
      ++best.accepted;
      current[v] = k;
      current_cost = cost;
      if (cost < walk_best_cost) {
        walk_best = current;
        walk_best_cost = cost;
      }
    }
    if (walk_best_cost < best.cost) {
      best.assignment = walk_best;
      best.cost = walk_best_cost;
    }
  }
  return best;
}

}  // namespace ff
