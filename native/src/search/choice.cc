#include "search/choice.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace ff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint64_t hash_of(const ChoiceTable& table) {
  uint64_t hash = static_cast<uint64_t>(table.rows) << 32 | static_cast<uint32_t>(table.columns);
  for (const std::vector<double>& values : table.values) {
    hash = (hash ^ values.size()) * 0x9E3779B97F4A7C15ull;
    for (const double value : values) {
      hash = (hash ^ std::bit_cast<uint64_t>(value + 0.0)) * 0x9E3779B97F4A7C15ull;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

}  // namespace

ChoiceProblem::ChoiceProblem(int resources) : weights(resources, 0.0), limits(resources, kInfinity) {
  FF_CHECK(resources >= 1, resources);
  weights[0] = 1;
}

int ChoiceProblem::add_table(ChoiceTable table) {
  const size_t entries = static_cast<size_t>(table.rows) * static_cast<size_t>(table.columns);
  if (entries == 0 || table.values.size() > weights.size())
    bad_value("a cost table has ", table.rows, " x ", table.columns, " entries of ", table.values.size(),
              " resources; expected at least one entry and at most ", weights.size(), " resources");
  for (std::vector<double>& values : table.values) {
    if (!values.empty() && values.size() != entries)
      bad_value("a cost table of ", table.rows, " x ", table.columns, " entries got ", values.size(), " values");
    for (const double value : values)
      if (std::isnan(value) || value == -kInfinity)
        bad_value("a cost table has the value ", value, "; expected a number, or infinity for what is forbidden");
  }
  table.values.resize(weights.size());
  const uint64_t hash = hash_of(table);
  for (auto [it, end] = known_.equal_range(hash); it != end; ++it)
    if (tables_[it->second] == table) return it->second;
  tables_.push_back(std::move(table));
  const int id = static_cast<int>(tables_.size()) - 1;
  known_.emplace(hash, id);
  return id;
}

int ChoiceProblem::add_variable(int table) {
  FF_CHECK(table >= 0 && table < static_cast<int>(tables_.size()) && tables_[table].rows == 1, table);
  variables_.push_back({table});
  edges_of_.emplace_back();
  return size() - 1;
}

void ChoiceProblem::add_edge(int from, int to, int table) {
  FF_CHECK(from >= 0 && to >= 0 && from < size() && to < size() && from != to, from, " -> ", to);
  FF_CHECK(table >= 0 && table < static_cast<int>(tables_.size()), table);
  const ChoiceTable& costs = tables_[table];
  if (costs.rows != candidates(from) || costs.columns != candidates(to))
    bad_value("the costs between variables ", from, " and ", to, " are ", costs.rows, " x ", costs.columns,
              "; expected ", candidates(from), " x ", candidates(to), ", their numbers of candidates");
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, to, table});
}

std::vector<double> ChoiceProblem::totals(const Choices& chosen) const {
  FF_CHECK(chosen.size() == variables_.size(), chosen.size(), " of ", variables_.size());
  std::vector<double> sums(weights.size(), 0.0);
  for (int v = 0; v < size(); ++v) {
    FF_CHECK(chosen[v] >= 0 && chosen[v] < candidates(v), "variable ", v, ": ", chosen[v], " of ", candidates(v));
    add_costs(sums, tables_[variables_[v].table], 0, chosen[v]);
  }
  for (const Edge& edge : edges_) add_costs(sums, tables_[edge.table], chosen[edge.from], chosen[edge.to]);
  return sums;
}

void add_costs(std::vector<double>& totals, const ChoiceTable& table, int row, int column) {
  for (size_t r = 0; r < totals.size(); ++r)
    if (!table.values[r].empty()) totals[r] += table.values[r][static_cast<size_t>(row) * table.columns + column];
}

std::vector<double> share_of(const ChoiceProblem& problem, const Choices& chosen, int variable) {
  std::vector<double> sums(problem.resources(), 0.0);
  add_costs(sums, problem.tables()[problem.variables()[variable].table], 0, chosen[variable]);
  for (const int e : problem.edges_of(variable)) {
    const ChoiceProblem::Edge& edge = problem.edges()[e];
    add_costs(sums, problem.tables()[edge.table], chosen[edge.from], chosen[edge.to]);
  }
  return sums;
}

double ChoiceProblem::cost(const std::vector<double>& totals) const {
  double sum = 0;
  for (size_t r = 0; r < totals.size(); ++r) {
    if (totals[r] == kInfinity) return kInfinity;
    sum += weights[r] * totals[r];
  }
  return sum;
}

double ChoiceProblem::excess(const std::vector<double>& totals) const {
  double sum = 0;
  for (size_t r = 0; r < totals.size(); ++r)
    if (totals[r] > limits[r]) sum += (totals[r] - limits[r]) / std::max(std::abs(limits[r]), 1e-300);
  return sum;
}

bool ChoiceProblem::limited() const {
  return std::any_of(limits.begin(), limits.end(), [](double limit) { return limit < kInfinity; });
}

std::vector<double> weighted(const ChoiceTable& table, const std::vector<double>& weights) {
  std::vector<double> sums(static_cast<size_t>(table.rows) * static_cast<size_t>(table.columns), 0.0);
  for (size_t r = 0; r < weights.size(); ++r) {
    const std::vector<double>& values = table.values[r];
    for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i] == kInfinity ? kInfinity : weights[r] * values[i];
  }
  return sums;
}

}  // namespace ff
