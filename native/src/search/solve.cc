// Bounds from below by eliminating variables, assignments from above by all means; limits by Lagrange multipliers.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "search/elimination.h"

namespace ff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Weights = std::vector<double>;

double dot(const Weights& weights, const std::vector<double>& totals) {
  double sum = 0;
  for (size_t r = 0; r < weights.size(); ++r)
    if (weights[r] != 0) sum += weights[r] * totals[r];
  return sum;
}

Weights combination(const Weights& a, double s, const Weights& b) {
  Weights sum = a;
  for (size_t r = 0; r < sum.size(); ++r) sum[r] += s * b[r];
  return sum;
}

constexpr double kRounding = 1e-11;

// A candidate for each variable by its own cost alone.
Choices cheapest_each(const ChoiceProblem& problem) {
  Choices chosen;
  for (const ChoiceProblem::Variable& variable : problem.variables()) {
    const std::vector<double> costs = weighted(problem.tables()[variable.table], problem.weights);
    chosen.push_back(static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin()));
  }
  return chosen;
}

// The sum of every table's least: a bound that is had at once.
double least_of_each(const ChoiceProblem& problem) {
  std::vector<double> least;
  for (const ChoiceTable& table : problem.tables()) {
    const std::vector<double> values = weighted(table, problem.weights);
    least.push_back(*std::min_element(values.begin(), values.end()));
  }
  double sum = 0;
  for (const ChoiceProblem::Variable& variable : problem.variables()) sum += least[variable.table];
  for (const ChoiceProblem::Edge& edge : problem.edges()) sum += least[edge.table];
  return sum;
}

class Search {
 public:
  Search(const ChoiceProblem& problem, const SolveOptions& options, Targets targets)
      : problem_(problem),
        options_(options),
        targets_(std::move(targets)),
        deadline_(options.budget),
        best_(problem, [this](const std::vector<double>& totals) { return largest(totals); }) {
    for (int r = 0; r < problem_.resources(); ++r)
      if (problem_.limits[r] < kInfinity) limited_.push_back(r);
    for (const Choices& start : options.starts) best_.offer(start);
    best_.offer(cheapest_each(problem));
  }

  ChoiceSolution least_cost() {
    raise(least_of_each(problem_));
    prepare();
    Weights weights = problem_.weights;
    const Relaxed free = relax(weights);
    if (free.done) {
      raise(free.value);
      proven_ = plan_.exact && (free.value == kInfinity || problem_.excess(free.totals) == 0);
    }
    if (!proven_ && !limited_.empty()) {
      weights = multipliers();
      if (!proven_) by_frontiers();
    }
    polish(weights);
    return solution();
  }

  ChoiceSolution least_larger() {
    prepare();
    Dual dual{targets_[1], combination(targets_[0], -1, targets_[1]), 0, targets_[1]};
    maximise(dual, 1);
    multipliers_ = {dual.best_s, 1 - dual.best_s};
    if (best_.cost() > bound_) by_frontiers();
    polish(dual.best);
    return solution();
  }

 private:
  struct Relaxed {
    bool done = false;
    double value = -kInfinity;
    std::vector<double> totals;
  };
  // min over x of [base + s direction](x) - s constant, as a function of s; it is concave and below the optimum.
  struct Dual {
    Weights base, direction;
    double constant = 0;
    Weights best;  // the weights of the best bound
    double best_s = 0;
  };
  // What an assignment contributes to it.
  struct Line {
    double s = 0, at_zero = 0, slope = 0;
  };

  double largest(const std::vector<double>& totals) const {
    double most = -kInfinity;
    for (const Weights& target : targets_) most = std::max(most, dot(target, totals));
    return std::find(totals.begin(), totals.end(), kInfinity) == totals.end() ? most : kInfinity;
  }

  void prepare() {
    reduced_.emplace(without_dominated(problem_, targets_, deadline_));
    plan_ = plan_elimination(reduced_->problem, {.operations = options_.step_operations, .bytes = options_.table_bytes},
                             deadline_);
  }

  Relaxed relax(Weights weights) {
    for (double& weight : weights) weight = std::max(weight, 0.0);
    const Messages messages(reduced_->problem, plan_, weights, deadline_);
    if (!messages.done()) return {};
    const Choices chosen = reduced_->lift(messages.assignment());
    best_.offer(chosen);
    met_.emplace(chosen, problem_.totals(chosen));
    return {true, messages.bound(), problem_.totals(chosen)};
  }

  // What rounding may add to a bound is taken off.
  void raise(double bound, double magnitude = 0) {
    bound_ = std::max(bound_, bound - 1e-12 * (std::abs(bound) + magnitude));
    if (bound == kInfinity) bound_ = kInfinity;
  }

