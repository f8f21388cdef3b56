// From a graph and a machine to a strategy: every operator's candidates and what resharding between them costs make a
// choice problem, whose answer is a strategy, with a bound on how good any could be.
#pragma once

#include <memory>
#include <vector>

#include "parallel/pcg.h"
#include "search/candidates.h"
#include "search/choice.h"

namespace ff {

struct StrategyEstimate {
  double seconds = 0;  // of a step: of the following, the sum, or the larger where devices move while they compute
  double compute = 0;  // calls, and moves that calls wait for
  double sync = 0;     // sums of gradients
  double memory = 0;   // bytes on a device
};

class StrategyProblem {
 public:
  // seeds: strategies whose placements are to be among the candidates.
  StrategyProblem(const Graph& user, const CandidateMaker& maker, const Transfers& transfers,
                  const MachineModel& machine, const std::vector<Strategy>& seeds);

  const ChoiceProblem& choices() const { return problem_; }
  const Candidates& candidates(int variable) const { return *candidates_[variable]; }
  const std::vector<NodeId>& ops() const { return maker_.ops(); }

  // Of a seed. An op that it does not name gets what is cheapest beside those that it reads.
  Choices assignment_of(const Strategy& strategy) const;
  Strategy strategy_of(const Choices& chosen) const;
  StrategyEstimate estimate(const Choices& chosen) const;
  ChoiceSolution solve(const SolveOptions& options) const;

 private:
  enum Resource { kCompute, kSync, kMemory, kResources };
  struct Edge {
    Value from;
    int to = 0, operand = 0;  // variable, and its input
  };

  void add_variables(const std::vector<Strategy>& seeds);
  void add_edges();
  ChoiceTable resharding(Value from, int variable, int operand) const;

  const Graph& user_;
  const CandidateMaker& maker_;
  const Transfers& transfers_;
  const MachineModel& machine_;
  ChoiceProblem problem_;
  std::vector<int> variable_of_;                               // by node of the user's graph
  std::vector<std::shared_ptr<const Candidates>> candidates_;  // by variable; shared by those of one class
};

}  // namespace ff
