// The engine that executes nothing: it walks a plan and checks that every step reads the value that it means to, and
// that no step overwrites what it reads. Tests run the plans of every model through it; it needs no device.
#include <algorithm>

#include "base/error.h"
#include "engines/engine.h"

namespace ff {
namespace {

class Checker : public Executable {
 public:
  explicit Checker(std::shared_ptr<const Plan> plan)
      : Executable(std::move(plan)),
        held_(plan_->buffers.size(), kNothing),
        shown_(plan_->buffers.size(), kNothing),
        written_(plan_->buffers.size(), 0) {
    for (const Step& step : plan_->steps)
      for (const BufferId id : step.outputs)
        if (id >= 0) written_[id] |= written_[plan_->root(id)] |= 1u << static_cast<unsigned>(step.section);
    for (BufferId id = 0; id < static_cast<BufferId>(held_.size()); ++id) {
      const Buffer& buffer = plan_->buffers[id];
      if (buffer.alias >= 0) FF_CHECK(plan_->buffers[buffer.alias].alias < 0, buffer.name, " aliases an alias");
      const Buffer& root = plan_->buffers[plan_->root(id)];
      FF_CHECK(buffer.bytes <= root.bytes, buffer.name, " does not fit into ", root.name);
      if (root.storage == Storage::temporary && root.first >= 0)
        FF_CHECK(root.offset + root.bytes <= plan_->arena[root.device], root.name, " leaves the arena");
    }
  }

  void run(unsigned sections) override {
    // A state holds its own value again where the sections that change it start anew.
    for (BufferId id = 0; id < static_cast<BufferId>(held_.size()); ++id)
      if (outlives(id) && ((sections & 1u) != 0 || (sections & written_[id]) != 0 || held_[id] == kNothing))
        held_[id] = id;
    for (const Step& step : plan_->steps) {
      if ((sections >> static_cast<unsigned>(step.section) & 1u) == 0) continue;
      for (const BufferId id : step.inputs) read(id, step.call.name);
      FF_CHECK(step.scratch <= plan_->scratch[step.device], step.call.name, " asks for more scratch than there is");
      check_apart(step);
      for (const BufferId id : step.outputs)
        if (id >= 0) write(id, step);
    }
    if (sections == ~0u)
      for (const auto& [name, id] : plan_->results) read(id, "result " + name);
  }

  // Zeros, for who reads results without asking which engine ran.
  const void* result(const std::string& name) const override {
    const auto it = plan_->results.find(name);
    if (it == plan_->results.end()) return nullptr;
    const size_t bytes = plan_->buffers[it->second].bytes;
    if (zeros_.size() < bytes || zeros_.data() == nullptr) zeros_ = Memory(bytes);
    return zeros_.data();
  }
  void profile(bool) override {}
  std::vector<StepTime> times() const override { return {}; }

 private:
  static constexpr BufferId kNothing = -1;

  bool outlives(BufferId id) const {
    const Buffer& buffer = plan_->buffers[id];
    return buffer.alias < 0 && (buffer.storage == Storage::state || buffer.storage == Storage::input);
  }

  // The memory must hold the value of this very buffer, not that of another which shares it. A view, which no step
  // writes, must always show the value that it showed first.
  void read(BufferId id, const std::string& who) {
    const BufferId held = held_[plan_->root(id)];
    const bool view = plan_->buffers[id].alias >= 0 && written_[id] == 0;
    if (view && shown_[id] == kNothing) shown_[id] = held;
    FF_CHECK(held != kNothing && held == (view ? shown_[id] : id), who, " reads ", plan_->buffers[id].name, ", where ",
             held == kNothing ? "nothing" : plan_->buffers[held].name, " is");
  }

  // Writing a temporary ends the life of every other that shares bytes with it.
  void write(BufferId id, const Step& step) {
    const BufferId made = plan_->root(id);
    FF_CHECK(plan_->buffers[made].storage != Storage::input, step.call.name, " writes the input ",
             plan_->buffers[made].name);
    for (BufferId other = 0; other < static_cast<BufferId>(held_.size()); ++other)
      if (overlap(made, other)) held_[other] = kNothing;
    held_[made] = id;
  }

  // Outputs share memory neither with each other nor, unless they take it over as a whole, with inputs.
  void check_apart(const Step& step) const {
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      const BufferId made = step.outputs[k] < 0 ? kNothing : plan_->root(step.outputs[k]);
      for (const BufferId id : step.inputs)
        FF_CHECK(!overlap(made, plan_->root(id)), step.call.name, " overwrites its input ", plan_->buffers[id].name);
      for (size_t i = 0; i < k; ++i)
        FF_CHECK(made == kNothing || step.outputs[i] < 0 ||
                     (plan_->root(step.outputs[i]) != made && !overlap(made, plan_->root(step.outputs[i]))),
                 step.call.name, ": outputs ", i, " and ", k, " share memory");
    }
  }

  // Do two different roots have bytes of the arena in common?
  bool overlap(BufferId a, BufferId b) const {
    if (a == b || a < 0 || b < 0) return false;
    const Buffer &x = plan_->buffers[a], &y = plan_->buffers[b];
    const bool arena = x.alias < 0 && y.alias < 0 && x.storage == Storage::temporary && y.storage == Storage::temporary;
    return arena && x.device == y.device && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
  }

  mutable Memory zeros_;
  std::vector<BufferId> held_;     // by root: the buffer whose value its memory holds
  std::vector<BufferId> shown_;    // by view: the buffer whose value it showed when it was first read
  std::vector<unsigned> written_;  // by buffer: the sections that write it; by root, that write into its memory
};

class NullEngine : public Engine {
 public:
  explicit NullEngine(const EngineConfig& config) : config_(config) {}
  Machine machine() const override {
    return {std::vector<Device>(static_cast<size_t>(std::max(1, config_.devices)), Device{.kind = config_.device})};
  }
  std::unique_ptr<Executable> load(std::shared_ptr<const Plan> plan, State&) override {
    return std::make_unique<Checker>(std::move(plan));
  }

 private:
  EngineConfig config_;
};

const EngineRegistration registration("null",
                                      [](const EngineConfig& config) { return std::make_unique<NullEngine>(config); });

}  // namespace
}  // namespace ff
