// Which variables go when, and what the steps are.
#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.h"
#include "search/elimination.h"

namespace ff {
namespace {

enum class Heuristic { least_operations, least_fill };

// One order, greedily. Among equals, those go first whose step has been seen before: repeated layers are then
// eliminated alike, and a chain of equal layers is halved again and again.
class Planner {
 public:
  Planner(const ChoiceProblem& problem, Heuristic heuristic, uint64_t noise, double operations, double entries)
      : problem_(problem), heuristic_(heuristic), noise_(noise), max_operations_(operations), max_entries_(entries) {
    const int n = problem.size();
    factors_of_.resize(n);
    neighbours_.resize(n);
    scores_.assign(n, {-1.0, -1, -1});
    for (int v = 0; v < n; ++v) add_factor({problem.variables()[v].table, {v}}, -1);
    for (const ChoiceProblem::Edge& edge : problem.edges()) add_factor({edge.table, {edge.from, edge.to}}, -1);
  }

  EliminationPlan run(Deadline& deadline) {
    for (int v = 0; v < problem_.size(); ++v) neighbours_[v] = neighbours(v);
    for (int v = 0; v < problem_.size(); ++v) rescore(v);
    while (!queue_.empty()) {
      if (deadline.over()) {
        plan_.complete = plan_.exact = false;
        break;
      }
      const int v = std::get<2>(*queue_.begin());
      queue_.erase(queue_.begin());
      eliminate(v);
    }
    return std::move(plan_);
  }

 private:
  using Score = std::tuple<double, int, int>;  // cost, signature, variable
  struct Minimised {
    EliminationStep step;
    std::vector<int> scope;   // of the message
    std::vector<int> inputs;  // which messages they are
  };

  void add_factor(Factor factor, int message) {
    for (const int v : factor.scope) factors_of_[v].push_back(static_cast<int>(factors_.size()));
    factors_.push_back(std::move(factor));
    message_of_.push_back(message);
  }

  std::vector<int> neighbours(int v) const {
    std::vector<int> found;
    for (const int f : factors_of_[v]) found.insert(found.end(), factors_[f].scope.begin(), factors_[f].scope.end());
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::erase(found, v);
    return found;
  }

  double volume(const std::vector<int>& scope) const {
    double product = 1;
    for (const int v : scope) product *= problem_.candidates(v);
    return product;
  }

  // Edges between neighbours that the message would add, each by the size of its table.
  double fill(int v) const {
    constexpr size_t kMany = 64;  // such a variable goes late anyway
    const std::vector<int>& around = neighbours_[v];
    if (around.size() > kMany) return std::numeric_limits<double>::max();
    double sum = 0;
    for (size_t i = 0; i < around.size(); ++i)
      for (size_t j = i + 1; j < around.size(); ++j)
        if (!std::binary_search(neighbours_[around[i]].begin(), neighbours_[around[i]].end(), around[j]))
          sum += static_cast<double>(problem_.candidates(around[i])) * problem_.candidates(around[j]);
    return sum;
  }

  void rescore(int v) {
    queue_.erase(scores_[v]);
    const double operations = volume(neighbours_[v]) * problem_.candidates(v);
    int signature = std::numeric_limits<int>::max();
    if (operations <= max_operations_)
      signature =
          signatures_.emplace(key_of(step(v, factors_of_[v]).step), static_cast<int>(signatures_.size())).first->second;
    double score = std::log2(operations);
    // A variable without choice costs nothing to remove, whatever its neighbours are.
    if (problem_.candidates(v) == 1)
      score = 0;
    else if (heuristic_ == Heuristic::least_fill)
      score = fill(v);
    if (noise_ != 0) score *= 1 + 0.25 * RandomStream(noise_, 0, 0).uniform(static_cast<uint64_t>(signature));
    scores_[v] = {score, signature, v};
    queue_.insert(scores_[v]);
  }

  // The minimisation over v of the sum of factors, in a form that is the same wherever the same meets.
  Minimised step(int v, std::vector<int> factors) const {
    const auto place = [&](int f) {
      const std::vector<int>& scope = factors_[f].scope;
      return std::find(scope.begin(), scope.end(), v) - scope.begin();
    };
    std::sort(factors.begin(), factors.end(), [&](int f, int g) {
      return std::make_tuple(factors_[f].content, place(f), std::cref(factors_[f].scope)) <
             std::make_tuple(factors_[g].content, place(g), std::cref(factors_[g].scope));
    });
    Minimised made;
    std::vector<int> variables{v};
    for (const int f : factors) {
      EliminationStep::Input input{factors_[f].content, {}};
      for (const int u : factors_[f].scope) {
        const auto it = std::find(variables.begin(), variables.end(), u);
        input.axes.push_back(static_cast<int>(it - variables.begin()));
        if (it == variables.end()) variables.push_back(u);
      }
      made.step.inputs.push_back(std::move(input));
      made.inputs.push_back(message_of_[f]);
    }
    for (const int u : variables) made.step.sizes.push_back(problem_.candidates(u));
    made.scope.assign(variables.begin() + 1, variables.end());
    return made;
  }

  static std::vector<int> key_of(const EliminationStep& step) {
    std::vector<int> key;
    for (const EliminationStep::Input& input : step.inputs) {
      key.push_back(~input.content);
      key.insert(key.end(), input.axes.begin(), input.axes.end());
    }
    return key;
  }

