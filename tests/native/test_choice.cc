// The solver of choices against an enumerator of its own, on random problems; bounds, limits and budgets.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "check.h"
#include "search/choice.h"
#include "search/walk.h"

using namespace ff;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Random = std::mt19937_64;

int below(Random& random, int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); }

// What the enumerator reads: plain tables, none shared with the solver.
struct Raw {
  int resources = 1;
  std::vector<int> candidates;
  std::vector<std::vector<std::vector<double>>> own;  // variable, resource, candidate
  struct Pair {
    int from, to;
    std::vector<std::vector<double>> costs;  // resource, from * candidates of to + to
  };
  std::vector<Pair> pairs;
  std::vector<double> weights, limits;
};

struct Best {
  double cost = kInfinity;
  double larger = kInfinity;  // of the first two resources
};

void enumerate_from(const Raw& raw, size_t v, std::vector<int>& chosen, const std::vector<double>& totals, Best& best) {
  if (v == raw.candidates.size()) {
    double cost = 0;
    bool allowed = true;
    for (int r = 0; r < raw.resources; ++r) {
      allowed = allowed && totals[r] <= raw.limits[r];
      cost += raw.weights[r] == 0 ? 0 : raw.weights[r] * totals[r];
    }
    if (!allowed || totals[0] == kInfinity) return;
    best.cost = std::min(best.cost, cost);
    if (raw.resources > 1) best.larger = std::min(best.larger, std::max(totals[0], totals[1]));
    return;
  }
  std::vector<double> sums(totals.size());
  for (int k = 0; k < raw.candidates[v]; ++k) {
    chosen[v] = k;
    for (int r = 0; r < raw.resources; ++r) {
      sums[r] = totals[r] + raw.own[v][r][k];
      for (const Raw::Pair& pair : raw.pairs)
        if (std::max(pair.from, pair.to) == static_cast<int>(v))
          sums[r] += pair.costs[r][chosen[pair.from] * raw.candidates[pair.to] + chosen[pair.to]];
    }
    enumerate_from(raw, v + 1, chosen, sums, best);
  }
}

Best enumerated(const Raw& raw) {
  Best best;
  std::vector<int> chosen(raw.candidates.size(), 0);
  enumerate_from(raw, 0, chosen, std::vector<double>(raw.resources, 0.0), best);
  return best;
}

std::vector<std::vector<double>> draw_costs(Random& random, int resources, int entries, bool whole, double forbidden) {
  std::vector<std::vector<double>> costs(resources);
  for (std::vector<double>& values : costs)
    for (int i = 0; i < entries; ++i)
      values.push_back(whole ? below(random, 30) : std::uniform_real_distribution<>(0, 1)(random));
  for (int i = 0; i < entries; ++i)
    if (std::uniform_real_distribution<>(0, 1)(random) < forbidden) costs[0][i] = kInfinity;
  return costs;
}

// A chain with branches and skip connections, some of whose parts are equal.
Raw draw(Random& random, int resources, double most, bool whole) {
  Raw raw{.resources = resources, .candidates = {}, .own = {}, .pairs = {}, .weights = {}, .limits = {}};
  const int n = 2 + below(random, 7);
  const double target = std::exp(std::uniform_real_distribution<>(std::log(4), std::log(most))(random));
  double product = 1;
  for (int v = 0; v < n; ++v) {
    const int k = std::clamp(static_cast<int>(std::pow(target / product, 1.0 / (n - v)) + below(random, 3)), 1, 64);
    raw.candidates.push_back(product * k > most ? 1 : k);
    product *= raw.candidates.back();
    raw.own.push_back(draw_costs(random, resources, raw.candidates.back(), whole, 0.05));
    const int twin = below(random, n);
    if (twin < v && raw.candidates[twin] == raw.candidates[v]) raw.own[v] = raw.own[twin];
  }
  const double density = std::uniform_real_distribution<>(0, 1)(random);
  for (int v = 1; v < n; ++v)
    for (int u = 0; u < v; ++u) {
      if (u + 1 != v && std::uniform_real_distribution<>(0, 1)(random) > density) continue;
      const bool turned = below(random, 4) == 0;
      Raw::Pair pair{turned ? v : u, turned ? u : v, {}};
      pair.costs = draw_costs(random, resources, raw.candidates[u] * raw.candidates[v], whole, 0.02);
      for (const Raw::Pair& other : raw.pairs)
        if (raw.candidates[other.from] == raw.candidates[pair.from] &&
            raw.candidates[other.to] == raw.candidates[pair.to] && below(random, 2) == 0)
          pair.costs = other.costs;
      raw.pairs.push_back(std::move(pair));
    }
  raw.weights.assign(resources, 0.0);
  raw.weights[0] = 1;
  raw.limits.assign(resources, kInfinity);
  return raw;
}

