// The engine of one process: a plan becomes a queue of bound kernels over resolved pointers for each device, and a
// device is a thread.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/parallel.h"
#include "engines/engine.h"
#include "engines/local/progress.h"
#include "engines/local/worker.h"
#include "kernels/kernel.h"

namespace ff::local {
namespace {

constexpr int kMostDevices = 256;
constexpr int kMostThreads = 1024;

std::atomic<int> forks{0};
const int fork_counter = pthread_atfork(nullptr, nullptr, [] { ++forks; });

// Bytes that this process may have: the machine's, or what its control group allows.
int64_t memory_limit() {
  int64_t limit = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t group = 0;
    if (std::ifstream(path) >> group && group > 0) limit = std::min(limit, group);
  }
  return limit;
}

// Memory that the plans of one engine take turns to use, and the threads that stand for its devices.
struct Shared {
  std::vector<Memory> arenas, scratches;  // by device
  uint64_t generation = 1;
  int threads = 1;  // of a device
  // The thread that calls stands for the first device. In a process that was forked it must not ask libgomp for threads
  // that stayed behind: a thread of our own, born in the child, has a pool of its own. Engines that are made in the
  // child need it as well.
  int forks_seen = 0;
  std::vector<std::unique_ptr<Worker>> workers;  // by device; none: the calling thread

  explicit Shared(size_t devices) : arenas(devices), scratches(devices), workers(devices) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    if (forks_seen != forks) release();
  }

  // Threads of the parent do not exist in a forked child.
  void release() {
    for (auto& worker : workers) (void)worker.release();
  }

