#include "search/strategies.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/parallel.h"

namespace ff {
namespace {

// Which of the different ones each is.
struct Distinct {
  std::vector<Sharding> all;
  std::vector<int> of;

  void add(Sharding sharding) {
    const auto it = std::find(all.begin(), all.end(), sharding);
    of.push_back(static_cast<int>(it - all.begin()));
    if (it == all.end()) all.push_back(std::move(sharding));
  }
};

double smallest_memory(const MachineModel& machine) {
  double least = std::numeric_limits<double>::infinity();
  for (const Device& device : machine.machine.devices)
    if (device.memory > 0) least = std::min(least, static_cast<double>(device.memory));
  return least;
}

}  // namespace

StrategyProblem::StrategyProblem(const Graph& user, const CandidateMaker& maker, const Transfers& transfers,
                                 const MachineModel& machine, const std::vector<Strategy>& seeds)
    : user_(user), maker_(maker), transfers_(transfers), machine_(machine), problem_(kResources) {
  add_variables(seeds);
  add_edges();
  problem_.limits[kMemory] = smallest_memory(machine);
  problem_.weights = {1, 1, 0};
}

void StrategyProblem::add_variables(const std::vector<Strategy>& seeds) {
  variable_of_.assign(user_.size(), -1);
  std::map<std::pair<int, std::vector<int>>, int> known;  // class, and which of all placements are seeds -> variable
  std::vector<Placement> all_seeds;
  for (const NodeId op : maker_.ops()) {
    std::vector<Placement> wanted;
    std::vector<int> numbers;
    for (const Strategy& seed : seeds) {
      const auto it = seed.ops.find(op);
      if (it == seed.ops.end()) continue;
      if (std::find(wanted.begin(), wanted.end(), it->second) == wanted.end()) wanted.push_back(it->second);
      const auto at = std::find(all_seeds.begin(), all_seeds.end(), it->second);
      numbers.push_back(static_cast<int>(at - all_seeds.begin()));
      if (at == all_seeds.end()) all_seeds.push_back(it->second);
    }
    const auto variable = static_cast<int>(candidates_.size());
    variable_of_[op] = variable;
    const auto [it, first] = known.try_emplace({maker_.class_of(op), numbers}, variable);
    if (!first) {
      candidates_.push_back(candidates_[it->second]);
      problem_.add_variable(problem_.variables()[it->second].table);
      continue;
    }
    candidates_.push_back(std::make_shared<const Candidates>(maker_.candidates(op, wanted)));
    const Candidates& candidates = *candidates_.back();
    ChoiceTable table{1, static_cast<int>(candidates.size()), std::vector<std::vector<double>>(kResources)};
    for (const Candidate& candidate : candidates) {
      table.values[kCompute].push_back(candidate.compute);
      table.values[kSync].push_back(candidate.sync);
      table.values[kMemory].push_back(candidate.memory);
    }
    problem_.add_variable(problem_.add_table(std::move(table)));
  }
}

void StrategyProblem::add_edges() {
  std::map<std::tuple<const Candidates*, int, const Candidates*, int>, int> known;  // tables
  for (const NodeId op : maker_.ops()) {
    const int variable = variable_of_[op];
    const Node& node = user_.node(op);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Value input = node.inputs[k];
      const int from = variable_of_[input.node];
      if (from < 0) continue;
      const auto operand = static_cast<int>(k);
      const auto [it, first] =
          known.try_emplace({candidates_[from].get(), input.index, candidates_[variable].get(), operand}, 0);
      if (first) it->second = problem_.add_table(resharding(input, variable, operand));
      problem_.add_edge(from, variable, it->second);
    }
  }
}

// Forward, and back for the gradient.
ChoiceTable StrategyProblem::resharding(Value from, int variable, int operand) const {
  const Candidates& makers = *candidates_[variable_of_[from.node]];
  const Candidates& readers = *candidates_[variable];
  Distinct made, read;
  for (const Candidate& maker : makers)
    made.add(sharding_of(maker_.splitting(from.node), maker.placement, {true, from.index}));
  const NodeId reader_op = maker_.ops()[variable];
  for (const Candidate& reader : readers)
    read.add(sharding_of(maker_.splitting(reader_op), reader.placement, {false, operand}));
  const TensorType& type = user_.type(from);
  const bool back = maker_.trains() && is_float(type.dtype);
  std::vector<double> seconds(made.all.size() * read.all.size());
  parallel_for(static_cast<int64_t>(seconds.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Sharding& a = made.all[static_cast<size_t>(i) / read.all.size()];
      const Sharding& b = read.all[static_cast<size_t>(i) % read.all.size()];
      seconds[static_cast<size_t>(i)] =
          transfers_.reshard(type, a, b) + (back ? transfers_.reshard(type, dual(b), dual(a)) : 0.0);
    }
  });
  ChoiceTable table{static_cast<int>(makers.size()), static_cast<int>(readers.size()),
                    std::vector<std::vector<double>>(kResources)};
  for (const int a : made.of)
    for (const int b : read.of)
      table.values[kCompute].push_back(seconds[static_cast<size_t>(a) * read.all.size() + static_cast<size_t>(b)]);
  return table;
}

Choices StrategyProblem::assignment_of(const Strategy& strategy) const {
  Choices chosen(candidates_.size(), 0);
  for (size_t v = 0; v < chosen.size(); ++v) {
    const NodeId op = maker_.ops()[v];
    const Candidates& candidates = *candidates_[v];
    if (const auto it = strategy.ops.find(op); it != strategy.ops.end()) {
      const auto at = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const Candidate& candidate) { return candidate.placement == it->second; });
      FF_CHECK(at != candidates.end(), user_.node(op).name, ": its placement is of no seed");
      chosen[v] = static_cast<int>(at - candidates.begin());
      continue;
    }
    double least = std::numeric_limits<double>::infinity();
    for (size_t c = 0; c < candidates.size(); ++c) {
      double cost = candidates[c].compute + candidates[c].sync;
      for (const int e : problem_.edges_of(static_cast<int>(v))) {
        const ChoiceProblem::Edge& edge = problem_.edges()[e];
        if (edge.to != static_cast<int>(v)) continue;
        const ChoiceTable& table = problem_.tables()[edge.table];
        cost += table.values[kCompute][static_cast<size_t>(chosen[edge.from]) * table.columns + c];
      }
      if (cost < least) least = cost, chosen[v] = static_cast<int>(c);
    }
  }
  return chosen;
}

Strategy StrategyProblem::strategy_of(const Choices& chosen) const {
  Strategy strategy;
  for (size_t v = 0; v < chosen.size(); ++v)
    strategy.ops[maker_.ops()[v]] = (*candidates_[v])[static_cast<size_t>(chosen[v])].placement;
  return strategy;
}

StrategyEstimate StrategyProblem::estimate(const Choices& chosen) const {
  const std::vector<double> totals = problem_.totals(chosen);
  StrategyEstimate estimate{0, totals[kCompute], totals[kSync], totals[kMemory]};
  estimate.seconds = machine_.overlap ? std::max(estimate.compute, estimate.sync) : estimate.compute + estimate.sync;
  return estimate;
}

ChoiceSolution StrategyProblem::solve(const SolveOptions& options) const {
  return machine_.overlap ? minimise_larger(problem_, {1, 0, 0}, {0, 1, 0}, options) : ff::solve(problem_, options);
}

}  // namespace ff