  Line line_of(const Dual& dual, double s, const Relaxed& relaxed) const {
    return {s, dot(dual.base, relaxed.totals), dot(dual.direction, relaxed.totals) - dual.constant};
  }

  // Kelley's cutting planes in one dimension: the next place is where the lines of the last two assignments cross.
  // False when time was over, or no place gives a finite value.
  bool maximise(Dual& dual, double last) {
    double best = -kInfinity;
    const auto look = [&](double s, Line& line) {
      const Weights weights = combination(dual.base, s, dual.direction);
      const Relaxed relaxed = relax(weights);
      if (!relaxed.done) return -kInfinity;
      line = line_of(dual, s, relaxed);
      const double value = relaxed.value - s * dual.constant;
      if (!std::isfinite(line.at_zero + line.slope)) return -kInfinity;
      raise(value, std::abs(s * dual.constant));
      if (value > best) {
        best = value;
        dual.best = weights;
        dual.best_s = s;
      }
      return value;
    };
    Line low, high;
    if (look(0, low) == -kInfinity) return false;
    if (low.slope <= 0) return true;
    if (last < kInfinity) {
      if (look(last, high) == -kInfinity) return false;
      if (high.slope >= 0) return true;
    } else {
      const Relaxed relaxed = relax(dual.direction);
      if (!relaxed.done) return false;
      if (relaxed.value > dual.constant + 1e-9 * std::abs(dual.constant)) return none_within_limits();
      high = line_of(dual, last, relaxed);
    }
    for (int64_t i = 0; i < options_.budget.iterations && high.slope <= 0; ++i) {
      const double s = (high.at_zero - low.at_zero) / (low.slope - high.slope);
      if (!(s > low.s && s < high.s)) break;
      const double crossing = low.at_zero + s * low.slope;
      Line line;
      const double value = look(s, line);
      if (value == -kInfinity) return false;
      if (value >= crossing - 1e-12 * std::abs(crossing)) break;
      (line.slope > 0 ? low : high) = line;
    }
    return true;
  }

  bool none_within_limits() {
    bound_ = kInfinity;
    proven_ = true;
    return true;
  }

  double limit_of(const Weights& weights) const {
    double sum = 0;
    for (const int r : limited_) sum += (weights[r] - problem_.weights[r]) * problem_.limits[r];
    return sum;
  }

  // The weights of the Lagrangian dual's best bound.
  Weights multipliers() {
    Weights direction(problem_.resources(), 0.0);
    double constant = 0;
    for (const int r : limited_) {
      direction[r] = problem_.limits[r] == 0 ? 1 : 1 / std::abs(problem_.limits[r]);
      constant += direction[r] * problem_.limits[r];
    }
    Dual dual{problem_.weights, direction, constant, problem_.weights};
    if (!maximise(dual, kInfinity) || proven_ || limited_.size() == 1) return dual.best;
    if (best_.cost() == kInfinity) look_for_feasible(direction);
    return proven_ ? dual.best : climb(dual.best, direction);
  }

  // Several limits: weigh those more that are missed (multiplicative weights), and costs not at all.
  void look_for_feasible(const Weights& direction) {
    constexpr double kRate = 2;
    Weights weights = direction;
    for (int64_t i = 0; i < options_.budget.iterations && best_.cost() == kInfinity; ++i) {
      const Relaxed relaxed = relax(weights);
      if (!relaxed.done) return;
      double allowed = 0, magnitude = 0;
      for (const int r : limited_) {
        allowed += weights[r] * problem_.limits[r];
        magnitude += std::abs(weights[r] * problem_.limits[r]);
      }
      if (relaxed.value > allowed + 1e-9 * magnitude) {
        none_within_limits();
        return;
      }
      for (const int r : limited_)
        weights[r] *= std::exp(std::clamp(kRate * direction[r] * (relaxed.totals[r] - problem_.limits[r]), -1.0, 1.0));
    }
  }

  // Kelley's cutting planes again, in as many dimensions as there are limits.
  Weights climb(Weights weights, const Weights& direction) {
    constexpr double kFar = 1e3, kNear = 1e-5;  // parts of the cost
    for (int64_t i = 0; i < options_.budget.iterations; ++i) {
      double magnitude = 0;
      std::vector<Cut> cuts(1);
      for (const auto& [chosen, totals] : met_) {
        Cut cut{problem_.cost(totals), {}};
        if (cut.at_zero == kInfinity) continue;
        for (const int r : limited_) cut.slopes.push_back(direction[r] * (totals[r] - problem_.limits[r]));
        magnitude = std::max(magnitude, std::abs(cut.at_zero));
        cuts.push_back(std::move(cut));
      }
      cuts[0] = {kFar * magnitude, std::vector<double>(limited_.size(), -1.0)};  // keeps multipliers finite
      const Cut place = highest_place(cuts);
      Weights next = problem_.weights;
      for (size_t l = 0; l < limited_.size(); ++l) next[limited_[l]] += place.slopes[l] * direction[limited_[l]];
      const Relaxed relaxed = relax(next);
      if (!relaxed.done) break;
      const double limit = limit_of(next), value = relaxed.value - limit;
      raise(value, std::abs(limit));
      weights = next;
      if (value >= place.at_zero - kNear * std::abs(place.at_zero)) break;
    }
    return weights;
  }