ChoiceProblem problem_of(const Raw& raw) {
  ChoiceProblem problem(raw.resources);
  problem.weights = raw.weights;
  problem.limits = raw.limits;
  for (size_t v = 0; v < raw.candidates.size(); ++v)
    problem.add_variable(problem.add_table({1, raw.candidates[v], raw.own[v]}));
  for (const Raw::Pair& pair : raw.pairs)
    problem.add_edge(pair.from, pair.to,
                     problem.add_table({raw.candidates[pair.from], raw.candidates[pair.to], pair.costs}));
  return problem;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool close(double a, double b) { return a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(b)); }

SolveOptions without_frontiers() {
  SolveOptions options;
  options.budget.iterations = 30;
  options.frontier_points = 0;
  return options;
}

TEST(choices_by_elimination_are_the_optimum) {
  Random random(1);
  for (int i = 0; i < check::draws(2000); ++i) {
    const bool whole = i % 4 != 0;  // whole numbers have no rounding
    const Raw raw = draw(random, 1, i % 100 == 0 ? 1e6 : 1e5, whole);
    const ChoiceProblem problem = problem_of(raw);
    const ChoiceSolution found = solve(problem);
    const double best = enumerated(raw).cost;
    CHECK(found.exact && (whole ? found.cost == best : close(found.cost, best)), i, ": ", found.cost, " for ", best);
    CHECK(found.lower_bound == found.cost && (best == kInfinity || problem.cost(found.assignment) == found.cost), i);
    if (i % 10 == 0) {
      const ChoiceSolution searched = branch_and_bound(problem, {.iterations = 10'000'000, .stop = {}});
      CHECK(searched.exact && close(searched.cost, best), i, ": ", searched.cost, " for ", best);
    }
  }
}

TEST(choices_that_do_not_fit_their_tables_are_bounded) {
  Random random(2);
  int exact = 0, optimal = 0;
  const int problems = check::draws(400);
  for (int i = 0; i < problems; ++i) {
    const Raw raw = draw(random, 1, 2e4, true);
    const ChoiceProblem problem = problem_of(raw);
    Choices start;
    for (int v = 0; v < problem.size(); ++v) start.push_back(below(random, problem.candidates(v)));
    SolveOptions options{.budget = {.iterations = 3, .stop = {}}, .starts = {start}};
    options.step_operations = 1 + below(random, 200);
    options.table_bytes = 8 * (1 + below(random, 500));
    const ChoiceSolution found = solve(problem, options);
    const double best = enumerated(raw).cost;
    CHECK(found.lower_bound <= best && found.cost >= best, i, ": ", found.lower_bound, " ", best, " ", found.cost);
    CHECK(found.cost <= problem.cost(start) && (!found.exact || found.cost == best), i, ": ", found.cost);
    exact += found.exact;
    optimal += found.cost == best;
  }
  std::cout << "  of " << problems << " problems " << exact << " exact, " << optimal << " optimal\n";
  CHECK(exact < problems * 7 / 8 && optimal > problems * 7 / 8, exact, " ", optimal);
}

