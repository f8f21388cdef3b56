// The engine of one process: a plan becomes a queue of bound kernels over resolved pointers for each device, and a
// device is a thread.
#include <pthread.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/limits.h"
#include "base/parallel.h"
#include "engines/bound_plan.h"
#include "engines/local/progress.h"
#include "engines/local/worker.h"

namespace ff::local {
namespace {

constexpr int kMostDevices = 256;
constexpr int kMostThreads = 1024;

std::atomic<int> forks{0};
const int fork_counter = pthread_atfork(nullptr, nullptr, [] { ++forks; });

// The threads that stand for the devices of one engine.
struct Team {
  int threads = 1;  // of a device
  // The thread that calls stands for the first device. In a process that was forked it must not ask libgomp for threads
  // that stayed behind: a thread of our own, born in the child, has a pool of its own. Engines that are made in the
  // child need it as well.
  int forks_seen = 0;
  std::vector<std::unique_ptr<Worker>> workers;  // by device; none: the calling thread

  explicit Team(size_t devices) : workers(devices) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    if (forks_seen != forks) release();
  }

  // Threads of the parent do not exist in a forked child.
  void release() {
    for (auto& worker : workers) (void)worker.release();
  }

  // body(device) on the thread of each device, all at one time; the first error is thrown when all have ended.
  template <class F>
  void on_devices(F&& body) {
    if (forks_seen != forks) {
      release();
      workers[0] = std::make_unique<Worker>();
      forks_seen = forks;
    }
    const auto job = [&](size_t device) { body(static_cast<int>(device)); };
    for (size_t d = 1; d < workers.size(); ++d) {
      if (workers[d] == nullptr) workers[d] = std::make_unique<Worker>();
      workers[d]->start([&job, d] { job(d); });
    }
    std::exception_ptr error;
    const auto attempt = [&](auto&& call) {
      try {
        call();
      } catch (...) {
        if (error == nullptr) error = std::current_exception();
      }
    };
    if (workers[0] != nullptr) {
      workers[0]->start([&job] { job(0); });
      attempt([&] { workers[0]->finish(); });
    } else {
      // The calling thread keeps the number of threads that it had.
      const int before = thread_count();
      attempt([&] { job(0); });
      set_thread_count(before);
    }
    for (size_t d = 1; d < workers.size(); ++d) attempt([&] { workers[d]->finish(); });
    if (error != nullptr) std::rethrow_exception(error);
  }
};

class LocalExecutable : public Executable {
 public:
  LocalExecutable(std::shared_ptr<const Plan> plan, State& state, std::shared_ptr<Arenas> arenas,
                  std::shared_ptr<Team> team)
      : Executable(std::move(plan)),
        bound_(plan_, state, std::move(arenas)),
        team_(std::move(team)),
        queues_(plan_->machine.devices.size()) {
    for (size_t s = 0; s < plan_->steps.size(); ++s) queues_[plan_->steps[s].device].push_back(static_cast<int>(s));
    team_->on_devices([&](int device) {
      start_threads(team_->threads);
      bound_.bind(device);
    });
    bound_.resolve();
  }

  void run(unsigned sections) override {
    bound_.resolve();
    progress_.begin(queues_.size());
    team_->on_devices([&](int device) { run_queue(device, sections); });
    bound_.count_writes(sections);
  }

  const void* result(const std::string& name) const override { return bound_.result(name); }
  void profile(bool on) override { bound_.profile(on); }
  std::vector<StepTime> times() const override { return bound_.times(); }

 private:
  void run_queue(int device, unsigned sections) {
    try {
      for (const int s : queues_[device]) {
        const Step& step = plan_->steps[s];
        if (!BoundPlan::runs(step, sections)) continue;
        for (const Wait& wait : step.waits)
          if (BoundPlan::runs(plan_->steps[wait.step], sections) && !progress_.await(wait.device, wait.step)) return;
        bound_.execute(s);
        if (queues_.size() > 1) progress_.ended(device, s);
      }
    } catch (...) {
      progress_.fail();
      throw;
    }
  }

  BoundPlan bound_;
  std::shared_ptr<Team> team_;
  std::vector<std::vector<int>> queues_;  // by device: its steps
  Progress progress_;
};

class LocalEngine : public Engine {
 public:
  explicit LocalEngine(const EngineConfig& config) : config_(config) {
    if (config.device != "cpu" && config.device != "reference")
      bad_value("engine \"local\" has no devices of kind \"", config.device, "\"; expected \"cpu\" or \"reference\"");
    if (config.devices < 1 || config.devices > kMostDevices)
      bad_value("engine \"local\" got devices = ", config.devices, "; expected 1 to ", kMostDevices);
    if (config.threads < 0 || config.threads > kMostThreads)
      bad_value("engine \"local\" got threads = ", config.threads, "; expected 0 (all cores) to ", kMostThreads);
    team_ = std::make_shared<Team>(static_cast<size_t>(config.devices));
    const int even = std::max(1, usable_cores() / config.devices);
    team_->threads = usable_threads(config.threads > 0 ? config.threads : even);
    arenas_ = std::make_shared<Arenas>(machine());
  }

  Machine machine() const override {
    const Device device{.kind = config_.device,
                        .threads = team_->threads,
                        .memory = memory_limit() / config_.devices,
                        .node = 0,
                        .space = config_.shared_memory ? 0 : -1};
    return {std::vector<Device>(static_cast<size_t>(config_.devices), device)};
  }

  std::unique_ptr<Executable> load(std::shared_ptr<const Plan> plan, State& state) override {
    return std::make_unique<LocalExecutable>(std::move(plan), state, arenas_, team_);
  }

 private:
  EngineConfig config_;
  std::shared_ptr<Arenas> arenas_;
  std::shared_ptr<Team> team_;
};

const EngineRegistration registration("local",
                                      [](const EngineConfig& config) { return std::make_unique<LocalEngine>(config); });

}  // namespace
}  // namespace ff::local
