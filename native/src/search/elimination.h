// Bucket elimination (Dechter, 1999): variables are eliminated one after another, each by minimising the sum of all
// factors that have it into a new factor, its message, over its neighbours. The order is a tree decomposition. What is
// done depends only on which tables meet how, so it is planned first, and equal steps are one step.
#pragma once

#include <optional>
#include <span>

#include "base/random.h"
#include "search/choice.h"

namespace ff {

// Sticky: once it is over, it stays so.
class Deadline {
 public:
  explicit Deadline(const SearchBudget& budget);
  bool over();

 private:
  const SearchBudget& budget_;
  double start_, asked_;
  bool over_ = false;
};

// Numbers of a table or of a step's message, over variables: the first one's candidates vary slowest.
struct Factor {
  int content = 0;  // a table of the problem, or after those a step
  std::vector<int> scope;
};

// One minimisation. Axis 0 is of the variable that goes, the others, in order, are the message's.
struct EliminationStep {
  struct Input {
    int content = 0;
    std::vector<int> axes;
  };
  std::vector<Input> inputs;
  std::vector<int64_t> sizes;  // by axis
};

struct EliminationPlan {
  struct Sent {
    int message = 0;
    std::vector<int> inputs;  // of its step: which message each is; -1 for a table
  };
  struct Variable {
    int variable = 0;
    std::vector<Factor> bucket;  // its factors when it goes
    std::vector<Sent> messages;
  };
  std::vector<Variable> order;
  std::vector<EliminationStep> steps;
  std::vector<Factor> messages;
  bool exact = true;     // no bucket had to be split
  bool complete = true;  // time was not over before the end
  double operations = 0, bytes = 0;
};

struct EliminationLimits {
  double operations = 2e10;  // of a step
  double bytes = 512 << 20;  // of all messages
  uint64_t tries = 6;        // of orders, beyond the first, where these are dear
};

// Several orders are tried; the cheapest is returned.
EliminationPlan plan_elimination(const ChoiceProblem& problem, const EliminationLimits& limits, Deadline& deadline);

// The numbers of a plan under weights of resources.
class Messages {
 public:
  // Stops early when the deadline is over: done() tells.
  Messages(const ChoiceProblem& problem, const EliminationPlan& plan, const std::vector<double>& weights,
           Deadline& deadline);
  bool done() const { return done_; }
  // The least cost if the plan is exact, else not more than that.
  double bound() const;
  Choices assignment() const;

 private:
  const ChoiceProblem& problem_;
  const EliminationPlan& plan_;
  std::vector<std::vector<double>> values_;  // by content
  bool done_;
};

// Weights of resources; what is to be minimised is the largest of these sums, most often of a single one.
using Targets = std::vector<std::vector<double>>;

// The optimum within the limits, by messages of Pareto frontiers over (targets, limited totals).
struct Frontier {
  bool found = false;  // an assignment that costs less than `above`
  Choices assignment;
};
struct FrontierOptions {
  double above = std::numeric_limits<double>::infinity();
  int64_t most_points = 1 << 18;  // of all messages; with more, there is no result
  // Frontiers are thinned out to about so many points, by cost under these multipliers of (targets, limited totals).
  // What is found then need not be the optimum. 0: never.
  size_t thin = 0;
  std::vector<double> multipliers{};
};
// Nothing when there are too many points or time is over. The plan is exact.
std::optional<Frontier> pareto_optimum(const ChoiceProblem& problem, const EliminationPlan& plan,
                                       const Targets& targets, const FrontierOptions& options, Deadline& deadline);

// A linear function of multipliers, none of which is negative.
struct Cut {
  double at_zero = 0;
  std::vector<double> slopes;
};
// Where the least of some such functions is highest: the multipliers, with that value at_zero. The first one falls
// along each multiplier.
Cut highest_place(const std::vector<Cut>& cuts);

// A problem with fewer candidates: keep[v] are those of the other problem.
struct Restricted {
  ChoiceProblem problem;
  std::vector<std::vector<int>> keep;
  Choices lift(const Choices& chosen) const;
};
Restricted restrict_candidates(const ChoiceProblem& problem, std::vector<std::vector<int>> keep, Deadline& deadline);
// Without candidates that another one is no worse than, whatever the neighbours do, in each target and limited total.
Restricted without_dominated(const ChoiceProblem& problem, const Targets& targets, Deadline& deadline);

// The best assignment so far: within the limits before not, then by cost of totals.
class Incumbent {
 public:
  using Cost = std::function<double(const std::vector<double>&)>;
  Incumbent(const ChoiceProblem& problem, Cost cost) : problem_(problem), cost_of_(std::move(cost)) {}

  bool offer(const Choices& chosen);  // true when it is the best now
  bool better(const std::vector<double>& totals) const;
  const Choices& assignment() const { return assignment_; }
  const std::vector<double>& totals() const { return totals_; }
  double cost() const { return excess_ > 0 ? std::numeric_limits<double>::infinity() : cost_; }

 private:
  const ChoiceProblem& problem_;
  Cost cost_of_;
  Choices assignment_;
  std::vector<double> totals_;
  double excess_ = std::numeric_limits<double>::infinity(), cost_ = std::numeric_limits<double>::infinity();
};

// Change one variable after the other for the better, until no such change is left (iterated conditional modes).
void descend(const ChoiceProblem& problem, Incumbent& best, Deadline& deadline);

// Large neighbourhood search (Shaw, 1998): again and again, all but a connected part keep their candidates, and that
// part is solved exactly: by frontiers where limits or several targets ask for them and they are small, else under the
// weights.
struct Neighbourhoods {
  Targets targets;
  std::vector<double> weights;
  int64_t rounds = 100;
  double enough = 0;  // a cost that ends it
  uint64_t seed = 0;
};
void improve(const ChoiceProblem& problem, Incumbent& best, const Neighbourhoods& how, Deadline& deadline);

}  // namespace ff
