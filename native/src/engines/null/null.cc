// The engine that executes nothing: it walks a plan and checks that every step reads the value that it means to, and
// that no step overwrites what it reads. Tests run the plans of every model through it; it needs no device.
#include <algorithm>

#include "base/error.h"
#include "base/intervals.h"
#include "engines/engine.h"
#include "engines/null/order.h"

namespace ff {
namespace {

constexpr BufferId kNothing = -1;

// The buffer that was written last there.
struct Writer {
  BufferId id = kNothing;
};
using Bytes = Intervals<Writer>;  // of the arena of a device, or of a buffer that lies apart from it

// What lies in a run of bytes.
struct Content {
  size_t begin, end;  // from the start of who asks
  BufferId writer;
  bool operator==(const Content&) const = default;
};

class Checker : public Executable {
 public:
  explicit Checker(std::shared_ptr<const Plan> plan)
      : Executable(std::move(plan)),
        arenas_(plan_->arena.size()),
        own_(plan_->buffers.size()),
        shown_(plan_->buffers.size()),
        renamed_(plan_->buffers.size()),
        written_(plan_->buffers.size()),
        changed_(plan_->buffers.size(), 0) {
    for (const Step& step : plan_->steps)
      for (const BufferId id : step.outputs)
        if (id >= 0 && !in_place(*plan_, step).empty()) {
          renamed_[id] = true;
        } else if (id >= 0) {
          written_[id] = true;
          changed_[plan_->root(id)] |= 1u << static_cast<unsigned>(step.section);
        }
    for (BufferId id = 0; id < static_cast<BufferId>(own_.size()); ++id) {
      const Buffer& buffer = plan_->buffers[id];
      if (buffer.alias >= 0) FF_CHECK(plan_->buffers[buffer.alias].alias < 0, buffer.name, " aliases an alias");
      const Buffer& root = plan_->buffers[plan_->root(id)];
      FF_CHECK(plan_->span(id).end <= root.bytes, buffer.name, " does not fit into ", root.name);
      if (root.storage == Storage::temporary && root.first >= 0)
        FF_CHECK(root.offset + root.bytes <= plan_->arena[root.device], root.name, " leaves the arena");
    }
    check_order(*plan_);
  }

