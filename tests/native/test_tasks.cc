// Plans as tasks: a runtime that runs them in any order which their uses of memory allow computes what a plan means.
#include <random>

#include "c_api/objects.h"
#include "check.h"
#include "engines/task_graph.h"
#include "engines/tasked.h"
#include "plans.h"

namespace {

using namespace plans;

bool meet(const Task& a, const Task& b) {
  for (const TaskUse& x : a.uses)
    for (const TaskUse& y : b.uses)
      if (x.memory == y.memory && x.begin < y.end && y.begin < x.end && (x.writes || y.writes)) return true;
  return a.device == b.device;
}

// Runs tasks one by one, in an order drawn anew for each run.
class Shuffled : public LoadedTasks {
 public:
  Shuffled(TaskProgram program, std::mt19937& random) : program_(std::move(program)), random_(random) {}

  void run() override {
    const size_t n = program_.tasks.size();
    std::vector<bool> done(n);
    for (size_t ended = 0; ended < n; ++ended) {
      std::vector<size_t> ready;
      for (size_t t = 0; t < n; ++t)
        if (!done[t] && is_ready(t, done)) ready.push_back(t);
      const size_t task = ready[random_() % ready.size()];
      std::vector<char*> addresses;
      for (const TaskUse& use : program_.tasks[task].uses)
        addresses.push_back(static_cast<char*>(program_.memories[use.memory].data));
      program_.body(static_cast<int>(task), addresses);
      done[task] = true;
    }
  }

 private:
  bool is_ready(size_t task, const std::vector<bool>& done) const {
    for (size_t t = 0; t < task; ++t)
      if (!done[t] && meet(program_.tasks[t], program_.tasks[task])) return false;
    return true;
  }

  TaskProgram program_;
  std::mt19937& random_;
};

class ShuffledRuntime : public TaskRuntime {
 public:
  explicit ShuffledRuntime(Machine machine) : machine_(std::move(machine)) {}
  Machine machine() const override { return machine_; }
  std::string description() const override { return "shuffled"; }
  void broadcast(int, void*, size_t) override {}
  std::unique_ptr<LoadedTasks> load(TaskProgram program) override {
    return std::make_unique<Shuffled>(std::move(program), random_);
  }

 private:
  Machine machine_;
  std::mt19937 random_{1};
};

Strategy split(const Classifier& model, int devices) {
  Strategy strategy;
  strategy.ops[model.graph.find("hidden").node] = {"linear", 0, {Split{.index = "b0", .degree = devices}}};
  strategy.ops[model.graph.find("top").node] = {"linear", 0, {Split{.index = "i", .degree = devices}}};
  return strategy;
}

std::shared_ptr<const Plan> plan_on(const Engine& engine, int devices) {
  Classifier model = classifier();
  model.spec.strategy = split(model, devices);
  const Machine machine = engine.machine();
  Graph graph = build_step(model.graph, model.spec, training(true), kernel_query());
  return std::make_shared<const Plan>(lower(place(std::move(graph), model.spec.strategy, machine), machine,
                                            kernel_query(), {.separate_sections = true}));
}

// What the states hold after some steps, section by section.
std::map<std::string, std::vector<char>> train(Engine& engine, int devices) {
  const auto plan = plan_on(engine, devices);
  State state;
  const auto executable = engine.load(plan, state);
  std::vector<std::pair<std::string, Attrs>> states;
  for (const auto& [name, layout] : states_of(*plan)) states.emplace_back(name, layout.initializer);
  c_api::initialize(state, states, 7);
  for (int step = 0; step < 3; ++step) {
    auto* x = static_cast<float*>(state.find("x")->data());
    for (int i = 0; i < 40; ++i) x[i] = static_cast<float>((i * 7 + step) % 11) / 11;
    for (unsigned section = 0; section < 4; ++section) executable->run(1u << section);
  }
  std::map<std::string, std::vector<char>> values;
  for (const auto& [name, entry] : state.entries()) {
    values[name].resize(entry.type.bytes());
    entry.read(values[name].data());
  }
  return values;
}

TEST(tasks_in_any_order_compute_the_same) {
  for (const bool shared : {true, false})
    for (const int devices : {1, 2, 3}) {
      const auto local = make_engine("local", {.device = "reference", .devices = devices, .shared_memory = shared});
      const auto expected = train(*local, devices);
      for (int trial = 0; trial < 20; ++trial) {
        TaskedEngine tasked(std::make_shared<ShuffledRuntime>(local->machine()));
        CHECK(train(tasked, devices) == expected, devices, " devices, shared: ", shared);
      }
    }
}

TEST(a_device_alone_needs_one_task) {
  const auto local = make_engine("local", {.device = "reference"});
  const TaskGraph graph = tasks_of(*plan_on(*local, 1), ~0u);
  CHECK(graph.tasks.size() == 1 && graph.tasks[0].uses.empty() && graph.areas.empty());
}

TEST(a_missing_use_shows) {
  const auto local = make_engine("local", {.device = "reference", .devices = 2});
  TaskGraph graph = tasks_of(*plan_on(*local, 2), ~0u);
  size_t uses = 0;
  for (const Task& task : graph.tasks) uses += task.uses.size();
  CHECK(graph.tasks.size() > 4 && uses > 8, graph.tasks.size(), " tasks, ", uses, " uses");
}

TEST(an_error_in_a_task_ends_the_run) {
  // The labels stay within range until they do not.
  const auto local = make_engine("local", {.device = "reference", .devices = 2});
  TaskedEngine tasked(std::make_shared<ShuffledRuntime>(local->machine()));
  const auto plan = plan_on(tasked, 2);
  State state;
  const auto executable = tasked.load(plan, state);
  auto* label = static_cast<int32_t*>(state.find("label")->data());
  label[7] = 99;
  CHECK_THROWS(for (unsigned section = 0; section < 2; ++section) executable->run(1u << section), "99");
  label[7] = 1;
  for (unsigned section = 0; section < 4; ++section) executable->run(1u << section);
}

}  // namespace
