// Bucket elimination over sets of vectors: where totals are limited, a message holds for each choice of the neighbours
// all (costs, limited totals) of which none is better in every part.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "search/elimination.h"

namespace ff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Points lie one after another: their values, and whence each came: the candidate of the variable that went, and which
// point of each input it took.
struct Points {
  std::vector<double> values;
  std::vector<int> origins;
};

class Frontiers {
 public:
  Frontiers(const ChoiceProblem& problem, const EliminationPlan& plan, const Targets& targets,
            const FrontierOptions& options, Deadline& deadline)
      : problem_(problem),
        plan_(plan),
        targets_(targets.size()),
        weightings_(targets),
        limits_(targets.size(), options.above),
        options_(options),
        left_(options.most_points),
        deadline_(deadline) {
    for (int r = 0; r < problem.resources(); ++r)
      if (problem.limits[r] < kInfinity) {
        weightings_.emplace_back(problem.resources(), 0.0)[r] = 1;
        limits_.push_back(problem.limits[r]);
      }
    growing_.assign(weightings_.size(), true);
    contents_.resize(problem.tables().size() + plan.steps.size());
    for (const EliminationPlan::Variable& gone : plan.order)
      for (const Factor& factor : gone.bucket)
        if (is_table(factor.content) && contents_[factor.content].empty()) load(factor.content);
  }

  std::optional<Frontier> run() {
    const size_t tables = problem_.tables().size();
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      if (!eliminate(plan_.steps[s], contents_[tables + s])) return std::nullopt;
    return join();
  }

 private:
  bool is_table(int content) const { return content < static_cast<int>(problem_.tables().size()); }
  size_t width() const { return weightings_.size(); }

  void load(int content) {
    (void)deadline_.over();  // asked only
    const ChoiceTable& table = problem_.tables()[content];
    std::vector<Points>& cells = contents_[content];
    cells.resize(static_cast<size_t>(table.rows) * static_cast<size_t>(table.columns));
    std::vector<std::vector<double>> columns;
    for (size_t w = 0; w < width(); ++w) {
      columns.push_back(weighted(table, weightings_[w]));
      if (*std::min_element(columns[w].begin(), columns[w].end()) < 0) growing_[w] = false;
    }
    for (size_t cell = 0; cell < cells.size(); ++cell) {
      const auto forbidden = [&](const std::vector<double>& column) { return column[cell] == kInfinity; };
      if (std::any_of(columns.begin(), columns.end(), forbidden)) continue;
      for (const std::vector<double>& column : columns) cells[cell].values.push_back(column[cell]);
      cells[cell].origins.push_back(0);
    }
  }

  bool allowed(size_t w, double value) const { return w < targets_ ? value < limits_[w] : value <= limits_[w]; }

  bool too_many(const Points& a, const Points& b) const {
    if (options_.thin > 0) return false;
    return static_cast<int64_t>(a.values.size() / width() * (b.values.size() / width())) > left_;
  }

  // All sums of a point of each of two sets that can still come to something; which one of b goes behind a's origins.
  Points sum(const Points& a, size_t a_width, const Points& b) const {
    Points made;
    const size_t n = width(), of_a = a.values.size() / n, of_b = b.values.size() / n;
    for (size_t i = 0; i < of_a; ++i)
      for (size_t j = 0; j < of_b; ++j) {
        bool good = true;
        for (size_t w = 0; w < n; ++w) {
          const double value = a.values[i * n + w] + b.values[j * n + w];
          made.values.push_back(value);
          good = good && (!growing_[w] || allowed(w, value));
        }
        if (!good) {
          made.values.resize(made.values.size() - n);
          continue;
        }
        made.origins.insert(made.origins.end(), a.origins.begin() + i * a_width, a.origins.begin() + (i + 1) * a_width);
        made.origins.push_back(static_cast<int>(j));
      }
    return made;
  }