  void run(unsigned sections) override {
    // A state holds its own value again where the sections that change it start anew.
    for (BufferId id = 0; id < static_cast<BufferId>(own_.size()); ++id)
      if (outlives(id) && ((sections & 1u) != 0 || (sections & changed_[id]) != 0 || !holds_something(id)))
        own_[id].assign(0, plan_->buffers[id].bytes, {id});
    for (const Step& step : plan_->steps) {
      if ((sections >> static_cast<unsigned>(step.section) & 1u) == 0) continue;
      for (const BufferId id : step.inputs) read(id, step.call.name);
      FF_CHECK(step.scratch <= plan_->scratch[step.device], step.call.name, " asks for more scratch than there is");
      check_apart(step);
      if (const std::vector<Plan::Span> spans = in_place(*plan_, step); !spans.empty())
        write_around(spans, step);
      else
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
  bool outlives(BufferId id) const {
    const Buffer& buffer = plan_->buffers[id];
    return buffer.alias < 0 && (buffer.storage == Storage::state || buffer.storage == Storage::input);
  }

  // Where a buffer lies.
  struct Place {
    Bytes* memory;
    size_t begin, end;

    bool meets(const Place& other) const { return memory == other.memory && begin < other.end && other.begin < end; }
    bool operator==(const Place&) const = default;
  };
  Place place(BufferId id) {
    const Plan::Span span = plan_->span(id);
    const Buffer& root = plan_->buffers[span.root];
    if (root.storage != Storage::temporary) return {&own_[span.root], span.begin, span.end};
    return {&arenas_[root.device], root.offset + span.begin, root.offset + span.end};
  }

  std::vector<Content> contents(BufferId id) {
    const Place at = place(id);
    return contents(at, at.begin);
  }

  static std::vector<Content> contents(const Place& at, size_t from) {
    std::vector<Content> found;
    at.memory->visit(at.begin, at.end, [&](size_t begin, size_t end, const Writer& writer) {
      if (!found.empty() && found.back().writer == writer.id)
        found.back().end = end - from;
      else
        found.push_back({begin - from, end - from, writer.id});
    });
    return found;
  }

  bool holds_something(BufferId id) {
    const std::vector<Content> held = contents(id);
    return std::none_of(held.begin(), held.end(), [](const Content& run) { return run.writer == kNothing; });
  }

  // The memory must hold the value of this very buffer, not that of another which shares it. What no step writes, as a
  // view or what lay in place already, must always show the values that it showed first.
  void read(BufferId id, const std::string& who) {
    const std::vector<Content> held = contents(id);
    const bool view = (plan_->buffers[id].alias >= 0 || renamed_[id]) && !written_[id] && !outlives(id);
    if (view && shown_[id].empty()) shown_[id] = held;
    for (size_t k = 0; k < held.size(); ++k) {
      const bool as_meant = view ? k < shown_[id].size() && held[k] == shown_[id][k] : held[k].writer == id;
      FF_CHECK(held[k].writer != kNothing && as_meant, who, " reads ", plan_->buffers[id].name, ", where ",
               held[k].writer == kNothing ? "nothing" : plan_->buffers[held[k].writer].name, " is");
    }
  }

  // Writing ends the life of all else that has these bytes.
  void write(BufferId id, const Step& step) {
    const Buffer& root = plan_->buffers[plan_->root(id)];
    FF_CHECK(root.storage != Storage::input, step.call.name, " writes the input ", root.name);
    const Place at = place(id);
    at.memory->assign(at.begin, at.end, {id});
  }

  // A move leaves alone what lies in place: that still belongs to those who wrote it.
  void write_around(const std::vector<Plan::Span>& spans, const Step& step) {
    const BufferId made = step.outputs[0];
    const Place at = place(made);
    const size_t shift = at.begin - plan_->span(made).begin;
    std::vector<Content> kept;
    for (const Plan::Span& span : spans)
      for (const Content& run : contents({at.memory, span.begin + shift, span.end + shift}, 0)) kept.push_back(run);
    if (!moves_nothing(*plan_, step)) write(made, step);
    for (const Content& run : kept) at.memory->assign(run.begin, run.end, {run.writer});
    shown_[made] = contents(made);
  }

  // Outputs share memory neither with each other nor, unless they take it over as a whole, with inputs.
  void check_apart(const Step& step) {
    const bool some_in_place = !in_place(*plan_, step).empty();
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.outputs[k] < 0) continue;
      const Place made = place(step.outputs[k]);
      for (const BufferId id : step.inputs) {
        const Place read = place(id);
        const bool taken = plan_->root(id) == plan_->root(step.outputs[k]) && made.begin == read.begin;
        FF_CHECK(!made.meets(read) || taken || some_in_place, step.call.name, " overwrites its input ",
                 plan_->buffers[id].name);
      }
      for (size_t i = 0; i < k; ++i)
        FF_CHECK(step.outputs[i] < 0 || !made.meets(place(step.outputs[i])), step.call.name, ": outputs ", i, " and ",
                 k, " share memory");
    }
  }

  mutable Memory zeros_;
  std::vector<Bytes> arenas_;                // by device
  std::vector<Bytes> own_;                   // by root that lies apart from them
  std::vector<std::vector<Content>> shown_;  // by buffer that no step writes: what it showed when it was first read
  std::vector<bool> renamed_, written_;      // by buffer: a move makes it, partly in place; another step does
  std::vector<unsigned> changed_;            // by root: the sections that write into its memory
};

class NullEngine : public Engine {
 public:
  explicit NullEngine(const EngineConfig& config) : config_(config) {}
  Machine machine() const override {
    const Device device{.kind = config_.device, .space = config_.shared_memory ? 0 : -1};
    return {std::vector<Device>(static_cast<size_t>(std::max(1, config_.devices)), device)};
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