TEST(choices_within_limits) {
  Random random(3);
  int limited = 0, none = 0, by_multipliers = 0, missed = 0;
  const int problems = check::draws(400);
  for (int i = 0; i < problems; ++i) {
    Raw raw = draw(random, 2 + i % 2, 1e4, true);
    const Choices first(raw.candidates.size(), 0);
    const std::vector<double> around = problem_of(raw).totals(first);
    for (int r = 1; r < raw.resources; ++r) raw.limits[r] = std::floor(around[r] * (0.3 + 0.1 * below(random, 10)));
    const ChoiceProblem problem = problem_of(raw);
    const double best = enumerated(raw).cost;
    const ChoiceSolution found = solve(problem);
    CHECK(found.exact && found.cost == best, i, ": ", found.cost, " for ", best);
    CHECK(best == kInfinity || problem.excess(found.totals) == 0, i);
    const ChoiceSolution bounded = branch_and_bound(problem, {.iterations = 10'000'000, .stop = {}});
    CHECK(bounded.exact && bounded.cost == best, i, ": ", bounded.cost, " for ", best);
    // Without frontiers multipliers are left: bounds stay bounds, what is found is within the limits.
    const ChoiceSolution dual = solve(problem, without_frontiers());
    CHECK(dual.lower_bound <= best && dual.cost >= best, i, ": ", dual.lower_bound, " ", best, " ", dual.cost);
    CHECK(dual.cost == kInfinity || problem.excess(dual.totals) == 0, i);
    none += best == kInfinity;
    limited += best < kInfinity && found.cost > enumerated([&] {
                                                  Raw free = raw;
                                                  free.limits.assign(raw.resources, kInfinity);
                                                  return free;
                                                }())
                                                    .cost;
    by_multipliers += best < kInfinity && dual.cost == best;
    missed += best < kInfinity && dual.cost == kInfinity;
  }
  std::cout << "  of " << problems << " problems " << none << " without answer, " << limited << " where limits cost, "
            << by_multipliers << " optima and " << missed << " misses by multipliers alone\n";
  CHECK(limited > problems / 4 && missed <= 4, limited, " ", missed);
}

TEST(choices_of_the_larger_of_two) {
  Random random(4);
  for (int i = 0; i < check::draws(150); ++i) {
    const Raw raw = draw(random, 2, 1e4, true);
    const ChoiceProblem problem = problem_of(raw);
    const ChoiceSolution found = minimise_larger(problem, {1, 0}, {0, 1});
    const double best = enumerated(raw).larger;
    CHECK(found.lower_bound <= best && found.cost >= best, i, ": ", found.lower_bound, " ", best, " ", found.cost);
    CHECK(found.exact && found.cost == best, i, ": ", found.cost, " for ", best);
    const ChoiceSolution dual = minimise_larger(problem, {1, 0}, {0, 1}, without_frontiers());
    CHECK(dual.lower_bound <= best && dual.cost >= best, i, ": ", dual.lower_bound, " ", best, " ", dual.cost);
  }
}

// Layers of `ops` in a chain with a skip connection around each half, all layers alike.
ChoiceProblem layered(int layers, int ops, int candidates, int resources) {
  Random random(5);
  ChoiceProblem problem(resources);
  std::vector<int> own, pair;
  for (int o = 0; o < ops; ++o) {
    own.push_back(problem.add_table({1, candidates, draw_costs(random, resources, candidates, false, 0)}));
    pair.push_back(
        problem.add_table({candidates, candidates, draw_costs(random, resources, candidates * candidates, false, 0)}));
  }
  for (int v = 0; v < layers * ops; ++v) {
    problem.add_variable(own[v % ops]);
    if (v > 0) problem.add_edge(v - 1, v, pair[v % ops]);
    if (v % (ops / 2) == 0 && v >= ops / 2) problem.add_edge(v - ops / 2, v, pair[(v + 1) % ops]);
  }
  return problem;
}

TEST(choices_of_equal_layers_are_made_once) {
  const ChoiceProblem small = layered(8, 12, 40, 1), large = layered(96, 12, 200, 2);
  const ChoiceSolution few = solve(small);
  CHECK(few.exact && few.steps >= 96 && few.distinct_steps < 60, few.distinct_steps, " of ", few.steps);
  ChoiceSolution found;
  const double took = seconds_of([&] { found = solve(large); });
  std::cout << "  96 layers of 12 ops of 200 candidates: " << took << " s, " << found.distinct_steps << " of "
            << found.steps << " steps, " << found.operations << " operations\n";
  CHECK(found.exact && found.distinct_steps < 300, found.distinct_steps, " of ", found.steps);
}

// Multipliers alone let all equal layers choose alike, which is either over the limit or far below it.
TEST(equal_layers_choose_otherwise_to_meet_a_limit) {
  ChoiceProblem problem = layered(24, 6, 30, 2);
  const double most = solve(problem).totals[1];
  std::swap(problem.weights[0], problem.weights[1]);
  const double least = solve(problem).totals[1];
  std::swap(problem.weights[0], problem.weights[1]);
  for (const double part : {0.2, 0.5, 0.8}) {
    problem.limits[1] = least + part * (most - least);
    const ChoiceSolution found = solve(problem);
    CHECK(problem.excess(found.totals) == 0 && found.cost <= 1.01 * found.lower_bound, found.cost, " ",
          found.lower_bound);
    std::cout << "  at " << part << " of the way from the least: " << 100 * (found.cost / found.lower_bound - 1)
              << " % above the bound\n";
    const ChoiceSolution again = solve(problem);
    CHECK(again.assignment == found.assignment && again.lower_bound == found.lower_bound, "not deterministic");
  }
}

