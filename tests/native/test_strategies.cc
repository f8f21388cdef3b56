// The search from a graph to a strategy: what transfers cost in closed form, candidates, and answers no worse than
// those that people start from.
#include <cmath>

#include "check.h"
#include "plans.h"
#include "search/strategies.h"

namespace {

using namespace plans;

// Nodes of devices on a switch each, and the switches on one.
MachineModel machine_of(int nodes, int per_node, double near, double far) {
  const int n = nodes * per_node;
  std::vector<Link> links;
  for (int d = 0; d < n; ++d) {
    links.push_back({d, n + d / per_node, 1e-6, near});
    links.push_back({n + d / per_node, d, 1e-6, near});
  }
  for (int k = 0; k < nodes && nodes > 1; ++k) {
    links.push_back({n + k, n + nodes, 5e-6, far});
    links.push_back({n + nodes, n + k, 5e-6, far});
  }
  MachineModel model;
  for (int d = 0; d < n; ++d) model.machine.devices.push_back({"gpu", 1, int64_t{40} << 30, d / per_node, -1});
  model.rates.assign(static_cast<size_t>(n), {{{DType::float32, 1e14}}, 1.5e12, 5e-6});
  model.network = Network(n, nodes + 1, std::move(links));
  return model;
}

class Roof : public Costs {
 public:
  double seconds(const OpCall& call, const Layouts&, int, int) const override {
    double bytes = 0;
    for (const auto* types : {&call.inputs, &call.outputs})
      for (const TensorType& type : *types)
        if (type.dtype != DType::opaque) bytes += static_cast<double>(type.bytes());
    const OpDef& def = op_def(call.op);
    return std::max((def.flops ? def.flops(call) : 0.0) / 1e14, bytes / 1.5e12) + 5e-6;
  }
};

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

TEST(transfers_in_closed_form) {
  const MachineModel model = machine_of(1, 8, 1e11, 1e10);
  const Transfers transfers(model);
  const TensorType type{DType::float32, {1024, 1024}};
  const double bytes = 4 << 20, latency = 2e-6;
  const Sharding rows{0, {{0, 8, 1}}}, columns{0, {{1, 8, 1}}}, copies{0, {{ShardAxis::kCopies, 8, 1}}},
      terms{0, {{ShardAxis::kPartial, 8, 1}}};
  CHECK(transfers.reshard(type, rows, rows) == 0);
  CHECK(near(transfers.reshard(type, rows, copies), bytes * 7 / 8 / 1e11 + 3 * latency));
  CHECK(near(transfers.reshard(type, rows, columns), bytes / 8 * 7 / 8 / 1e11 + 3 * latency));
  CHECK(near(transfers.reshard(type, terms, rows), bytes * 7 / 8 / 1e11 + 3 * latency));
  CHECK(near(transfers.all_reduce(bytes, terms), 2 * (bytes * 7 / 8 / 1e11 + 3 * latency)));
  CHECK(near(transfers.reshard(type, terms, copies), transfers.all_reduce(bytes, terms)));
  CHECK(transfers.reshard(type, copies, rows) == 0);
}

TEST(sums_go_first_within_nodes) {
  const MachineModel model = machine_of(4, 8, 1e11, 1e10);
  const Transfers transfers(model);
  const double bytes = 1 << 26;
  const Sharding all{0, {{ShardAxis::kPartial, 32, 1}}}, within{0, {{1, 4, 8}, {ShardAxis::kPartial, 8, 1}}},
      between{0, {{ShardAxis::kPartial, 4, 8}, {1, 8, 1}}};
  // Within: seven of eight slices; between: three of four of what is left, all devices of a node on one link.
  const double near_seconds = bytes * 7 / 8 / 1e11 + 3 * 2e-6;
  const double far_seconds = 8 * (bytes / 32) * 3 / 1e10 + 2 * 12e-6;
  CHECK(near(transfers.all_reduce(bytes, all), 2 * (near_seconds + far_seconds)));
  CHECK(near(transfers.all_reduce(bytes, within), 2 * near_seconds));
  CHECK(near(transfers.all_reduce(bytes, between), 2 * (8 * (bytes / 4) * 3 / 1e10 + 2 * 12e-6)));
}

// ---- whole searches ----
struct Searched {
  double seconds, bound, data_parallel;
};

Strategy data_parallel(const Graph& user, const CandidateMaker& maker, int devices) {
  Strategy strategy;
  for (const NodeId op : maker.ops()) {
    const Splitting& splitting = maker.splitting(op);
    Placement placement{user.node(op).op, 0, {}};
    for (size_t i = 0; i < splitting.box().size() && placement.splits.empty(); ++i)
      if (splitting.obstacle(i).empty() && splitting.box()[i].global >= devices &&
          kind_of(splitting, i, user, user.node(op).inputs) == IndexKind::sample)
        placement.splits = {{splitting.box()[i].name, devices, 1}};
    strategy.ops[op] = placement;
  }
  return strategy;
}

Searched search(const Graph& user, const CompileSpec& spec, const MachineModel& model, size_t candidates = 240) {
  const Graph step = build_step(user, spec, training(), kernel_query());
  const Transfers transfers(model);
  const Roof costs;
  const CandidateMaker maker(user, step, model, costs, transfers, {.most = candidates});
  const Strategy seed = data_parallel(user, maker, static_cast<int>(model.machine.devices.size()));
  const StrategyProblem problem(user, maker, transfers, model, {seed});
  const Choices first = problem.assignment_of(seed);
  SolveOptions options;
  options.budget.seconds = 5;
  options.starts = {first};
  const ChoiceSolution solution = problem.solve(options);
  return {problem.estimate(solution.assignment).seconds, solution.lower_bound, problem.estimate(first).seconds};
}

// Blocks of a transformer, as far as matter for the search: linears, a norm, sums around.
Classifier blocks(int layers, int64_t batch, int64_t tokens, int64_t width) {
  Classifier model;
  Graph& graph = model.graph;
  Value x = input(graph, {batch, tokens, width});
  for (int l = 0; l < layers; ++l) {
    const Value norm = add(graph, "layer_norm", {x}, {{"axes", std::vector<int64_t>{-1}}});
    x = add(graph, "add", {x, dense(graph, dense(graph, norm, 4 * width, "relu"), width)});
  }
  model.spec.output = x;
  model.spec.label = input(graph, {batch, tokens, width}, "y");
  model.spec.loss = "mean_squared_error";
  model.spec.loss_attrs = complete_attrs(op_def(model.spec.loss), {}, "loss");
  model.spec.optimizer = "sgd";
  model.spec.optimizer_attrs = complete_attrs(op_def("sgd"), {}, "sgd");
  model.spec.metrics = complete_attrs(op_def("metrics"), {}, "metrics");
  return model;
}

TEST(searches_are_no_worse_than_what_they_start_from) {
  for (const int devices : {2, 4, 8}) {
    const Classifier model = blocks(2, 16, 64, 1024);
    const Searched found = search(model.graph, model.spec, machine_of(1, devices, 1e11, 1e10));
    CHECK(found.seconds <= found.data_parallel * (1 + 1e-12), found.seconds, found.data_parallel);
    CHECK(found.bound <= found.seconds * (1 + 1e-9), found.bound, found.seconds);
  }
}

// Equal layers are solved once.
TEST(searches_for_many_devices_and_layers) {
  const Classifier model = blocks(24, 64, 64, 1024);
  const Searched found = search(model.graph, model.spec, machine_of(8, 4, 3e11, 2e11), 40);
  CHECK(found.seconds <= found.data_parallel * (1 + 1e-12), found.seconds, found.data_parallel);
  CHECK(found.bound <= found.seconds * (1 + 1e-9), found.bound, found.seconds);
}

}  // namespace
