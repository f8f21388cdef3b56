#include "engines/bound_plan.h"

#include <algorithm>
#include <chrono>

#include "base/parallel.h"

namespace ff {

Arenas::Arenas(Machine machine)
    : machine_(std::move(machine)), arenas_(machine_.devices.size()), scratches_(machine_.devices.size()) {}

void Arenas::grow(std::vector<Reserved>& reserved, const std::vector<size_t>& bytes) {
  for (size_t d = 0; d < reserved.size(); ++d) {
    if (reserved[d].bytes >= std::max<size_t>(bytes[d], 1)) continue;
    reserved[d].bytes = std::max<size_t>(bytes[d], 1);
    if (machine_.is_here(static_cast<int>(d))) reserved[d].memory = Memory(bytes[d]);
    ++generation_;
  }
}

void Arenas::reserve(const std::vector<size_t>& arena_bytes, const std::vector<size_t>& scratch_bytes) {
  grow(arenas_, arena_bytes);
  grow(scratches_, scratch_bytes);
}

BoundPlan::BoundPlan(std::shared_ptr<const Plan> plan, State& state, std::shared_ptr<Arenas> arenas)
    : plan_(std::move(plan)),
      state_(state),
      arenas_(std::move(arenas)),
      calls_(plan_->steps.size()),
      pinned_(plan_->buffers.size()),
      pointers_(plan_->buffers.size()) {
  for (const Buffer& buffer : plan_->buffers)
    if (buffer.alias < 0 && buffer.storage == Storage::input) state_.entry(buffer.name, buffer.type);
  for (const auto& [name, layout] : states_of(*plan_)) state_.entry(name, layout.type, layout.shards);
  arenas_->reserve(plan_->arena, plan_->scratch);
  for (size_t id = 0; id < plan_->buffers.size(); ++id) {
    const Buffer& buffer = plan_->buffers[id];
    if (buffer.alias < 0 && buffer.storage == Storage::pinned && plan_->machine.is_here(buffer.device))
      pinned_[id] = Memory(buffer.bytes);
  }
}

void BoundPlan::bind(int device) {
  for (size_t s = 0; s < calls_.size(); ++s) {
    const Step& step = plan_->steps[s];
    if (step.device != device) continue;
    set_thread_count(step.threads);
    calls_[s].kernel = bind_kernel({step.call, step.layouts, step.threads}, plan_->machine.devices[device].kind);
    calls_[s].in.resize(step.inputs.size());
    calls_[s].out.resize(step.outputs.size());
  }
}

void* BoundPlan::memory_of(BufferId root) {
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
    default: {
      char* const arena = static_cast<char*>(arenas_->arena(buffer.device));
      return arena == nullptr ? nullptr : arena + buffer.offset;
    }
  }
}

bool BoundPlan::resolve() {
  if (state_generation_ == state_.generation() && arenas_generation_ == arenas_->generation()) return false;
  // Another plan may have wanted the states in other pieces.
  for (const auto& [name, layout] : states_of(*plan_)) state_.entry(name, layout.type, layout.shards);
  for (BufferId id = 0; id < static_cast<BufferId>(pointers_.size()); ++id) {
    const Plan::Span span = plan_->span(id);
    char* const memory = static_cast<char*>(memory_of(span.root));
    pointers_[id] = memory == nullptr ? nullptr : memory + span.begin;
  }
  written_.clear();
  for (size_t s = 0; s < calls_.size(); ++s) resolve(static_cast<int>(s));
  state_generation_ = state_.generation();
  arenas_generation_ = arenas_->generation();
  return true;
}

void BoundPlan::resolve(int s) {
  const Step& step = plan_->steps[s];
  Call& call = calls_[s];
  for (size_t i = 0; i < call.in.size(); ++i) call.in[i] = pointers_[step.inputs[i]];
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    if (step.outputs[k] < 0) continue;
    if (k < call.out.size()) call.out[k] = pointers_[step.outputs[k]];
    const Buffer& root = plan_->buffers[plan_->root(step.outputs[k])];
    if (root.storage == Storage::state) written_.emplace(step.section, state_.find(root.name));
  }
  if (step.fresh_with >= 0) call.fresh_with = state_.find(plan_->buffers[step.fresh_with].name);
  call.seen_version = ~uint64_t{0};
}

void BoundPlan::execute(int s) {
  const Step& step = plan_->steps[s];
  Call& call = calls_[s];
  if (call.fresh_with != nullptr) {
    if (call.seen_version == call.fresh_with->version) return;
    call.seen_version = call.fresh_with->version;
  }
  const RunArgs args{call.in.data(), call.out.data(), arenas_->scratch(step.device)};
  set_thread_count(step.threads);
  if (!profiling_) {
    call.kernel->run(args);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  call.kernel->run(args);
  call.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++call.runs;
}

void BoundPlan::count_writes(unsigned sections) {
  for (const auto& [section, entry] : written_) {
    if ((sections >> static_cast<unsigned>(section) & 1u) == 0) continue;
    ++entry->version;
    entry->ready = entry->touched = true;
  }
}

const void* BoundPlan::result(const std::string& name) const {
  const auto it = plan_->results.find(name);
  return it == plan_->results.end() ? nullptr : pointers_[it->second];
}

void BoundPlan::profile(bool on) {
  profiling_ = on;
  for (Call& call : calls_) {
    call.runs = 0;
    call.seconds = 0;
  }
}

std::vector<StepTime> BoundPlan::times() const {
  std::vector<StepTime> out;
  for (size_t s = 0; s < calls_.size(); ++s)
    out.push_back({plan_->steps[s].call.op, plan_->steps[s].call.name, calls_[s].runs, calls_[s].seconds});
  return out;
}

}  // namespace ff