  void reserve(const std::vector<size_t>& arena_bytes, const std::vector<size_t>& scratch_bytes) {
    const auto grow = [&](Memory& memory, size_t bytes) {
      if (memory.data() != nullptr && memory.size() >= bytes) return;
      memory = Memory(bytes);
      ++generation;
    };
    for (size_t d = 0; d < arenas.size(); ++d) {
      grow(arenas[d], arena_bytes[d]);
      grow(scratches[d], scratch_bytes[d]);
    }
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
  LocalExecutable(std::shared_ptr<const Plan> plan, State& state, std::shared_ptr<Shared> shared)
      : Executable(std::move(plan)), state_(state), shared_(std::move(shared)), queues_(plan_->machine.devices.size()) {
    for (const Buffer& buffer : plan_->buffers)
      if (buffer.alias < 0 && buffer.storage == Storage::input) state_.entry(buffer.name, buffer.type);
    for (const auto& [name, layout] : states_of(*plan_)) state_.entry(name, layout.type, layout.shards);
    shared_->reserve(plan_->arena, plan_->scratch);
    pinned_.resize(plan_->buffers.size());
    for (size_t id = 0; id < plan_->buffers.size(); ++id) {
      const Buffer& buffer = plan_->buffers[id];
      if (buffer.alias < 0 && buffer.storage == Storage::pinned) pinned_[id] = Memory(buffer.bytes);
    }
    shared_->on_devices([&](int device) {
      start_threads(shared_->threads);
      bind(device);
    });
    resolve();
  }

  void run(unsigned sections) override {
    if (state_generation_ != state_.generation() || shared_generation_ != shared_->generation) resolve();
    progress_.begin(queues_.size());
    shared_->on_devices([&](int device) { run_queue(device, sections); });
    for (const auto& [section, entry] : written_) {
      if ((sections >> static_cast<unsigned>(section) & 1u) == 0) continue;
      ++entry->version;
      entry->ready = entry->touched = true;
    }
  }

  const void* result(const std::string& name) const override {
    const auto it = plan_->results.find(name);
    return it == plan_->results.end() ? nullptr : pointers_[it->second];
  }

  void profile(bool on) override {
    profiling_ = on;
    for (auto& queue : queues_)
      for (Bound& bound : queue) {
        bound.runs = 0;
        bound.seconds = 0;
      }
  }

  std::vector<StepTime> times() const override {
    std::vector<StepTime> out;
    for (const auto& queue : queues_)
      for (const Bound& bound : queue)
        out.push_back({bound.step->call.op, bound.step->call.name, bound.runs, bound.seconds});
    return out;
  }

 private:
  struct Bound {
    const Step* step;
    int number;  // in the plan
    std::unique_ptr<Kernel> kernel;
    std::vector<const void*> in;
    std::vector<void*> out;
    State::Entry* fresh_with = nullptr;
    uint64_t seen_version = ~uint64_t{0};
    int64_t runs = 0;
    double seconds = 0;
  };

  void bind(int device) {
    for (size_t s = 0; s < plan_->steps.size(); ++s) {
      const Step& step = plan_->steps[s];
      if (step.device != device) continue;
      set_thread_count(step.threads);
      Bound bound{.step = &step,
                  .number = static_cast<int>(s),
                  .kernel = bind_kernel({step.call, step.layouts, step.threads}, plan_->machine.devices[device].kind),
                  .in = {},
                  .out = {}};
      bound.in.resize(step.inputs.size());
      bound.out.resize(step.outputs.size());
      queues_[device].push_back(std::move(bound));
    }
  }

  void* memory_of(BufferId root) {
    const Buffer& buffer = plan_->buffers[root];
    switch (buffer.storage) {
      case Storage::state:
        return state_.find(buffer.name)->piece({buffer.piece, buffer.device});
      case Storage::input: {
        State::Entry* entry = state_.find(buffer.name);  // of another batch size, perhaps: its memory is what counts
        return entry != nullptr ? entry->data() : state_.entry(buffer.name, buffer.type).data();
      }
      case Storage::pinned:
        return pinned_[root].data();
      default:
        return static_cast<char*>(shared_->arenas[buffer.device].data()) + buffer.offset;
    }
  }

  void resolve() {
    // Another plan may have wanted the states in other pieces.
    for (const auto& [name, layout] : states_of(*plan_)) state_.entry(name, layout.type, layout.shards);
    pointers_.resize(plan_->buffers.size());
    for (BufferId id = 0; id < static_cast<BufferId>(pointers_.size()); ++id) {
      const Plan::Span span = plan_->span(id);
      pointers_[id] = static_cast<char*>(memory_of(span.root)) + span.begin;
    }
    written_.clear();
    for (auto& queue : queues_)
      for (Bound& bound : queue) resolve(bound);
    state_generation_ = state_.generation();
    shared_generation_ = shared_->generation;
  }

  void resolve(Bound& bound) {
    for (size_t i = 0; i < bound.in.size(); ++i) bound.in[i] = pointers_[bound.step->inputs[i]];
    for (size_t k = 0; k < bound.out.size(); ++k) {
      const BufferId root = plan_->root(bound.step->outputs[k]);
      bound.out[k] = pointers_[bound.step->outputs[k]];
      if (plan_->buffers[root].storage == Storage::state)
        written_.emplace(bound.step->section, state_.find(plan_->buffers[root].name));
    }
    if (bound.step->fresh_with >= 0) bound.fresh_with = state_.find(plan_->buffers[bound.step->fresh_with].name);
    bound.seen_version = ~uint64_t{0};
  }

  void run_queue(int device, unsigned sections) {
    const auto runs = [&](const Step& step) { return (sections >> static_cast<unsigned>(step.section) & 1u) != 0; };
    try {
      for (Bound& bound : queues_[device]) {
        if (!runs(*bound.step)) continue;
        for (const Wait& wait : bound.step->waits)
          if (runs(plan_->steps[wait.step]) && !progress_.await(wait.device, wait.step)) return;
        execute(bound, device);
        if (queues_.size() > 1) progress_.ended(device, bound.number);
      }
    } catch (...) {
      progress_.fail();
      throw;
    }
  }

  void execute(Bound& bound, int device) {
    if (bound.fresh_with != nullptr) {
      if (bound.seen_version == bound.fresh_with->version) return;
      bound.seen_version = bound.fresh_with->version;
    }
    const RunArgs args{bound.in.data(), bound.out.data(), shared_->scratches[device].data()};
    set_thread_count(bound.step->threads);
    if (!profiling_) {
      bound.kernel->run(args);
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    bound.kernel->run(args);
    bound.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++bound.runs;
  }

  State& state_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::vector<Bound>> queues_;  // by device
  Progress progress_;
  std::vector<Memory> pinned_;  // by buffer
  std::vector<void*> pointers_;
  std::set<std::pair<Section, State::Entry*>> written_;  // states that each section changes
  uint64_t state_generation_ = 0, shared_generation_ = 0;
  bool profiling_ = false;
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
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    shared_ = std::make_shared<Shared>(static_cast<size_t>(config.devices));
    shared_->threads = usable_threads(config.threads > 0 ? config.threads : std::max(1, cores / config.devices));
  }

  Machine machine() const override {
    const Device device{.kind = config_.device,
                        .threads = shared_->threads,
                        .memory = memory_limit() / config_.devices,
                        .node = 0,
                        .space = config_.shared_memory ? 0 : -1};
    return {std::vector<Device>(static_cast<size_t>(config_.devices), device)};
  }

  std::unique_ptr<Executable> load(std::shared_ptr<const Plan> plan, State& state) override {
    return std::make_unique<LocalExecutable>(std::move(plan), state, shared_);
  }

 private:
  EngineConfig config_;
  std::shared_ptr<Shared> shared_;
};

const EngineRegistration registration("local",
                                      [](const EngineConfig& config) { return std::make_unique<LocalEngine>(config); });

}  // namespace
}  // namespace ff::local
