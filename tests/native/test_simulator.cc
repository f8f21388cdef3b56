// The simulator against what can be worked out by hand.
#include <cmath>
#include <numeric>

#include "check.h"
#include "graph/moves.h"
#include "plans.h"
#include "search/simulator.h"

using namespace ff;

namespace {

// Costs by name of the call.
class Given : public Costs {
 public:
  explicit Given(std::map<std::string, double> seconds) : seconds_(std::move(seconds)) {}
  double seconds(const OpCall& call, const Layouts&, int, int) const override {
    const auto it = seconds_.find(call.name);
    return it == seconds_.end() ? 0 : it->second;
  }
  double cold_seconds(const OpCall& call, const Layouts& layouts, int device, int threads) const override {
    return 3 * seconds(call, layouts, device, threads);
  }

 private:
  std::map<std::string, double> seconds_;
};

constexpr double kLatency = 0.25, kBandwidth = 1000;

// Devices without common memory, each with a link to every other.
MachineModel mesh(int devices, double bandwidth = kBandwidth) {
  MachineModel made;
  made.machine.devices.assign(static_cast<size_t>(devices), Device{.kind = "reference"});
  std::vector<Link> links;
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < devices; ++b)
      if (a != b) links.push_back({a, b, kLatency, bandwidth});
  made.network = Network(devices, 0, std::move(links));
  return made;
}

// Devices that each have a link to and from one switch, without latency.
MachineModel star(int devices, double bandwidth = kBandwidth) {
  MachineModel made = mesh(devices);
  std::vector<Link> links;
  for (int d = 0; d < devices; ++d) {
    links.push_back({d, devices, 0, bandwidth});
    links.push_back({devices, d, 0, bandwidth});
  }
  made.network = Network(devices, 1, std::move(links));
  return made;
}

// Plans are written step by step.
class Writer {
 public:
  explicit Writer(const MachineModel& machine) { plan_.machine = machine.machine; }

  BufferId buffer(int device, int64_t numbers, Storage storage = Storage::pinned) {
    Buffer made;
    made.name = cat("b", plan_.buffers.size());
    made.type = {DType::float32, {numbers}};
    made.bytes = made.type.bytes();
    made.device = device;
    made.storage = storage;
    plan_.buffers.push_back(made);
    return static_cast<BufferId>(plan_.buffers.size()) - 1;
  }

  BufferId call(const std::string& name, int device, const std::vector<BufferId>& inputs, int64_t numbers = 1) {
    return add("relu", name, {}, device, inputs, buffer(device, numbers));
  }

  // A part of each input, one after the other, or their sum.
  BufferId move(const std::string& name, int device, const std::vector<BufferId>& inputs, int64_t from, int64_t numbers,
                bool sum = false) {
    const int64_t all = sum ? numbers : numbers * static_cast<int64_t>(inputs.size());
    const Rect target = whole_of({all});
    Moves moves = sum ? Moves(target, "sum") : Moves(target);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t to = sum ? 0 : static_cast<int64_t>(i) * numbers;
      moves.add(static_cast<int>(i), {{to - from}, {numbers + from}}, {{to}, {numbers}});
    }
    return add("move", name, moves.attrs(), device, inputs, buffer(device, all));
  }

  Plan finish() {
    place_buffers(plan_, false);
    add_waits(plan_);
    return plan_;
  }

 private:
  BufferId add(const std::string& op, const std::string& name, Attrs attrs, int device,
               const std::vector<BufferId>& inputs, BufferId output) {
    Step step;
    step.call = {op, name, std::move(attrs), {}, {plan_.buffers[output].type}, {}};
    for (const BufferId id : inputs) step.call.inputs.push_back(plan_.buffers[id].type);
    step.layouts = {std::vector<Layout>(inputs.size()), {{}}};
    step.inputs = inputs;
    step.outputs = {output};
    step.device = device;
    plan_.steps.push_back(std::move(step));
    return output;
  }

  Plan plan_;
};

bool near(double a, double b) { return std::abs(a - b) < 1e-9; }

