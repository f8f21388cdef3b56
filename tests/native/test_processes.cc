// One plan in several processes, here threads that share nothing but what a runtime would send between processes.
#include <barrier>
#include <cstring>
#include <thread>

#include "c_api/objects.h"
#include "check.h"
#include "engines/tasked.h"
#include "plans.h"

namespace {

using namespace plans;

// What the processes reach each other by.
struct Link {
  explicit Link(int processes) : meeting(processes), programs(processes) {}
  std::barrier<> meeting;
  std::vector<const TaskProgram*> programs;
  const void* sent = nullptr;
};

// Task after task, all processes together; what a task uses of another process is copied.
class InStep : public LoadedTasks {
 public:
  InStep(TaskProgram program, Machine machine, Link& link)
      : program_(std::move(program)), machine_(std::move(machine)), link_(link) {}

  void run() override {
    link_.programs[machine_.node] = &program_;
    for (size_t t = 0; t < program_.tasks.size(); ++t) {
      link_.meeting.arrive_and_wait();
      if (machine_.is_here(program_.tasks[t].device)) execute(t);
    }
    link_.meeting.arrive_and_wait();
  }

 private:
  void execute(size_t task) {
    std::vector<std::vector<char>> copies;
    std::vector<char*> addresses;
    for (const TaskUse& use : program_.tasks[task].uses) {
      const TaskMemory& memory = program_.memories[use.memory];
      if (machine_.is_here(memory.device)) {
        addresses.push_back(static_cast<char*>(memory.data));
        continue;
      }
      CHECK(memory.data == nullptr && !use.writes, memory.name);
      const TaskProgram& theirs = *link_.programs[machine_.devices[memory.device].node];
      const auto* data = static_cast<const char*>(theirs.memories[use.memory].data);
      copies.emplace_back(data + use.begin, data + use.end);
      addresses.push_back(copies.back().data() - use.begin);
    }
    program_.body(static_cast<int>(task), addresses);
  }

  TaskProgram program_;
  Machine machine_;
  Link& link_;
};

class Process : public TaskRuntime {
 public:
  Process(Machine machine, Link& link) : machine_(std::move(machine)), link_(link) {}
  Machine machine() const override { return machine_; }
  std::string description() const override { return "in step"; }
  std::unique_ptr<LoadedTasks> load(TaskProgram program) override {
    return std::make_unique<InStep>(std::move(program), machine_, link_);
  }
  void broadcast(int device, void* data, size_t bytes) override {
    if (machine_.is_here(device)) link_.sent = data;
    link_.meeting.arrive_and_wait();
    if (!machine_.is_here(device)) std::memcpy(data, link_.sent, bytes);
    link_.meeting.arrive_and_wait();
  }

 private:
  Machine machine_;
  Link& link_;
};

Machine machine_of(int devices, int processes) {
  Machine machine;
  for (int d = 0; d < devices; ++d) {
    const int node = d * processes / devices;
    machine.devices.push_back(Device{.kind = "reference", .memory = int64_t{1} << 30, .node = node, .space = node});
  }
  return machine;
}

Strategy strategy_of(const Classifier& model, int devices, bool data) {
  Strategy strategy;
  for (const char* name : {"hidden", "top"})
    strategy.ops[model.graph.find(name).node] = {
        "linear", 0, {Split{.index = data ? "b0" : "i", .degree = devices, .stride = 1}}};
  return strategy;
}

using Values = std::map<std::string, std::vector<char>>;

Values train(Engine& engine, bool data) {
  Classifier model = classifier();
  const Machine machine = engine.machine();
  model.spec.strategy = strategy_of(model, static_cast<int>(machine.devices.size()), data);
  Graph graph = build_step(model.graph, model.spec, training(), kernel_query());
  const auto plan = std::make_shared<const Plan>(
      lower(place(std::move(graph), model.spec.strategy, machine), machine, kernel_query()));
  State state;
  state.share(engine.processes());
  std::vector<std::pair<std::string, Attrs>> states;
  for (const auto& [name, layout] : states_of(*plan)) states.emplace_back(name, layout.initializer);
  c_api::initialize(state, states, 7);
  const auto executable = engine.load(plan, state);
  for (int step = 0; step < 3; ++step) {
    auto* x = static_cast<float*>(state.find("x")->data());
    for (int i = 0; i < 40; ++i) x[i] = static_cast<float>((i * 7 + step) % 11) / 11;
    executable->run(~0u);
  }
  Values values;
  for (const auto& [name, entry] : state.entries()) {
    values[name].resize(entry.type.bytes());
    entry.read(values[name].data());
  }
  return values;
}

// In every process, what each ends with.
std::vector<Values> train_in(int processes, int devices, bool data) {
  Link link(processes);
  std::vector<Values> values(processes);
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      Machine machine = machine_of(devices, processes);
      machine.node = p;
      TaskedEngine engine(std::make_shared<Process>(machine, link));
      values[p] = train(engine, data);
    });
  for (std::thread& thread : threads) thread.join();
  return values;
}

TEST(processes_compute_what_one_computes) {
  for (const bool data : {true, false})
    for (const auto& [processes, devices] : {std::pair(2, 2), {2, 3}, {3, 3}, {2, 4}}) {
      const auto local = make_engine("local", {.device = "reference", .devices = devices, .shared_memory = false});
      const Values expected = train(*local, data);
      for (const Values& values : train_in(processes, devices, data))
        CHECK(values == expected, processes, " processes, ", devices, " devices, data parallel: ", data);
    }
}

}  // namespace
