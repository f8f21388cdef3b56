#include "engines/tasked.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "engines/plugins.h"
#include "engines/task_graph.h"

namespace ff {
namespace {

// The first error of the tasks of a run; those after it do nothing.
class FirstError {
 public:
  template <class F>
  void guard(F&& body) noexcept {
    if (failed_.load(std::memory_order_acquire)) return;
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
  }

  void rethrow() {
    if (!failed_.exchange(false)) return;
    std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

bool is_spread(const Machine& machine) {
  return std::any_of(machine.devices.begin(), machine.devices.end(),
                     [&](const Device& device) { return device.node != machine.devices[0].node; });
}

// Of all that processes must have in common to run a plan together.
uint64_t digest(const Plan& plan) {
  std::string text = to_string(plan);
  for (const Buffer& buffer : plan.buffers) text += to_string(buffer.initializer);
  return std::hash<std::string>()(text);
}

class TaskedExecutable : public Executable {
 public:
  TaskedExecutable(std::shared_ptr<const Plan> plan, State& state, std::shared_ptr<Arenas> arenas,
                   std::shared_ptr<TaskRuntime> runtime)
      : Executable(std::move(plan)),
        bound_(plan_, state, arenas),
        arenas_(std::move(arenas)),
        runtime_(std::move(runtime)) {
    TaskProgram binding;
    for (size_t d = 0; d < plan_->machine.devices.size(); ++d) binding.tasks.push_back({static_cast<int>(d), {}});
    binding.body = [this](int device, const std::vector<char*>&) {
      error_.guard([&] {
        start_threads(plan_->machine.devices[device].threads);
        bound_.bind(device);
      });
    };
    runtime_->load(std::move(binding))->run();
    error_.rethrow();
  }

  void run(unsigned sections) override {
    if (bound_.resolve()) programs_.clear();
    std::unique_ptr<LoadedTasks>& program = programs_[sections];
    if (program == nullptr) program = load(sections);
    program->run();
    error_.rethrow();
    bound_.count_writes(sections);
  }

  // What another process computed is brought here.
  const void* result(const std::string& name) const override {
    const auto it = plan_->results.find(name);
    if (it == plan_->results.end() || !is_spread(plan_->machine)) return bound_.result(name);
    const Buffer& buffer = plan_->buffers[it->second];
    Memory& brought = results_[name];
    if (brought.data() == nullptr) brought = Memory(buffer.bytes);
    if (const void* here = bound_.result(name)) std::memcpy(brought.data(), here, buffer.bytes);
    runtime_->broadcast(buffer.device, brought.data(), buffer.bytes);
    return brought.data();
  }
  void profile(bool on) override { bound_.profile(on); }
  std::vector<StepTime> times() const override { return bound_.times(); }

 private:
  std::unique_ptr<LoadedTasks> load(unsigned sections) {
    // The plan is the same everywhere, so its tasks are when the same sections of it are wanted.
    if (is_spread(plan_->machine)) require_same(*runtime_, sections, "order of calls");
    TaskGraph graph = tasks_of(*plan_, sections);
    TaskProgram program;
    for (const Area& area : graph.areas) program.memories.push_back(memory_of(area));
    program.tasks = graph.tasks;
    program.body = [this, graph = std::move(graph)](int task, const std::vector<char*>& addresses) {
      error_.guard([&] {
        for (const Import& import : graph.imports[task])
          bound_.read_from(import.step, import.input, addresses[import.use] + import.offset);
        for (const int s : graph.steps[task]) bound_.execute(s);
      });
    };
    return runtime_->load(std::move(program));
  }

  TaskMemory memory_of(const Area& area) const {
    if (area.arena) return {cat("arena of device ", area.id), area.id, arenas_->arena(area.id), plan_->arena[area.id]};
    const Buffer& buffer = plan_->buffers[area.id];
    return {buffer.name, buffer.device, bound_.pointer(area.id), buffer.bytes};
  }

  BoundPlan bound_;
  std::shared_ptr<Arenas> arenas_;
  std::shared_ptr<TaskRuntime> runtime_;
  FirstError error_;
  std::map<unsigned, std::unique_ptr<LoadedTasks>> programs_;  // by sections
  mutable std::map<std::string, Memory> results_;
};

}  // namespace

TaskedEngine::TaskedEngine(std::shared_ptr<TaskRuntime> runtime)
    : runtime_(std::move(runtime)), machine_(runtime_->machine()), arenas_(std::make_shared<Arenas>(machine_)) {}

std::shared_ptr<Processes> TaskedEngine::processes() const { return is_spread(machine_) ? runtime_ : nullptr; }

std::unique_ptr<Executable> TaskedEngine::load(std::shared_ptr<const Plan> plan, State& state) {
  if (is_spread(machine_)) {
    require_same(*runtime_, digest(*plan), "plan");
    std::vector<std::string> names;
    for (const auto& [name, layout] : states_of(*plan)) names.push_back(name);
    state.take_from_first(names);
  }
  return std::make_unique<TaskedExecutable>(std::move(plan), state, arenas_, runtime_);
}

namespace {

const EngineRegistration legion(
    "legion", [](const EngineConfig& config) { return std::make_unique<TaskedEngine>(open_runtime("legion", config)); },
    [] { return has_plugin("legion"); });

}  // namespace

}  // namespace ff