  void by_frontiers() {
    constexpr double kPerPoint = 2;  // operations that are worth a try
    if (!plan_.exact || plan_.operations > kPerPoint * static_cast<double>(options_.frontier_points)) return;
    const std::optional<Frontier> frontier =
        pareto_optimum(reduced_->problem, plan_, targets_,
                       {.above = best_.cost(), .most_points = options_.frontier_points}, deadline_);
    if (!frontier) return;
    if (frontier->found) best_.offer(reduced_->lift(frontier->assignment));
    proven_ = true;
  }

  // Under multipliers equal layers all choose alike, though some should choose otherwise than others. So the
  // assignments that are best under them are mixed, by frontiers that are thinned out.
  void mix(const Weights& weights) {
    constexpr size_t kMost = 6;
    constexpr double kPairs = 5e7;  // of points: a second or two
    const size_t dimensions = limited_.size() + targets_.size() - 1;
    if (dimensions == 0) return;
    FrontierOptions how;
    how.above = best_.cost();
    how.thin = dimensions == 1 ? 64 : 100;
    how.multipliers = multipliers_;
    for (const int r : limited_) how.multipliers.push_back(weights[r] - problem_.weights[r]);
    for (size_t count = kMost; count > dimensions && !deadline_.over(); --count) {
      const Restricted mixed = restrict_candidates(problem_, met_candidates(weights, count), deadline_);
      const EliminationPlan plan = plan_elimination(mixed.problem, {.operations = 1e5, .tries = 0}, deadline_);
      const double pairs = plan.operations * static_cast<double>(how.thin * how.thin);
      if (!plan.exact || (pairs > kPairs && count > dimensions + 1)) continue;
      const std::optional<Frontier> found = pareto_optimum(mixed.problem, plan, targets_, how, deadline_);
      if (found && found->found) best_.offer(mixed.lift(found->assignment));
      return;
    }
  }

  // Of each variable what the best assignment has, and the `count` that are best under these weights.
  std::vector<std::vector<int>> met_candidates(const Weights& weights, size_t count) const {
    std::vector<std::pair<double, const Choices*>> good;
    for (const auto& [chosen, totals] : met_) good.emplace_back(dot(weights, totals), &chosen);
    std::sort(good.begin(), good.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    good.resize(std::min(good.size(), count));
    std::vector<std::vector<int>> keep;
    for (int v = 0; v < problem_.size(); ++v) {
      std::set<int> some{best_.assignment()[v]};
      for (const auto& [cost, chosen] : good) some.insert((*chosen)[v]);
      keep.emplace_back(some.begin(), some.end());
    }
    return keep;
  }

  void polish(const Weights& weights) {
    if (proven_ || best_.cost() <= bound_) return;
    mix(weights);
    descend(problem_, best_, deadline_);
    const double enough = bound_ + options_.gap * std::abs(bound_);
    improve(problem_, best_, {targets_, weights, options_.budget.iterations, enough, options_.seed}, deadline_);
  }

  ChoiceSolution solution() const {
    ChoiceSolution found;
    found.assignment = best_.assignment();
    found.totals = best_.totals();
    found.cost = best_.cost();
    found.lower_bound = proven_ ? found.cost : std::min(bound_, found.cost);
    found.exact = proven_ || found.cost - bound_ <= kRounding * std::abs(bound_);
    found.steps = static_cast<int64_t>(plan_.messages.size());
    found.distinct_steps = static_cast<int64_t>(plan_.steps.size());
    found.operations = plan_.operations;
    return found;
  }

  const ChoiceProblem& problem_;
  const SolveOptions& options_;
  const Targets targets_;
  Deadline deadline_;
  Incumbent best_;
  std::vector<int> limited_;
  std::optional<Restricted> reduced_;
  EliminationPlan plan_;
  std::map<Choices, std::vector<double>> met_;  // minima under the weights that were tried
  std::vector<double> multipliers_{1};          // of targets
  double bound_ = -kInfinity;
  bool proven_ = false;
};

}  // namespace

ChoiceSolution solve(const ChoiceProblem& problem, const SolveOptions& options) {
  return Search(problem, options, {problem.weights}).least_cost();
}

ChoiceSolution minimise_larger(const ChoiceProblem& problem, const Weights& first, const Weights& second,
                               const SolveOptions& options) {
  return Search(problem, options, {first, second}).least_larger();
}

}  // namespace ff
