#include "c_api/timing.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <thread>

#include "base/half.h"
#include "base/parallel.h"
#include "base/random.h"
#include "engines/state.h"
#include "graph/moves.h"
#include "kernels/kernel.h"
#include "lowering/lower.h"
#include "ops/op.h"

namespace ff::c_api {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAlignment = 64;
constexpr size_t kNear = 4 << 20;   // bytes that pass between two uses of an operand: more than a core has for itself
constexpr size_t kMostSets = 2048;  // of operands
constexpr int kRelay = 200;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <class F>
double seconds_of(F&& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What looking at the clock adds to a time.
double clock_seconds() {
  static const double seconds = [] {
    double least = 1;
    for (int i = 0; i < 1000; ++i) least = std::min(least, seconds_of([] {}));
    return least;
  }();
  return seconds;
}

// The time below which some share of the runs lie.
double quantile(std::vector<double> values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// How often threads of this process had to give up their core.
long interruptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// The lower quartile of as many runs as it takes until it is near the fastest ones. Runs that were interrupted do not
// count, unless all were. Who has rested gets the cores for some milliseconds, however many programs want them: runs
// come in short bursts.
template <class F>
double time_runs(F&& run, double least_seconds = 4e-3) {
  constexpr int kWarmUp = 3;
  constexpr size_t kLeastRuns = 12, kMostRuns = 1 << 16;
  constexpr double kNearby = 1.1, kMostSeconds = 0.4, kBurst = 2e-3;
  constexpr std::chrono::milliseconds kRest(2);
  double total = 0, burst = 0, fastest = std::numeric_limits<double>::infinity();
  std::vector<double> runs;
  const auto once = [&] {
    if (burst > kBurst) {
      std::this_thread::sleep_for(kRest);
      run();
      burst = 0;
    }
    const long before = interruptions();
    const double seconds = seconds_of(run);
    total += seconds;
    burst += seconds;
    fastest = std::min(fastest, seconds);
    if (interruptions() == before) runs.push_back(seconds);
  };
  for (int i = 0; i < kWarmUp && total < kMostSeconds; ++i) once();
  runs.clear();
  total = 0;
  for (size_t enough = kLeastRuns; total < kMostSeconds && runs.size() < kMostRuns; enough *= 2) {
    while ((runs.size() < enough || total < least_seconds) && total < kMostSeconds) once();
    if (!runs.empty() && quantile(runs, 0.25) <= kNearby * quantile(runs, 0.05)) break;
  }
  return std::max(0.0, (runs.empty() ? fastest : quantile(runs, 0.25)) - clock_seconds());
}

template <class T>
void fill_with(void* to, size_t count, double low, double span, uint64_t stream) {
  RandomStream random(1, stream, 0);
  for (size_t i = 0; i < count; ++i) {
    const double value = low + span * static_cast<double>(random.uniform(i));
    static_cast<T*>(to)[i] = static_cast<T>(std::is_integral_v<T> ? std::floor(value) : value);
  }
}

// Values that the op can work with: integers of its domain, other numbers around 1, so that nothing becomes too small
// or too large for the common ways of a processor. A single number is 1.
void fill(void* to, const OpCall& call, size_t input, size_t bytes) {
  const TensorType& type = call.inputs[input];
  const OpDef& def = op_def(call.op);
  if (type.dtype == DType::opaque) return;
  const size_t count = bytes / size_of(type.dtype);
  double low = count == 1 ? 1 : 0.75, span = count == 1 ? 0 : 0.5;
  if (!is_float(type.dtype)) {
    const Domain domain = def.domain ? def.domain(call, static_cast<int>(input)) : Domain{0, 2};
    low = static_cast<double>(domain.low);
    span = static_cast<double>(std::min<int64_t>(domain.high, domain.low + (int64_t{1} << 24)) - domain.low);
  }
  switch (type.dtype) {
    case DType::boolean:
      return std::memset(to, 1, bytes), void();
    case DType::int32:
      return fill_with<int32_t>(to, count, low, span, input);
    case DType::int64:
      return fill_with<int64_t>(to, count, low, span, input);
    case DType::float64:
      return fill_with<double>(to, count, low, span, input);
    case DType::float32:
      return fill_with<float>(to, count, low, span, input);
    default:  // the halves of a number that both have: 1
      for (size_t i = 0; i < count; ++i) static_cast<uint16_t*>(to)[i] = type.dtype == DType::float16 ? 0x3C00 : 0x3F80;
  }
}

size_t bytes_of(const TensorType& type, const Layout& layout) {
  return layout.dense() ? type.bytes() : layout.info()->bytes;
}

// A call with as many sets of operands as let each lie idle for long enough.
class Rehearsal {
 public:
  Rehearsal(const OpCall& call, const Layouts& layouts, const std::string& device, int threads, size_t idle)
      : kernel_(bind_kernel({call, layouts, threads}, device)),
        scratch_(aligned(kernel_query().scratch(call, device, layouts))) {
    for (size_t i = 0; i < call.inputs.size(); ++i) in_.push_back(add(bytes_of(call.inputs[i], layouts.inputs[i])));
    for (size_t k = 0; k < call.outputs.size(); ++k) out_.push_back(add(bytes_of(call.outputs[k], layouts.outputs[k])));
    set_ = std::max(set_, kAlignment);
    sets_ = std::clamp<size_t>((idle + set_ - 1) / set_, 1, kMostSets);
    memory_ = Memory(set_ * sets_);
    char* const first = static_cast<char*>(memory_.data());
    for (size_t i = 0; i < in_.size(); ++i) fill(first + in_[i], call, i, bytes_of(call.inputs[i], layouts.inputs[i]));
    for (size_t s = 1; s < sets_; ++s) std::memcpy(first + s * set_, first, set_);
    // Updates of weights are made in place.
    if (const OpDef& def = op_def(call.op); def.gradient_free)
      for (const auto& [output, input] : def.inplace_pairs)
        if (static_cast<size_t>(output) < out_.size() && static_cast<size_t>(input) < in_.size())
          out_[output] = in_[input];
    inputs_.resize(in_.size());
    outputs_.resize(out_.size());
  }

  void next() {
    char* const set = static_cast<char*>(memory_.data()) + at_ * set_;
    at_ = (at_ + 1) % sets_;
    for (size_t i = 0; i < in_.size(); ++i) inputs_[i] = set + in_[i];
    for (size_t k = 0; k < out_.size(); ++k) outputs_[k] = set + out_[k];
  }
  void run() { kernel_->run({inputs_.data(), outputs_.data(), scratch_.data()}); }

  double time() {
    return time_runs([&] {
      next();
      run();
    });
  }

 private:
  size_t add(size_t bytes) {
    const size_t at = set_;
    set_ += aligned(bytes);
    return at;
  }

  std::unique_ptr<Kernel> kernel_;
  Memory scratch_, memory_;
  size_t set_ = 0, sets_ = 1, at_ = 0;  // bytes of a set; how many; the next
  std::vector<size_t> in_, out_;        // offsets in a set
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

Plan empty_plan(const Machine& machine) {
  Plan plan;
  plan.machine = machine;
  plan.arena.assign(machine.devices.size(), 0);
  plan.scratch.assign(machine.devices.size(), 0);
  return plan;
}

// Calls that hand a number on, from device to device in turn.
Plan relay(const Machine& machine, int steps, int devices) {
  Plan plan = empty_plan(machine);
  const TensorType type{DType::float32, {1}};
  for (int s = 0; s <= steps; ++s) {
    Buffer buffer;
    buffer.name = cat("number", s);
    buffer.type = type;
    buffer.bytes = type.bytes();
    buffer.storage = Storage::pinned;
    buffer.device = s % devices;
    plan.buffers.push_back(buffer);
  }
  Moves moves(whole_of(type.shape), "sum");
  moves.add(0, whole_of(type.shape), whole_of(type.shape));
  for (int s = 0; s < steps; ++s) {
    Step step;
    step.call = {"move", cat("pass", s), moves.attrs(), {type}, {type}, {}};
    step.layouts = {{{}}, {{}}};
    step.inputs = {s};
    step.outputs = {s + 1};
    step.device = (s + 1) % devices;
    plan.steps.push_back(std::move(step));
  }
  place_buffers(plan, false);
  add_waits(plan);
  return plan;
}

double time_plan(Engine& engine, Plan plan) {
  State state;
  const auto loaded = engine.load(std::make_shared<const Plan>(std::move(plan)), state);
  return time_runs([&] { loaded->run(~0u); }, 0.05);
}

}  // namespace

double time_call(const OpCall& call, const Layouts& layouts, const std::string& device, int threads, bool cold) {
  const size_t idle = cold ? static_cast<size_t>(2 * last_cache()) : kNear;
  // On a thread of its own, whose loops find a pool of threads in a forked child as well.
  return std::async(std::launch::async,
                    [&] {
                      start_threads(threads);
                      set_thread_count(threads);
                      return Rehearsal(call, layouts, device, threads, idle).time();
                    })
      .get();
}

double time_start(Engine& engine) { return time_plan(engine, empty_plan(engine.machine())); }

double time_launch(Engine& engine) {
  const double all = time_plan(engine, relay(engine.machine(), kRelay, 1));
  return std::max(0.0, all - time_start(engine)) / kRelay;
}

double time_handoff(Engine& engine) {
  if (engine.machine().devices.size() < 2) return 0;
  const double all = time_plan(engine, relay(engine.machine(), kRelay, 2));
  return std::max(0.0, (all - time_start(engine)) / kRelay - time_launch(engine));
}

double time_contention() {
  const TensorType type{DType::float32, {1 << 20}};
  Moves moves(whole_of(type.shape));
  moves.add(0, whole_of(type.shape), whole_of(type.shape));
  const OpCall call{"move", "copy", moves.attrs(), {type}, {type}, {}};
  const auto copy = [&] { return time_call(call, {{{}}, {{}}}, "cpu", 1, true); };
  const double alone = copy();
  std::atomic<bool> done{false};
  auto other = std::async(std::launch::async, [&] {
    while (!done) copy();
  });
  const double beside = copy();
  done = true;
  other.get();
  return std::max(0.0, beside / alone - 1);
}

double last_cache() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<double>(bytes) : 0;
}

}  // namespace ff::c_api