TEST(a_chain_takes_the_sum_of_its_calls) {
  const MachineModel machine = mesh(1);
  Writer writer(machine);
  BufferId at = writer.buffer(0, 1);
  for (const char* name : {"a", "b", "c"}) at = writer.call(name, 0, {at});
  const Simulated made = simulate(writer.finish(), machine, Given({{"a", 1}, {"b", 2}, {"c", 4}}));
  CHECK(near(made.seconds, 7), made.seconds);
  CHECK(near(made.busy[0], 7));
  CHECK(near(made.steps[2].begin, 3) && near(made.steps[2].end, 7));
}

TEST(a_transfer_takes_latency_and_bytes_by_bandwidth) {
  const MachineModel machine = mesh(2);
  Writer writer(machine);
  const BufferId a = writer.call("a", 0, {writer.buffer(0, 1)}, 100);
  writer.call("b", 1, {writer.move("m", 1, {a}, 0, 100)});
  const Simulated made = simulate(writer.finish(), machine, Given({{"a", 1}, {"b", 2}, {"m", 50}}));
  CHECK(near(made.seconds, 3 + kLatency + 400 / kBandwidth), made.seconds);
  CHECK(near(made.exposed[1], kLatency + 400 / kBandwidth), made.exposed[1]);
  CHECK(made.moved[static_cast<size_t>(MoveKind::replicate)] == 400);
  CHECK(near(std::accumulate(made.link_busy.begin(), made.link_busy.end(), 0.0), 400 / kBandwidth));
}

TEST(two_transfers_over_one_link_take_turns) {
  const MachineModel machine = star(3);
  for (const bool both : {false, true}) {
    Writer writer(machine);
    const BufferId a = writer.buffer(0, 250), b = writer.buffer(1, 250);
    writer.move("m", 2, {a}, 0, 250);
    if (both) writer.move("n", 2, {b}, 0, 250);
    MachineModel other = machine;
    other.overlap = true;
    // They come from two devices, so only the link to the third one is shared.
    CHECK(near(simulate(writer.finish(), other, Given({})).seconds, both ? 2 : 1));
  }
  Writer writer(machine);
  const BufferId a = writer.buffer(0, 250);
  writer.move("m", 1, {a}, 0, 250);
  writer.move("n", 2, {a}, 0, 250);
  CHECK(near(simulate(writer.finish(), machine, Given({})).seconds, 2));
}

// Every device sums its slice of what all have, and gathers all slices.
Plan all_reduce(const MachineModel& machine, int64_t slice) {
  const auto n = static_cast<int>(machine.machine.devices.size());
  Writer writer(machine);
  std::vector<BufferId> partial, sums;
  for (int d = 0; d < n; ++d) partial.push_back(writer.buffer(d, slice * n));
  for (int d = 0; d < n; ++d) sums.push_back(writer.move(cat("sum", d), d, partial, d * slice, slice, true));
  for (int d = 0; d < n; ++d) writer.move(cat("gather", d), d, sums, 0, slice);
  return writer.finish();
}

TEST(an_all_reduce_takes_its_closed_form) {
  for (const int n : {2, 3, 4, 8}) {
    const MachineModel machine = star(n);
    const Plan plan = all_reduce(machine, 1000);
    const double bytes = 4000.0 * n;
    const Simulated made = simulate(plan, machine, Given({}));
    // In each half, a device receives and sends all slices but its own.
    CHECK(near(made.seconds, 2 * (n - 1) * bytes / n / kBandwidth), n, " devices: ", made.seconds);
    CHECK(made.moved[static_cast<size_t>(MoveKind::reduction)] == (n - 1) * bytes);
    CHECK(made.moved[static_cast<size_t>(MoveKind::combine)] == (n - 1) * bytes);
  }
}

