// How each operator of a user's graph may be split on a machine, and what each way costs by itself: its calls forward
// and backward, the sums of its weights' gradients, their updates, and memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "search/costs.h"
#include "search/transfers.h"

namespace ff {

struct CandidateLimits {
  bool sample = true, attribute = true, parameter = true, reduction = true;  // kinds of indices that may be split
  size_t most = 240;                                                         // candidates of an op
};

struct Candidate {
  Placement placement;
  double compute = 0;  // seconds on one of its devices
  double sync = 0;     // seconds of summing up gradients
  double memory = 0;   // bytes on one of its devices
};
using Candidates = std::vector<Candidate>;

class CandidateMaker {
 public:
  // step: the graph of a training step, made from the user's without a strategy.
  CandidateMaker(const Graph& user, const Graph& step, const MachineModel& machine, const Costs& costs,
                 const Transfers& transfers, const CandidateLimits& limits);

  // The ops that are placed, in order: all but inputs, weights and constants.
  const std::vector<NodeId>& ops() const { return ops_; }
  const Splitting& splitting(NodeId op) const { return *splittings_[op]; }
  // Ops of one class have the same candidates at the same costs.
  int class_of(NodeId op) const { return classes_[op]; }
  bool trains() const { return trains_; }

  // Every way to split an op, or the largest ones; seeds: placements that are to be among them.
  Candidates candidates(NodeId op, const std::vector<Placement>& seeds) const;

 private:
  struct Group {
    std::vector<NodeId> calls;                    // of the step graph, made for the op
    std::vector<std::pair<NodeId, int>> weights;  // of the user's graph, that it is the first to read, by operand
    std::vector<NodeId> updates;                  // of these weights
  };

  void make_groups();
  void make_classes();
  std::string description(NodeId op) const;
  std::vector<Placement> placements(NodeId op) const;
  Candidate priced(NodeId op, Placement placement) const;
  double seconds(const OpCall& call, int device) const;

  const Graph& user_;
  const Graph& step_;
  const MachineModel& machine_;
  const Costs& costs_;
  const Transfers& transfers_;
  CandidateLimits limits_;
  bool trains_ = false;
  std::vector<NodeId> ops_;
  std::vector<std::optional<Splitting>> splittings_;       // by node of the user's graph
  std::vector<std::optional<Splitting>> step_splittings_;  // by node of the step graph
  std::vector<Group> groups_;                              // by node of the user's graph
  std::vector<int> classes_;
};

}  // namespace ff
