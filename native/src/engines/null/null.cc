// The engine that executes nothing: it walks a plan and checks that every step reads what was written and is still there.
// Tests run the plans of every model through it; it needs no device.
#include <algorithm>

#include "base/error.h"
#include "engines/engine.h"

namespace ff {
namespace {

class Checker : public Executable {
 public:
  Checker(std::shared_ptr<const Plan> plan, State& state) : Executable(std::move(plan)), valid_(plan_->buffers.size(), false) {
    for (size_t id = 0; id < valid_.size(); ++id) {
      const Buffer& buffer = plan_->buffers[id];
      if (buffer.alias >= 0) FF_CHECK(plan_->buffers[buffer.alias].alias < 0, buffer.name, " aliases an alias");
      valid_[id] = buffer.storage == Storage::state || buffer.storage == Storage::input;
      if (valid_[id] && buffer.alias < 0) state.entry(buffer.name, buffer.type);
      const Buffer& root = plan_->buffers[plan_->root(static_cast<BufferId>(id))];
      FF_CHECK(buffer.bytes <= root.bytes, buffer.name, " does not fit into ", root.name);
      if (root.storage == Storage::temporary && root.first >= 0)
        FF_CHECK(root.offset + root.bytes <= plan_->arena[root.device], root.name, " leaves the arena");
    }
  }

  void run(unsigned sections) override {
    for (const Step& step : plan_->steps) {
      if ((sections >> static_cast<unsigned>(step.section) & 1u) == 0) continue;
      for (const BufferId id : step.inputs)
        FF_CHECK(valid_[plan_->root(id)], step.call.name, " reads ", plan_->buffers[id].name, ", which is not there (any more)");
      FF_CHECK(step.scratch <= plan_->scratch[step.device], step.call.name, " asks for more scratch than there is");
      for (const BufferId id : step.outputs) write(id, step);
    }
    for (const auto& [name, id] : plan_->results) FF_CHECK(valid_[plan_->root(id)] || sections != ~0u, "result ", name, " is not there");
  }

  const void* result(const std::string&) const override { return nullptr; }
  void profile(bool) override {}
  std::vector<StepTime> times() const override { return {}; }

 private:
  // Writing a temporary ends the life of every other that shares bytes with it.
  void write(BufferId id, const Step& step) {
    const BufferId made = plan_->root(id);
    const Buffer& buffer = plan_->buffers[made];
    FF_CHECK(buffer.storage != Storage::input, step.call.name, " writes the input ", buffer.name);
    valid_[made] = true;
    if (buffer.storage != Storage::temporary) return;
    for (size_t other = 0; other < valid_.size(); ++other) {
      const Buffer& o = plan_->buffers[other];
      if (static_cast<BufferId>(other) == made || o.alias >= 0 || o.storage != Storage::temporary || o.device != buffer.device) continue;
      if (o.offset < buffer.offset + buffer.bytes && buffer.offset < o.offset + o.bytes) valid_[other] = false;
    }
  }

  std::vector<bool> valid_;  // by root buffer: holds what its last writer wrote
};

class NullEngine : public Engine {
 public:
  explicit NullEngine(const EngineConfig& config) : config_(config) {}
  Machine machine() const override {
    return {std::vector<Device>(static_cast<size_t>(std::max(1, config_.devices)), Device{.kind = config_.device})};
  }
  std::unique_ptr<Executable> load(std::shared_ptr<const Plan> plan, State& state) override {
    return std::make_unique<Checker>(std::move(plan), state);
  }

 private:
  EngineConfig config_;
};

const EngineRegistration registration("null", [](const EngineConfig& config) { return std::make_unique<NullEngine>(config); });

}  // namespace
}  // namespace ff