TEST(moves_overlap_with_calls_where_the_machine_can) {
  MachineModel machine = mesh(2);
  Writer writer(machine);
  const BufferId x = writer.buffer(1, 1000);
  const BufferId there = writer.move("m", 0, {x}, 0, 1000);
  BufferId at = writer.call("a", 0, {writer.buffer(0, 1)});
  at = writer.call("b", 0, {at});
  writer.call("c", 0, {at, there});
  const Plan plan = writer.finish();
  const Given costs({{"a", 1}, {"b", 1}, {"c", 1}});
  const double transfer = kLatency + 4000 / kBandwidth;
  machine.overlap = true;
  const Simulated beside = simulate(plan, machine, costs);
  machine.overlap = false;
  const Simulated in_turn = simulate(plan, machine, costs);
  CHECK(near(beside.seconds, transfer + 1), beside.seconds);
  CHECK(near(beside.exposed[0], transfer - 2), beside.exposed[0]);
  CHECK(near(beside.busy[0], 3));
  CHECK(near(in_turn.seconds, transfer + 3), in_turn.seconds);
  CHECK(near(in_turn.exposed[0], transfer));
  CHECK(near(in_turn.busy[0], transfer + 3));
}

TEST(a_move_within_one_memory_costs_its_device_a_copy) {
  MachineModel machine = mesh(2);
  machine.overlap = false;
  machine.handoff = 0.125;
  for (Device& device : machine.machine.devices) device.space = 0;
  Writer writer(machine);
  const BufferId a = writer.call("a", 0, {writer.buffer(0, 1)}, 100);
  writer.move("m", 1, {a}, 10, 50);
  const Simulated made = simulate(writer.finish(), machine, Given({{"a", 1}, {"m", 2}}));
  CHECK(near(made.seconds, 1 + 0.125 + 2), made.seconds);
  CHECK(made.transfers.empty());
  CHECK(made.moved[static_cast<size_t>(MoveKind::repartition)] == 200);
}

TEST(calls_that_live_on_memory_slow_each_other_down) {
  MachineModel machine = mesh(2);
  machine.overlap = false;
  machine.contention = 0.5;
  for (Device& device : machine.machine.devices) device.space = 0;
  Writer writer(machine);
  writer.call("a", 0, {writer.buffer(0, 1000)}, 1000);
  writer.call("b", 1, {writer.buffer(1, 1000)}, 1000);
  const Plan plan = writer.finish();
  const Given costs({{"a", 1}, {"b", 2}});
  // All lies in the cache: nothing is in the way.
  machine.cache = 1e6;
  CHECK(near(simulate(plan, machine, costs).seconds, 2));
  // Nothing does: three times as long, and by half as long again while both run.
  machine.cache = 100;
  CHECK(near(simulate(plan, machine, costs).seconds, 1.5 * 3 + 3), simulate(plan, machine, costs).seconds);
}

TEST(faster_links_are_never_slower) {
  for (const int n : {2, 4, 7}) {
    double before = 1e300;
    for (double bandwidth = 100; bandwidth < 1e6; bandwidth *= 1.7) {
      const MachineModel machine = star(n, bandwidth);
      const double seconds = simulate(all_reduce(machine, 333), machine, Given({{"sum0", 1}, {"sum1", 3}})).seconds;
      CHECK(seconds <= before + 1e-12, seconds, " after ", before);
      before = seconds;
    }
  }
}

TEST(the_same_plan_gives_the_same_times) {
  const MachineModel machine = star(5);
  const Plan plan = all_reduce(machine, 77);
  const Simulated a = simulate(plan, machine, Given({{"sum2", 1}})), b = simulate(plan, machine, Given({{"sum2", 1}}));
  CHECK(a.seconds == b.seconds && a.transfers.size() == b.transfers.size());
  for (size_t s = 0; s < a.steps.size(); ++s) CHECK(a.steps[s].begin == b.steps[s].begin);
}

TEST(a_whole_step_runs_to_its_end) {
  plans::Classifier made = plans::classifier();
  const Machine machine{{Device{.kind = "reference"}}};
  const Plan plan = lower(place(build_step(made.graph, made.spec, plans::training(), kernel_query()), {}, machine),
                          machine, kernel_query());
  MachineModel model = mesh(1);
  model.start = 0.5;
  std::map<std::string, double> each;
  for (const Step& step : plan.steps) each[step.call.name] = 1;
  const Simulated simulated = simulate(plan, model, Given(each));
  CHECK(near(simulated.seconds, 0.5 + static_cast<double>(plan.steps.size())), simulated.seconds);
  CHECK(near(simulated.busy[0], static_cast<double>(plan.steps.size())));
  CHECK(simulated.memory[0] == bytes_needed(plan, 0));
}

}  // namespace
