#include "c_api/model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iomanip>

#include "base/parallel.h"
#include "kernels/kernel.h"
#include "lowering/lower.h"

namespace ff::c_api {
namespace {

constexpr int32_t kAlone = FF_FORWARD | FF_LOSS | FF_BACKWARD | FF_UPDATE;
constexpr size_t kMostPlans = 16;  // kept at once; a model meets few batch sizes and modes

// With FLEXFLOW_CHECK_PLANS set, as the tests do, every plan passes the engine that only checks; it throws what it
// finds.
void check_plan(const std::shared_ptr<const Plan>& plan, bool separate_sections) {
  static const bool wanted = std::getenv("FLEXFLOW_CHECK_PLANS") != nullptr;
  if (!wanted) return;
  State state;
  const auto checker = make_engine("null", {})->load(plan, state);
  for (int run = 0; run < 2; ++run) {
    if (!separate_sections) checker->run(~0u);
    for (unsigned section = 1; separate_sections && section <= FF_UPDATE; section *= 2) checker->run(section);
  }
}

}  // namespace

Model::Model(std::shared_ptr<GraphObject> owner, CompileSpec spec, bool training, std::unique_ptr<Engine> engine)
    : owner_(std::move(owner)),
      spec_(std::move(spec)),
      training_(training),
      engine_(std::move(engine)),
      machine_(engine_->machine()),
      batch_(batch_size(owner_->graph)) {
  share_state();
}

int32_t Model::widest() const {
  if (spec_.loss.empty()) return FF_PREDICT;
  return training_ && !spec_.optimizer.empty() ? FF_TRAIN_STEP : FF_EVALUATE;
}

StepSpec Model::step_spec(int32_t sections, int64_t batch) const {
  const bool alone = (sections & kAlone) != 0;
  if (sections <= 0 || sections > FF_PREDICT || (alone && (sections & ~kAlone) != 0))
    bad_value("sections ", sections, " do not go together; see ff_section");
  StepSpec step{.batch = batch == batch_size(owner_->graph) ? 0 : batch, .pinned = {}, .pinned_gradients = {}};
  step.training = training_ && (alone || sections == FF_TRAIN_STEP);
  step.loss = !spec_.loss.empty() && sections != FF_PREDICT;
  step.backward = step.loss && step.training;
  step.update = step.backward && !spec_.optimizer.empty();
  step.separate_sections = alone;
  if (alone) {
    step.pinned = pinned_;
    if (step.backward) step.pinned_gradients = pinned_gradients_;
  }
  return step;
}

void Model::check_fit(const CompileSpec& spec, const Machine& machine) const {
  Graph graph = build_step(owner_->graph, spec, step_spec(widest(), 0), kernel_query());
  const Pcg pcg = place(std::move(graph), spec.strategy, machine);
  check(pcg, machine);
  if (!pcg.stages.empty()) (void)schedule(flatten(pcg, machine), machine, false);
}

void Model::move_to(Strategy strategy, std::unique_ptr<Engine> engine) {
  CompileSpec spec = spec_;
  spec.strategy = std::move(strategy);
  check_fit(spec, engine->machine());
  drop_plans();
  spec_ = std::move(spec);
  engine_ = std::move(engine);
  machine_ = engine_->machine();
  share_state();
}

void Model::share_state() {
  owner_->state.share(processes());
  if (processes() != nullptr) require_same(*processes(), static_cast<uint64_t>(owner_->seed), "seed");
}

void Model::drop_plans() {
  plans_.clear();
  executables_.clear();
  last_ = nullptr;
  ran_ = held_ = 0;
}

std::shared_ptr<const Plan> Model::plan(const StepSpec& step) {
  if (version_ != owner_->version) drop_plans();
  version_ = owner_->version;
  if (plans_.size() >= kMostPlans && plans_.count(step) == 0) drop_plans();
  std::shared_ptr<const Plan>& plan = plans_[step];
  if (plan != nullptr) return plan;
  // Kernels may ask for layouts by thread: they are asked here as they will be bound.
  set_thread_count(machine_.devices[0].threads);
  Graph graph = build_step(owner_->graph, spec_, step, kernel_query());
  plan = std::make_shared<const Plan>(lower(place(std::move(graph), spec_.strategy, machine_), machine_, kernel_query(),
                                            {.separate_sections = step.separate_sections}));
  check_plan(plan, step.separate_sections);
  return plan;
}

Executable& Model::executable(const StepSpec& step) {
  if (version_ == owner_->version)
    if (const auto it = executables_.find(step); it != executables_.end()) return *it->second;
  const std::shared_ptr<const Plan> plan = this->plan(step);
  check_memory(*plan);
  std::vector<std::pair<std::string, Attrs>> states;
  for (const auto& [name, layout] : states_of(*plan)) states.emplace_back(name, layout.initializer);
  initialize(owner_->state, states, owner_->seed);
  auto loaded = engine_->load(plan, owner_->state);
  if (profiling_) loaded->profile(true);
  return *(executables_[step] = std::move(loaded));
}

void Model::require_order(int32_t sections) const {
  constexpr const char* kNames[] = {"forward", "loss", "backward", "update"};
  for (int s = 1; s < 4; ++s) {
    const bool asked = (sections >> s & 1) != 0;
    const bool before = ((sections | ran_) >> (s - 1) & 1) != 0;
    if (asked && !before)
      fail(ErrorKind::state, kNames[s], " was called before ", kNames[s - 1], "; call ", kNames[s - 1], " first");
  }
}

void Model::require_inputs(const Plan& plan, unsigned sections) const {
  for (const auto& [name, input] : plan.inputs) {
    if ((input.sections & sections) == 0) continue;
    const State::Entry* entry = owner_->state.find(name);
    if (entry == nullptr || !entry->ready)
      fail(ErrorKind::state, "input \"", name,
           "\" has no data; write it (set_tensor), or load a batch into it (next_batch, fit)");
    const TensorType& wanted = plan.buffers[input.buffer].type;
    if (entry->type.shape != wanted.shape)
      bad_value("input \"", name, "\" holds data of shape ", to_string(entry->type.shape), "; this run expects ",
                to_string(wanted.shape));
  }
}

void Model::run(int32_t sections, int64_t batch) {
  if (owner_->model.lock().get() != this)
    fail(ErrorKind::state, "the graph was compiled again since; use the model of the last compile");
  const StepSpec step = step_spec(sections, batch);
  if ((sections & ~(FF_FORWARD | FF_PREDICT)) != 0 && !step.loss)
    fail(ErrorKind::state, "the model was compiled without a loss: it can only run forward");
  if ((sections & (FF_BACKWARD | FF_UPDATE | FF_TRAIN_STEP)) != 0 && !training_)
    fail(ErrorKind::state, "the model was compiled for inference: it cannot be trained");
  if ((sections & (FF_UPDATE | FF_TRAIN_STEP)) != 0 && !step.update)
    fail(ErrorKind::state, "the model was compiled without an optimizer: it cannot be updated");
  const bool alone = step.separate_sections;
  if (alone) require_order(sections);
  Executable& executable = this->executable(step);
  if (alone && &executable != last_ && (sections & FF_FORWARD) == 0)
    fail(ErrorKind::state, "the batch size changed since forward; call forward first");
  const unsigned asked = alone ? static_cast<unsigned>(sections) : ~0u;
  require_inputs(executable.plan(), asked);
  if (alone && (sections & FF_FORWARD) != 0) ran_ = held_ = 0;
  executable.run(asked);
  batch_ = batch;
  if (alone) held_ |= sections;
  // After an update the activations belong to old weights: the next backward needs a new forward.
  ran_ = !alone || (sections & FF_UPDATE) != 0 ? 0 : ran_ | sections;
  if (alone) last_ = &executable;
}

const void* Model::kept(const std::string& name, int32_t made_by) const {
  return last_ == nullptr || (held_ & made_by) == 0 ? nullptr : last_->result(name);
}

// Run what ran once more with one more tensor kept. Counters and statistics are put back before, so that the same
// numbers come out and nothing counts twice.
void Model::rerun_keeping(Value tensor, bool gradient) {
  const int32_t needed = gradient ? FF_FORWARD | FF_LOSS | FF_BACKWARD : FF_FORWARD;
  std::vector<Value>& pinned = gradient ? pinned_gradients_ : pinned_;
  if (std::find(pinned.begin(), pinned.end(), tensor) == pinned.end()) pinned.push_back(tensor);
  if ((ran_ & needed) != needed)
    fail(ErrorKind::state, "\"", owner_->graph.name(tensor), "\" has no ", gradient ? "gradient" : "value",
         " yet; call ", gradient ? "forward and backward" : "forward", " (it is kept from now on)");
  std::vector<std::pair<State::Entry*, std::vector<char>>> saved;
  for (const auto& [name, entry] : owner_->state.entries()) {
    saved.emplace_back(owner_->state.find(name), std::vector<char>(entry.type.bytes()));
    entry.read(saved.back().second.data());
  }
  if (State::Entry* counter = owner_->state.find("random/counter")) {
    int64_t count = 0;
    counter->read(&count);
    --count;
    counter->write(&count);
  }
  run(ran_, batch_);
  for (auto& [entry, bytes] : saved) entry->write(bytes.data());
}

void Model::read(Value tensor, const ff_array& array) {
  const std::string name = owner_->graph.name(tensor);
  if (kept(name, FF_FORWARD) == nullptr) rerun_keeping(tensor, false);
  const Plan& plan = last_->plan();
  copy_out(array, kept(name, FF_FORWARD), plan.buffers[plan.results.at(name)].type, name);
}

void Model::read_gradient(Value tensor, const ff_array& array) {
  const std::string name = "gradient/" + owner_->graph.name(tensor);
  if (State::Entry* entry = owner_->state.find(name)) return read_entry(array, *entry, name);
  if (kept(name, FF_BACKWARD) == nullptr) rerun_keeping(tensor, true);
  const Plan& plan = last_->plan();
  copy_out(array, kept(name, FF_BACKWARD), plan.buffers[plan.results.at(name)].type, name);
}

void Model::zero_gradients() {
  for (const auto& [name, entry] : owner_->state.entries())
    if (name.rfind("gradient/", 0) == 0) owner_->state.find(name)->clear();
}

void Model::profile(bool on) {
  profiling_ = on;
  for (auto& [step, executable] : executables_) executable->profile(on);
}

std::string Model::profile_text() const {
  std::map<std::pair<std::string, std::string>, StepTime> total;
  for (const auto& [step, executable] : executables_)
    for (const StepTime& time : executable->times()) {
      StepTime& sum = total[{time.op, time.name}];
      sum.runs += time.runs;
      sum.seconds += time.seconds;
    }
  std::vector<std::pair<std::pair<std::string, std::string>, StepTime>> rows(total.begin(), total.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  std::ostringstream out;
  int width = 2;  // of the names of ops
  for (const auto& [key, time] : rows) width = std::max(width, static_cast<int>(key.first.size()));
  out << "microseconds     runs  " << std::left << std::setw(width) << "op" << "  name\n"
      << std::fixed << std::setprecision(1);
  for (const auto& [key, time] : rows)
    if (time.runs > 0)
      out << std::right << std::setw(12) << time.seconds / static_cast<double>(time.runs) * 1e6 << " " << std::setw(8)
          << time.runs << "  " << std::left << std::setw(width) << key.first << "  " << key.second << "\n";
  return out.str();
}

std::string Model::text(const std::string& what, int32_t sections) {
  if (what == "profile") return profile_text();
  const StepSpec step = step_spec(sections, 0);  // not of the last batch, which may have been a smaller one
  if (what == "graph") return to_string(build_step(owner_->graph, spec_, step, kernel_query()));
  if (what == "plan") return to_string(*plan(step));
  if (what == "memory") return memory_report(*plan(step));
  bad_value("text of \"", what, "\" is unknown; expected plan, memory, graph or profile");
}

}  // namespace ff::c_api