TEST(choices_on_a_dense_graph) {
  Random random(6);
  Raw raw{.resources = 1,
          .candidates = std::vector<int>(30, 40),
          .own = {},
          .pairs = {},
          .weights = {1},
          .limits = {kInfinity}};
  for (int v = 0; v < 30; ++v) {
    raw.own.push_back(draw_costs(random, 1, 40, false, 0));
    for (int u = 0; u < v; ++u)
      if (below(random, 2) == 0) raw.pairs.push_back({u, v, draw_costs(random, 1, 1600, false, 0)});
  }
  const ChoiceProblem problem = problem_of(raw);
  const Choices start(30, 7);
  SolveOptions options{
      .budget = {.iterations = 40, .stop = {}}, .starts = {start}, .table_bytes = 1e7, .step_operations = 1e7};
  const ChoiceSolution found = solve(problem, options), again = solve(problem, options);
  CHECK(found.assignment == again.assignment && found.lower_bound == again.lower_bound, "not deterministic");
  CHECK(!found.exact && found.lower_bound > 0 && found.cost < problem.cost(start), found.cost);
  std::cout << "  bound " << found.lower_bound << ", found " << found.cost << ", start " << problem.cost(start) << "\n";
  int asked = 0;
  options.budget = {.iterations = 1'000'000, .stop = [&] { return ++asked > 5; }};
  ChoiceSolution stopped;
  const double took = seconds_of([&] { stopped = solve(problem, options); });
  CHECK(asked == 6 && took < 6 * 0.05, asked, took);
  CHECK(stopped.cost <= problem.cost(start) && stopped.lower_bound <= stopped.cost, stopped.cost);
  options.budget = {.stop = [] { return true; }};
  CHECK(solve(problem, options).cost <= problem.cost(start), "worse than what was given");
}

TEST(walks_are_metropolis) {
  Random random(7);
  int optimal = 0;
  for (int i = 0; i < check::draws(50); ++i) {
    const Raw raw = draw(random, 1, 1e4, true);
    const ChoiceProblem problem = problem_of(raw);
    std::vector<int> candidates = raw.candidates;
    SolveOptions at_once;
    at_once.budget.stop = [] { return true; };
    const Choices start = solve(problem, at_once).assignment;
    AdditiveLandscape additive(problem);
    CostLandscape any([&](const Choices& chosen) { return problem.cost(chosen); });
    const WalkOptions options{.budget = {.iterations = 4000, .stop = {}}, .alpha = 0.2, .restarts = 2, .seed = 9};
    const Walked walked = metropolis(candidates, start, additive, options);
    const Walked same = metropolis(candidates, start, any, options);
    CHECK(walked.assignment == same.assignment && walked.accepted == same.accepted, i, ": by differences or anew");
    CHECK(walked.cost == problem.cost(walked.assignment) && walked.cost <= problem.cost(start), i);
    const double best = enumerated(raw).cost;
    const Walked all = enumerate(candidates, [&](const Choices& chosen) { return problem.cost(chosen); },
                                 {.iterations = 1'000'000, .stop = {}});
    CHECK(all.complete && all.cost == best, i, ": ", all.cost, " for ", best);
    optimal += walked.cost == best;
  }
  CHECK(optimal > check::draws(50) * 4 / 5 - 1, optimal);
}

TEST(choices_refuse_what_does_not_fit) {
  ChoiceProblem problem;
  CHECK_THROWS(problem.add_table({1, 2, {{1.0}}}), "1 x 2 entries got 1 values");
  CHECK_THROWS(problem.add_table({1, 1, {{std::nan("")}}}), "nan");
  const int table = problem.add_table({1, 2, {{1.0, 2.0}}});
  CHECK(problem.add_table({1, 2, {{1.0, 2.0}}}) == table, "equal tables have one number");
  problem.add_variable(table);
  problem.add_variable(table);
  CHECK_THROWS(problem.add_edge(0, 1, table), "are 1 x 2; expected 2 x 2");
}

}  // namespace
