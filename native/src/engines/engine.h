// Engines execute plans. They are found by name, describe their machine, and know no operator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engines/state.h"
#include "graph/machine.h"
#include "lowering/plan.h"

namespace ff {

struct EngineConfig {
  std::string device = "cpu";  // kind of the devices
  int devices = 1;
  int threads = 0;            // per device; 0: cores / devices
  bool shared_memory = true;  // devices of one process read each other's memory; false: they copy, as far ones must
  std::vector<std::string> flags = {};  // of the runtime, word by word: -ll:*, -lg:*
};

// Time of one step of a plan, for the profile.
struct StepTime {
  std::string op, name;
  int64_t runs = 0;
  double seconds = 0;
};

// A plan on an engine, bound and ready.
class Executable {
 public:
  virtual ~Executable() = default;
  // Run the steps of these sections (bit i: Section i) in their order.
  virtual void run(unsigned sections) = 0;
  // The memory of a named result, dense; valid until the next run.
  virtual const void* result(const std::string& name) const = 0;
  virtual void profile(bool on) = 0;
  virtual std::vector<StepTime> times() const = 0;
  const Plan& plan() const { return *plan_; }

 protected:
  explicit Executable(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const Plan> plan_;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual Machine machine() const = 0;
  // Lines about the runtime behind the engine, for people; "" where there is none.
  virtual std::string description() const { return ""; }
  // Bind a plan to a state, which must outlive the executable. States of the plan that the state lacks are made
  // (zeroed, not ready).
  virtual std::unique_ptr<Executable> load(std::shared_ptr<const Plan> plan, State& state) = 0;
};

using EngineFactory = std::function<std::unique_ptr<Engine>(const EngineConfig&)>;
std::unique_ptr<Engine> make_engine(const std::string& name, const EngineConfig& config);
std::vector<std::string> engine_names();

struct EngineRegistration {
  EngineRegistration(std::string name, EngineFactory factory);
};

}  // namespace ff
