// The engine of one process: a plan becomes a list of bound kernels over resolved pointers.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/parallel.h"
#include "engines/engine.h"
#include "engines/local/worker.h"
#include "kernels/kernel.h"

namespace ff::local {
namespace {

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

// Memory that the plans of one engine take turns to use.
struct Shared {
  Memory arena, scratch;
  uint64_t generation = 1;
  int threads = 1;
  // In a process that was forked, the thread that forked must not ask libgomp for threads that stayed behind: a thread
  // of our own, born in the child, has a pool of its own. Engines that are made in the child need it as well.
  int forks_seen = 0;
  std::unique_ptr<Worker> worker;

  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    if (forks_seen != forks) (void)worker.release();
  }

  void reserve(size_t arena_bytes, size_t scratch_bytes) {
    if (arena.data() != nullptr && arena.size() >= arena_bytes && scratch.size() >= scratch_bytes) return;
    if (arena.data() == nullptr || arena.size() < arena_bytes) arena = Memory(arena_bytes);
    if (scratch.data() == nullptr || scratch.size() < scratch_bytes) scratch = Memory(scratch_bytes);
    ++generation;
  }

  template <class F>
  void on_device(F&& body) {
    if (forks_seen != forks) {
      (void)worker.release();  // a thread of the parent, if any: it does not exist here
      worker = std::make_unique<Worker>();
      forks_seen = forks;
    }
    if (worker != nullptr) return worker->run(body);
    // The calling thread keeps the number of threads that it had.
    const int before = thread_count();
    body();
    set_thread_count(before);
  }
};

class LocalExecutable : public Executable {
 public:
  LocalExecutable(std::shared_ptr<const Plan> plan, State& state, std::shared_ptr<Shared> shared)
      : Executable(std::move(plan)), state_(state), shared_(std::move(shared)) {
    for (const Buffer& buffer : plan_->buffers)
      if (buffer.alias < 0 && (buffer.storage == Storage::state || buffer.storage == Storage::input))
        state_.entry(buffer.name, buffer.type);
    shared_->reserve(plan_->arena[0], plan_->scratch[0]);
    pinned_.resize(plan_->buffers.size());
    for (size_t id = 0; id < plan_->buffers.size(); ++id) {
      const Buffer& buffer = plan_->buffers[id];
      if (buffer.alias < 0 && buffer.storage == Storage::pinned) pinned_[id] = Memory(buffer.bytes);
    }
    shared_->on_device([&] {
      start_threads(shared_->threads);
      bind();
    });
  }

  void run(unsigned sections) override {
    if (state_generation_ != state_.generation() || shared_generation_ != shared_->generation) resolve();
    shared_->on_device([&] {
      for (Bound& bound : bound_)
        if (sections >> static_cast<unsigned>(bound.step->section) & 1u) execute(bound);
    });
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
    for (Bound& bound : bound_) {
      bound.runs = 0;
      bound.seconds = 0;
    }
  }

  std::vector<StepTime> times() const override {
    std::vector<StepTime> out;
    for (const Bound& bound : bound_)
      out.push_back({bound.step->call.op, bound.step->call.name, bound.runs, bound.seconds});
    return out;
  }

 private:
  struct Bound {
    const Step* step;
    std::unique_ptr<Kernel> kernel;
    std::vector<const void*> in;
    std::vector<void*> out;
    State::Entry* fresh_with = nullptr;
    uint64_t seen_version = ~uint64_t{0};
    int64_t runs = 0;
    double seconds = 0;
  };

  void bind() {
    const Device& device = plan_->machine.devices[0];
    for (const Step& step : plan_->steps) {
      set_thread_count(step.threads);
      Bound bound{.step = &step,
                  .kernel = bind_kernel({step.call, step.layouts, step.threads}, device.kind),
                  .in = {},
                  .out = {}};
      bound.in.resize(step.inputs.size());
      bound.out.resize(step.outputs.size());
      bound_.push_back(std::move(bound));
    }
    resolve();
  }

  void* memory_of(BufferId root) {
    const Buffer& buffer = plan_->buffers[root];
    switch (buffer.storage) {
      case Storage::state:
      case Storage::input: {
        State::Entry* entry = state_.find(buffer.name);  // of another batch size, perhaps: its memory is what counts
        return entry != nullptr ? entry->memory.data() : state_.entry(buffer.name, buffer.type).memory.data();
      }
      case Storage::pinned:
        return pinned_[root].data();
      default:
        return static_cast<char*>(shared_->arena.data()) + buffer.offset;
    }
  }

  void resolve() {
    pointers_.resize(plan_->buffers.size());
    for (size_t id = 0; id < pointers_.size(); ++id) pointers_[id] = memory_of(plan_->root(static_cast<BufferId>(id)));
    written_.clear();
    for (Bound& bound : bound_) {
      for (size_t i = 0; i < bound.in.size(); ++i) bound.in[i] = pointers_[bound.step->inputs[i]];
      for (size_t k = 0; k < bound.out.size(); ++k) {
        const BufferId root = plan_->root(bound.step->outputs[k]);
        bound.out[k] = pointers_[root];
        if (plan_->buffers[root].storage == Storage::state)
          written_.emplace_back(bound.step->section, state_.find(plan_->buffers[root].name));
      }
      if (bound.step->fresh_with >= 0) bound.fresh_with = state_.find(plan_->buffers[bound.step->fresh_with].name);
      bound.seen_version = ~uint64_t{0};
    }
    state_generation_ = state_.generation();
    shared_generation_ = shared_->generation;
  }

  void execute(Bound& bound) {
    if (bound.fresh_with != nullptr) {
      if (bound.seen_version == bound.fresh_with->version) return;
      bound.seen_version = bound.fresh_with->version;
    }
    const RunArgs args{bound.in.data(), bound.out.data(), shared_->scratch.data()};
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
  std::vector<Bound> bound_;
  std::vector<Memory> pinned_;  // by buffer
  std::vector<void*> pointers_;
  std::vector<std::pair<Section, State::Entry*>> written_;  // states that each section changes
  uint64_t state_generation_ = 0, shared_generation_ = 0;
  bool profiling_ = false;
};

class LocalEngine : public Engine {
 public:
  explicit LocalEngine(const EngineConfig& config) : config_(config), shared_(std::make_shared<Shared>()) {
    if (config.device != "cpu" && config.device != "reference")
      bad_value("engine \"local\" has no devices of kind \"", config.device, "\"; expected \"cpu\" or \"reference\"");
    if (config.devices != 1) bad_value("engine \"local\" got devices = ", config.devices, "; expected 1");
    if (config.threads < 0 || config.threads > kMostThreads)
      bad_value("engine \"local\" got threads = ", config.threads, "; expected 0 (all cores) to ", kMostThreads);
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    shared_->threads = usable_threads(config.threads > 0 ? config.threads : std::max(1, cores / config.devices));
  }

  Machine machine() const override {
    return {{Device{.kind = config_.device, .threads = shared_->threads, .memory = memory_limit(), .node = 0}}};
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
