// A compiled model: its plans, built when they are first asked for, over the state of its graph.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "c_api/objects.h"

namespace ff::c_api {

class Model {
 public:
  Model(std::shared_ptr<GraphObject> owner, CompileSpec spec, bool training, std::unique_ptr<Engine> engine);

  GraphObject& owner() const { return *owner_; }
  const CompileSpec& spec() const { return spec_; }

  // The section that does the most of what the model was compiled for.
  int32_t widest() const;
  // The step that an ff_section mask asks for, at a batch size.
  StepSpec step_spec(int32_t sections, int64_t batch) const;
  // Throws an Error where shapes, loss, optimizer or strategy do not fit, so that no step finds it out first.
  void check_fit() const { check_fit(spec_, machine_); }
  // Another strategy from now on, on an engine that may have other devices; states follow when plans are loaded.
  void move_to(Strategy strategy, std::unique_ptr<Engine> engine);
  // The plan of a step, made but not loaded.
  std::shared_ptr<const Plan> plan(const StepSpec& step);
  // The loaded plan of a step; its states have values.
  Executable& executable(const StepSpec& step);
  // One run on what the inputs hold. Sections on their own must come in order: see require_order.
  void run(int32_t sections, int64_t batch);

  // An intermediate tensor, or the gradient of any tensor, after a run of sections on their own.
  void read(Value tensor, const ff_array& array);
  void read_gradient(Value tensor, const ff_array& array);

  Engine& engine() const { return *engine_; }
  int64_t batch() const { return batch_; }  // rows that the inputs hold
  void set_batch(int64_t rows) { batch_ = rows; }
  // That the devices belong to; none: this one alone.
  std::shared_ptr<Processes> processes() const { return engine_->processes(); }
  double step_ms() const { return step_ms_; }  // of the last slice of steps
  void set_step_ms(double milliseconds) { step_ms_ = milliseconds; }
  void zero_gradients();
  void profile(bool on);
  std::string text(const std::string& what, int32_t sections);

 private:
  void check_fit(const CompileSpec& spec, const Machine& machine) const;
  void share_state();
  void drop_plans();
  void require_order(int32_t sections) const;
  void require_inputs(const Plan& plan, unsigned sections) const;
  void rerun_keeping(Value tensor, bool gradient);
  const void* kept(const std::string& name, int32_t made_by) const;
  std::string profile_text() const;

  std::shared_ptr<GraphObject> owner_;
  CompileSpec spec_;
  bool training_;
  std::unique_ptr<Engine> engine_;
  Machine machine_;
  std::map<StepSpec, std::shared_ptr<const Plan>> plans_;
  std::map<StepSpec, std::unique_ptr<Executable>> executables_;
  std::vector<Value> pinned_, pinned_gradients_;
  uint64_t version_ = 0;  // of the graph, when the plans were made
  int64_t batch_ = 0;
  double step_ms_ = 1000;       // unknown: one step fills a slice
  int32_t ran_ = 0;             // sections on their own that the next ones may build on
  int32_t held_ = 0;            // those whose tensors are still there to be read
  Executable* last_ = nullptr;  // of these
  bool profiling_ = false;
};

}  // namespace ff::c_api