  Points pruned(const Points& points, size_t origin_width) const {
    const size_t n = width();
    std::vector<size_t> order(points.values.size() / n);
    std::iota(order.begin(), order.end(), size_t{0});
    // Comparing all with all would take longer than to thin them out, which leaves out most that is dominated.
    if (n > 2 && options_.thin > 0 && order.size() > options_.thin) {
      thin_out(points, order);
      return taken(points, order, origin_width);
    }
    const auto begin = [&](size_t i) { return points.values.begin() + static_cast<int64_t>(i * n); };
    std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
      return std::lexicographical_compare(begin(i), begin(i) + n, begin(j), begin(j) + n);
    });
    std::vector<size_t> best;
    for (const size_t i : order) {
      const auto dominates = [&](size_t other) {
        return std::equal(begin(other), begin(other) + n, begin(i), std::less_equal<>());
      };
      // With a single limit, the last one kept has the least of it.
      if (n == 2 ? !best.empty() && dominates(best.back()) : std::any_of(best.begin(), best.end(), dominates)) continue;
      best.push_back(i);
    }
    if (options_.thin > 0 && best.size() > options_.thin) thin_out(points, best);
    return taken(points, best, origin_width);
  }

  Points taken(const Points& points, const std::vector<size_t>& chosen, size_t origin_width) const {
    const size_t n = width();
    Points kept;
    for (const size_t i : chosen) {
      kept.values.insert(kept.values.end(), points.values.begin() + static_cast<int64_t>(i * n),
                         points.values.begin() + static_cast<int64_t>((i + 1) * n));
      kept.origins.insert(kept.origins.end(), points.origins.begin() + i * origin_width,
                          points.origins.begin() + (i + 1) * origin_width);
    }
    return kept;
  }

  // The best of each cell of a grid over all but the first value, and the least of each of these, so that limits can
  // still be met.
  void thin_out(const Points& points, std::vector<size_t>& chosen) const {
    const size_t n = width();
    const auto value = [&](size_t i, size_t w) { return points.values[i * n + w]; };
    const size_t side =
        static_cast<size_t>(std::pow(static_cast<double>(options_.thin), 1.0 / static_cast<double>(n - 1)));
    std::vector<double> from(n), range(n);
    std::set<size_t> kept;
    for (size_t w = 1; w < n; ++w) {
      const auto less = [&](size_t i, size_t j) { return value(i, w) < value(j, w); };
      const auto [low, high] = std::minmax_element(chosen.begin(), chosen.end(), less);
      from[w] = value(*low, w);
      range[w] = std::max(value(*high, w) - from[w], 1e-300);
      kept.insert(*low);
    }
    constexpr size_t kNone = std::numeric_limits<size_t>::max();
    std::vector<std::pair<double, size_t>> cells(static_cast<size_t>(std::pow(side, n - 1)), {kInfinity, kNone});
    for (const size_t i : chosen) {
      double cost = 0;
      size_t cell = 0;
      for (size_t w = 0; w < n; ++w) cost += options_.multipliers[w] * value(i, w);
      for (size_t w = 1; w < n; ++w)
        cell = cell * side +
               std::min(side - 1, static_cast<size_t>((value(i, w) - from[w]) / range[w] * static_cast<double>(side)));
      cells[cell] = std::min(cells[cell], {cost, i});
    }
    for (const auto& [cost, i] : cells)
      if (i != kNone) kept.insert(i);
    chosen.assign(kept.begin(), kept.end());
  }

  bool eliminate(const EliminationStep& step, std::vector<Points>& cells) {
    const size_t axes = step.sizes.size();
    size_t count = 1;
    for (size_t a = 1; a < axes; ++a) count *= static_cast<size_t>(step.sizes[a]);
    cells.resize(count);
    const size_t origin_width = 1 + step.inputs.size();
    std::vector<int64_t> at(axes, 0);
    for (size_t cell = 0; cell < count; ++cell) {
      size_t rest = cell;
      for (size_t a = axes; a-- > 1; rest /= static_cast<size_t>(step.sizes[a]))
        at[a] = static_cast<int64_t>(rest % static_cast<size_t>(step.sizes[a]));
      Points all;
      for (at[0] = 0; at[0] < step.sizes[0]; ++at[0]) {
        const std::optional<Points> made = of_candidate(step, at);
        if (!made) return false;
        all.values.insert(all.values.end(), made->values.begin(), made->values.end());
        all.origins.insert(all.origins.end(), made->origins.begin(), made->origins.end());
      }
      cells[cell] = pruned(all, origin_width);
      if (options_.thin == 0) left_ -= static_cast<int64_t>(cells[cell].values.size() / width());
      if (left_ < 0) return false;
    }
    return true;
  }

  std::optional<Points> of_candidate(const EliminationStep& step, const std::vector<int64_t>& at) {
    if (deadline_.over()) return std::nullopt;
    Points made{std::vector<double>(width(), 0.0), {static_cast<int>(at[0])}};
    size_t origin_width = 1;
    for (const EliminationStep::Input& input : step.inputs) {
      int64_t cell = 0;
      for (const int axis : input.axes) cell = cell * step.sizes[axis] + at[axis];
      const Points& other = contents_[input.content][static_cast<size_t>(cell)];
      if (too_many(made, other)) return std::nullopt;
      made = sum(made, origin_width, other);
      made = pruned(made, ++origin_width);
    }
    return made;
  }

  // The components' messages together, and the way back.
  std::optional<Frontier> join() {
    Points made{std::vector<double>(width(), 0.0), {}};
    std::vector<int> roots;
    for (size_t m = 0; m < plan_.messages.size(); ++m) {
      if (!plan_.messages[m].scope.empty()) continue;
      const Points& other = contents_[plan_.messages[m].content][0];
      if (too_many(made, other)) return std::nullopt;
      made = pruned(sum(made, roots.size(), other), roots.size() + 1);
      roots.push_back(static_cast<int>(m));
    }
    const size_t n = width();
    double least = kInfinity;
    std::optional<size_t> best;
    for (size_t i = 0; i * n < made.values.size(); ++i) {
      const double* values = made.values.data() + i * n;
      bool good = true;
      for (size_t w = 0; w < n; ++w) good = good && allowed(w, values[w]);
      const double largest = *std::max_element(values, values + targets_);
      if (!good || largest >= least) continue;
      least = largest;
      best = i;
    }
    if (!best) return Frontier{};
    std::vector<int> point(plan_.messages.size(), 0);
    for (size_t r = 0; r < roots.size(); ++r) point[roots[r]] = made.origins[*best * roots.size() + r];
    return Frontier{true, unwound(point)};
  }

  Choices unwound(std::vector<int>& point) const {
    Choices chosen(problem_.size(), 0);
    for (size_t i = plan_.order.size(); i-- > 0;) {
      const EliminationPlan::Variable& gone = plan_.order[i];
      for (const EliminationPlan::Sent& sent : gone.messages) {
        const Factor& message = plan_.messages[sent.message];
        size_t cell = 0;
        for (const int u : message.scope)
          cell = cell * static_cast<size_t>(problem_.candidates(u)) + static_cast<size_t>(chosen[u]);
        const std::vector<int>& origins = contents_[message.content][cell].origins;
        const size_t at = static_cast<size_t>(point[sent.message]) * (1 + sent.inputs.size());
        chosen[gone.variable] = origins[at];
        for (size_t k = 0; k < sent.inputs.size(); ++k)
          if (sent.inputs[k] >= 0) point[sent.inputs[k]] = origins[at + 1 + k];
      }
    }
    return chosen;
  }

  const ChoiceProblem& problem_;
  const EliminationPlan& plan_;
  const size_t targets_;
  std::vector<std::vector<double>> weightings_;  // of the targets, then of what is limited
  std::vector<double> limits_;
  std::vector<bool> growing_;  // no value is negative: what is over its limit stays so
  std::vector<std::vector<Points>> contents_;
  const FrontierOptions& options_;
  int64_t left_;  // points that may still be made
  Deadline& deadline_;
};

}  // namespace

std::optional<Frontier> pareto_optimum(const ChoiceProblem& problem, const EliminationPlan& plan,
                                       const Targets& targets, const FrontierOptions& options, Deadline& deadline) {
  if (!plan.complete) return std::nullopt;
  FF_CHECK(plan.exact, "frontiers need an exact plan");
  return Frontiers(problem, plan, targets, options, deadline).run();
}

}  // namespace ff
