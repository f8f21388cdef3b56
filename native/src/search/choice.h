// Choosing one candidate for each of many variables at the least total cost, where costs are of candidates and of pairs
// of candidates of neighbours: how every operator is to be split, when resharding costs too. Known as a weighted
// constraint network or pairwise graphical model; the graph may be any.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <vector>

namespace ff {

using Choices = std::vector<int>;  // the candidate of every variable

// Costs of a variable's candidates (one row), or of the pairs of two variables' candidates (row: the first one's).
struct ChoiceTable {
  int rows = 1, columns = 0;
  // By resource, row after row; a resource without values costs nothing. Infinity forbids.
  std::vector<std::vector<double>> values;
  bool operator==(const ChoiceTable&) const = default;
};

class ChoiceProblem {
 public:
  struct Variable {
    int table = 0;
  };
  struct Edge {
    int from = 0, to = 0, table = 0;
  };

  // What is to be minimised is the sum over resources (seconds, bytes, ...) of weight times total. Weights are 1 for
  // the first resource and else 0, limits on totals are infinite, until they are set.
  explicit ChoiceProblem(int resources = 1);

  // Equal tables get one number, however often they come: what is equal is solved once. Throws an Error when the
  // values do not fill the table, or are NaN or minus infinity.
  int add_table(ChoiceTable table);
  int add_variable(int table);
  void add_edge(int from, int to, int table);

  int size() const { return static_cast<int>(variables_.size()); }
  int resources() const { return static_cast<int>(weights.size()); }
  int candidates(int variable) const { return tables_[variables_[variable].table].columns; }
  const std::vector<ChoiceTable>& tables() const { return tables_; }
  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<int>& edges_of(int variable) const { return edges_of_[variable]; }

  std::vector<double> totals(const Choices& chosen) const;  // by resource
  double cost(const std::vector<double>& totals) const;
  double cost(const Choices& chosen) const { return cost(totals(chosen)); }
  // How far totals are over their limits, in parts of these; 0 when all are kept.
  double excess(const std::vector<double>& totals) const;
  bool limited() const;

  std::vector<double> weights;  // none negative
  std::vector<double> limits;

 private:
  std::vector<ChoiceTable> tables_;
  std::multimap<uint64_t, int> known_;  // tables by hash
  std::vector<Variable> variables_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
};

// Add the costs of one pair of candidates to totals; row 0 of the costs of a variable's own.
void add_costs(std::vector<double>& totals, const ChoiceTable& table, int row, int column);

// What one variable and its edges add to the totals.
std::vector<double> share_of(const ChoiceProblem& problem, const Choices& chosen, int variable);

// A table under weights of its resources.
std::vector<double> weighted(const ChoiceTable& table, const std::vector<double>& weights);

// When a search has to end. Seconds are wall time; what an iteration is, each search tells.
struct SearchBudget {
  double seconds = std::numeric_limits<double>::infinity();
  int64_t iterations = 100;
  std::function<bool()> stop{};  // asked about every 10 ms, on the thread that searches; true ends it
};

struct ChoiceSolution {
  Choices assignment;
  std::vector<double> totals;
  double cost = std::numeric_limits<double>::infinity();  // infinite where no assignment within the limits was found
  double lower_bound = -std::numeric_limits<double>::infinity();
  bool exact = false;  // proven, but for rounding, to be the optimum, or that there is none
  // What it took: eliminations, how many of them were different, and additions of one run over those.
  int64_t steps = 0, distinct_steps = 0;
  double operations = 0;
};

struct SolveOptions {
  SearchBudget budget;                // an iteration: a round of improvement, or a step towards the best multipliers
  std::vector<Choices> starts{};      // known assignments: the answer is never worse than the best of them
  double table_bytes = 512 << 20;     // of messages; larger ones are split, and the answer may then be inexact
  double step_operations = 2e10;      // of one elimination, likewise
  double gap = 1e-4;                  // relative to the bound: what is closer is good enough
  int64_t frontier_points = 1 << 18;  // of all Pareto frontiers together; above, limits are met by multipliers alone
  uint64_t seed = 0;
};

// The least cost within the limits, by elimination of variables. Without stop or end of seconds it depends on the
// arguments alone.
ChoiceSolution solve(const ChoiceProblem& problem, const SolveOptions& options = {});

// The least larger of two costs, each with weights of its own, as of computing and communicating at the same time. The
// bound is max over a of min over x of [a first(x) + (1 - a) second(x)], where frontiers do not give the optimum. The
// problem's weights are not used.
ChoiceSolution minimise_larger(const ChoiceProblem& problem, const std::vector<double>& first,
                               const std::vector<double>& second, const SolveOptions& options = {});

// Branch and bound over all assignments. An iteration is a partial assignment that is looked at.
ChoiceSolution branch_and_bound(const ChoiceProblem& problem, const SearchBudget& budget);

}  // namespace ff
