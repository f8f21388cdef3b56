// Whole searches on small random graphs against an enumerator of its own, which prices every assignment from the
// candidates and the transfers again and knows nothing of the search.
#include <algorithm>
#include <cmath>
#include <random>

#include "check.h"
#include "machines.h"
#include "plans.h"
#include "search/strategies.h"

namespace {

using namespace plans;
using Random = std::mt19937_64;

int below(Random& random, size_t n) { return static_cast<int>(random() % n); }

// Up to eight ops: linears, sums, products and norms on what came before, so with branches and skips.
Classifier drawn(Random& random) {
  Classifier model;
  Graph& graph = model.graph;
  const int64_t batch = 12, width = 24;
  std::vector<Value> values{input(graph, {batch, width})};
  const auto any = [&] { return values[static_cast<size_t>(below(random, values.size()))]; };
  const int ops = 1 + below(random, 7);
  for (int i = 0; i < ops; ++i) switch (below(random, 5)) {
      case 0:
      case 1:
        values.push_back(dense(graph, any(), width, below(random, 2) == 0 ? "relu" : "none"));
        break;
      case 2:
        values.push_back(add(graph, "add", {any(), any()}));
        break;
      case 3:
        values.push_back(add(graph, "multiply", {any(), any()}));
        break;
      default:
        values.push_back(add(graph, "layer_norm", {any()}, {{"axes", std::vector<int64_t>{-1}}}));
    }
  model.spec.output = dense(graph, values.back(), width);
  model.spec.label = input(graph, {batch, width}, "y");
  model.spec.loss = "mean_squared_error";
  model.spec.loss_attrs = complete_attrs(op_def(model.spec.loss), {}, "loss");
  model.spec.optimizer = "sgd";
  model.spec.optimizer_attrs = complete_attrs(op_def("sgd"), {}, "sgd");
  model.spec.metrics = complete_attrs(op_def("metrics"), {}, "metrics");
  return model;
}

// What an assignment costs, op by op and edge by edge.
class Enumerator {
 public:
  Enumerator(const Graph& user, const CandidateMaker& maker, const StrategyProblem& problem, const Transfers& transfers,
             bool larger)
      : larger_(larger) {
    std::vector<int> number(user.size(), -1);
    for (const NodeId op : maker.ops()) {
      const auto v = static_cast<int>(own_.size());
      number[op] = v;
      own_.push_back(problem.candidates(v));
      edges_.emplace_back();
      for (size_t k = 0; k < user.node(op).inputs.size(); ++k) {
        const Value from = user.node(op).inputs[k];
        if (number[from.node] < 0) continue;
        Edge edge{number[from.node], {}};
        for (const Candidate& reader : own_.back()) {
          const Sharding wanted = sharding_of(maker.splitting(op), reader.placement, {false, static_cast<int>(k)});
          for (const Candidate& writer : own_[static_cast<size_t>(edge.from)]) {
            const Sharding made = sharding_of(maker.splitting(from.node), writer.placement, {true, from.index});
            edge.seconds.push_back(transfers.reshard(user.type(from), made, wanted) +
                                   transfers.reshard(user.type(from), dual(wanted), dual(made)));
          }
        }
        edges_.back().push_back(std::move(edge));
      }
    }
  }

  double assignments() const {
    double product = 1;
    for (const Candidates& candidates : own_) product *= static_cast<double>(candidates.size());
    return product;
  }
  double best() {
    best_ = INFINITY;
    chosen_.assign(own_.size(), 0);
    visit(0, 0, 0);
    return best_;
  }

 private:
  struct Edge {
    int from;
    std::vector<double> seconds;  // reader by reader, writer by writer
  };

  void visit(size_t v, double compute, double sync) {
    if (v == own_.size()) {
      best_ = std::min(best_, larger_ ? std::max(compute, sync) : compute + sync);
      return;
    }
    for (size_t c = 0; c < own_[v].size(); ++c) {
      chosen_[v] = c;
      double more = own_[v][c].compute;
      for (const Edge& edge : edges_[v])
        more += edge.seconds[c * own_[static_cast<size_t>(edge.from)].size() + chosen_[static_cast<size_t>(edge.from)]];
      visit(v + 1, compute + more, sync + own_[v][c].sync);
    }
  }

  bool larger_;
  std::vector<Candidates> own_;
  std::vector<std::vector<Edge>> edges_;  // by reader
  std::vector<size_t> chosen_;
  double best_ = 0;
};

TEST(searches_find_the_optimum_of_random_graphs) {
  Random random(20);
  int searched = 0;
  for (int i = 0; searched < 500; ++i) {
    const Classifier model = drawn(random);
    MachineModel machine = machines::of(1 + below(random, 2), 1 + below(random, 2),
                                        std::pow(10.0, 7 + below(random, 4)), std::pow(10.0, 6 + below(random, 4)));
    if (machine.machine.devices.size() < 2) continue;
    machine.overlap = below(random, 2) == 0;
    const Graph step = build_step(model.graph, model.spec, training(), kernel_query());
    const Transfers transfers(machine);
    const machines::Roof costs(1e9, 1e9);
    const CandidateMaker maker(model.graph, step, machine, costs, transfers, {});
    const auto most = static_cast<size_t>(std::pow(3e4, 1.0 / static_cast<double>(maker.ops().size())));
    const CandidateMaker fewer(model.graph, step, machine, costs, transfers, {.most = std::max<size_t>(2, most)});
    const StrategyProblem problem(model.graph, fewer, transfers, machine, {});
    Enumerator enumerator(model.graph, fewer, problem, transfers, machine.overlap);
    CHECK(enumerator.assignments() <= 1e6, enumerator.assignments());
    const ChoiceSolution found = problem.solve({}, {});
    const double optimum = enumerator.best(), seconds = problem.estimate(found.assignment).seconds;
    CHECK(std::abs(seconds - optimum) <= 1e-9 * optimum, i, seconds, optimum);
    CHECK(found.lower_bound <= optimum * (1 + 1e-9), i, found.lower_bound, optimum);
    ++searched;
  }
}

}  // namespace