  // Mini-buckets (Dechter and Rish, 2003): a sum that would be too large is minimised in pieces, which cannot give more
  // than the whole. With a single candidate pieces lose nothing.
  std::vector<std::vector<int>> mini_buckets(int v) const {
    std::vector<int> factors = factors_of_[v];
    const bool single = problem_.candidates(v) == 1;
    if (!single && fits(neighbours_[v], v)) return {factors};
    std::stable_sort(factors.begin(), factors.end(),
                     [&](int f, int g) { return volume(factors_[f].scope) > volume(factors_[g].scope); });
    std::vector<std::pair<std::vector<int>, std::set<int>>> pieces;
    for (const int f : factors) {
      const auto joined = [&](std::set<int> scope) {
        scope.insert(factors_[f].scope.begin(), factors_[f].scope.end());
        scope.erase(v);
        return scope;
      };
      const auto good = std::find_if(pieces.begin(), pieces.end(), [&](const auto& piece) {
        const std::set<int> scope = joined(piece.second);
        return !single && fits({scope.begin(), scope.end()}, v);
      });
      if (good == pieces.end()) {
        pieces.push_back({{f}, joined({})});
      } else {
        good->first.push_back(f);
        good->second = joined(good->second);
      }
    }
    std::vector<std::vector<int>> split;
    for (auto& piece : pieces) split.push_back(std::move(piece.first));
    return split;
  }

  bool fits(const std::vector<int>& scope, int v) const {
    const double entries = volume(scope);
    return entries <= max_entries_ && entries * problem_.candidates(v) <= max_operations_;
  }

  void eliminate(int v) {
    EliminationPlan::Variable gone{v, {}, {}};
    for (const int f : factors_of_[v]) gone.bucket.push_back(factors_[f]);
    const std::vector<std::vector<int>> split = mini_buckets(v);
    if (split.size() > 1 && problem_.candidates(v) > 1) plan_.exact = false;
    const std::vector<int> around = neighbours_[v];
    std::vector<Minimised> made;
    for (const std::vector<int>& factors : split) made.push_back(step(v, factors));
    for (const int u : around)
      std::erase_if(factors_of_[u],
                    [&](int f) { return std::binary_search(factors_of_[v].begin(), factors_of_[v].end(), f); });
    for (auto& [minimised, scope, inputs] : made) {
      const auto [it, fresh] = known_.emplace(key_of(minimised), static_cast<int>(plan_.steps.size()));
      if (fresh) {
        plan_.bytes += volume(scope) * sizeof(double);
        plan_.operations += volume(scope) * problem_.candidates(v) * static_cast<double>(minimised.inputs.size());
        plan_.steps.push_back(std::move(minimised));
      }
      const Factor message{static_cast<int>(problem_.tables().size()) + it->second, std::move(scope)};
      const int number = static_cast<int>(plan_.messages.size());
      gone.messages.push_back({number, std::move(inputs)});
      plan_.messages.push_back(message);
      add_factor(message, number);
    }
    plan_.order.push_back(std::move(gone));
    update(around);
  }

  void update(const std::vector<int>& around) {
    std::set<int> touched(around.begin(), around.end());
    for (const int u : around) neighbours_[u] = neighbours(u);
    if (heuristic_ == Heuristic::least_fill)
      for (const int u : around) touched.insert(neighbours_[u].begin(), neighbours_[u].end());
    for (const int u : touched) rescore(u);
  }

  const ChoiceProblem& problem_;
  const Heuristic heuristic_;
  const uint64_t noise_;
  const double max_operations_, max_entries_;
  std::vector<Factor> factors_;
  std::vector<int> message_of_;               // of each factor
  std::vector<std::vector<int>> factors_of_;  // of each variable that is left, in order
  std::vector<std::vector<int>> neighbours_;  // in order
  std::vector<Score> scores_;
  std::set<Score> queue_;
  std::map<std::vector<int>, int> signatures_, known_;
  EliminationPlan plan_;
};

}  // namespace

EliminationPlan plan_elimination(const ChoiceProblem& problem, const EliminationLimits& limits, Deadline& deadline) {
  constexpr double kCheap = 1e8;  // operations that take no longer than another plan
  const double entries = limits.bytes / sizeof(double);
  const auto best_plan = [&](double operations, double most_entries) {
    std::optional<EliminationPlan> best;
    for (uint64_t noise = 0; noise <= limits.tries && (!best || best->operations > kCheap); ++noise)
      for (const Heuristic heuristic : {Heuristic::least_operations, Heuristic::least_fill}) {
        EliminationPlan plan = Planner(problem, heuristic, noise, operations, most_entries).run(deadline);
        const auto rank = [&](const EliminationPlan& p) {
          return std::make_tuple(!p.complete, p.bytes > limits.bytes, !p.exact, p.operations);
        };
        if (!best || rank(plan) < rank(*best)) best = std::move(plan);
      }
    return std::move(*best);
  };
  EliminationPlan plan = best_plan(limits.operations, entries);
  // Many messages, each of which would have been small enough. A message to one neighbour is always had.
  for (double share = 0.25; plan.complete && plan.bytes > limits.bytes && share > 1e-9; share /= 4)
    plan = best_plan(limits.operations * share, entries * share);
  return plan;
}

}  // namespace ff
