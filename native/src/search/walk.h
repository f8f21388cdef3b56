// Searches that only ask what an assignment costs, as a simulator tells it.
#pragma once

#include "search/choice.h"

namespace ff {

// A cost that a walk changes by one variable at a time.
class Landscape {
 public:
  virtual ~Landscape() = default;
  virtual double start(const Choices& chosen) = 0;
  // The cost after one change of what was last started from or accepted.
  virtual double propose(int variable, int candidate) = 0;
  virtual void accept() = 0;  // the last proposal
};

// The cost of a problem, by differences; totals over their limits cost `penalties` for each unit that they are over.
class AdditiveLandscape final : public Landscape {
 public:
  explicit AdditiveLandscape(const ChoiceProblem& problem, std::vector<double> penalties = {});
  double start(const Choices& chosen) override;
  double propose(int variable, int candidate) override;
  void accept() override;

 private:
  double value() const;

  const ChoiceProblem& problem_;
  std::vector<double> penalties_, totals_, proposed_;
  Choices chosen_;
  int variable_ = 0, candidate_ = 0;
};

// Any function of an assignment.
class CostLandscape final : public Landscape {
 public:
  explicit CostLandscape(std::function<double(const Choices&)> cost) : cost_(std::move(cost)) {}
  double start(const Choices& chosen) override;
  double propose(int variable, int candidate) override;
  void accept() override { chosen_ = proposed_; }

 private:
  std::function<double(const Choices&)> cost_;
  Choices chosen_, proposed_;
};

struct WalkOptions {
  SearchBudget budget;  // an iteration: a proposal
  double alpha = 0.05;  // worse by d is accepted with the probability exp(-alpha d), so it depends on the cost's unit
  int restarts = 1;     // each from the start, with an equal share of the iterations and numbers of its own
  uint64_t seed = 0;
};

struct Walked {
  Choices assignment;
  double cost = std::numeric_limits<double>::infinity();
  int64_t looked_at = 0, accepted = 0;
  bool complete = false;  // all assignments were looked at
};

// Metropolis (1953) as FlexFlow has it: a random variable gets a random other candidate; every hundredth of the budget,
// but at most every 1000 proposals, the walk goes on from the best. Never worse than the start.
Walked metropolis(const std::vector<int>& candidates, const Choices& start, Landscape& landscape,
                  const WalkOptions& options);

// Every assignment, in order; the first of the best.
Walked enumerate(const std::vector<int>& candidates, const std::function<double(const Choices&)>& cost,
                 const SearchBudget& budget);

}  // namespace ff
