// The engine over a runtime of tasks: it divides a plan into tasks, and the runtime orders and places them.
#pragma once

#include "engines/bound_plan.h"
#include "engines/tasks.h"

namespace ff {

class TaskedEngine : public Engine {
 public:
  explicit TaskedEngine(std::shared_ptr<TaskRuntime> runtime);

  Machine machine() const override { return machine_; }
  std::string description() const override { return runtime_->description(); }
  std::shared_ptr<Processes> processes() const override;
  std::unique_ptr<Executable> load(std::shared_ptr<const Plan> plan, State& state) override;

 private:
  std::shared_ptr<TaskRuntime> runtime_;
  Machine machine_;
  std::shared_ptr<Arenas> arenas_;
};

}  // namespace ff
