// A plan with kernels bound to its calls and memory behind its buffers: what all engines share that compute.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engines/engine.h"
#include "kernels/kernel.h"

namespace ff {

// Memory that the plans of one engine take turns to use.
class Arenas {
 public:
  explicit Arenas(Machine machine);
  void reserve(const std::vector<size_t>& arena_bytes, const std::vector<size_t>& scratch_bytes);
  void* arena(int device) const { return arenas_[device].memory.data(); }
  void* scratch(int device) const { return scratches_[device].memory.data(); }
  // Changes when memory moved, in all processes together.
  uint64_t generation() const { return generation_; }

 private:
  struct Reserved {
    size_t bytes = 0;
    Memory memory;  // of devices of this process
  };
  void grow(std::vector<Reserved>& reserved, const std::vector<size_t>& bytes);

  Machine machine_;
  std::vector<Reserved> arenas_, scratches_;  // by device
  uint64_t generation_ = 1;
};

class BoundPlan {
 public:
  // Makes the states and inputs that the plan wants, and reserves memory.
  BoundPlan(std::shared_ptr<const Plan> plan, State& state, std::shared_ptr<Arenas> arenas);

  // Bind the calls of a device of this process, on the thread that will run them.
  void bind(int device);
  // Look up all pointers, if memory moved since; whether it did.
  bool resolve();
  // One step, by its number in the plan, on its device.
  void execute(int step);
  // After a run of these sections (bit i: Section i): the states that they write have new values.
  void count_writes(unsigned sections);

  static bool runs(const Step& step, unsigned sections) {
    return (sections >> static_cast<unsigned>(step.section) & 1u) != 0;
  }
  // Where a buffer lies; nullptr: in another process.
  char* pointer(BufferId id) const { return pointers_[id]; }
  // A step reads an input there from now on: a copy of what lies in another process.
  void read_from(int step, int input, const void* address) { calls_[step].in[input] = address; }
  const void* result(const std::string& name) const;
  void profile(bool on);
  std::vector<StepTime> times() const;

 private:
  struct Call {
    std::unique_ptr<Kernel> kernel;
    std::vector<const void*> in;
    std::vector<void*> out;
    State::Entry* fresh_with = nullptr;
    uint64_t seen_version = ~uint64_t{0};
    int64_t runs = 0;
    double seconds = 0;
  };

  void* memory_of(BufferId root);
  void resolve(int step);

  std::shared_ptr<const Plan> plan_;
  State& state_;
  std::shared_ptr<Arenas> arenas_;
  std::vector<Call> calls_;                              // by step
  std::vector<Memory> pinned_;                           // by buffer
  std::vector<char*> pointers_;                          // by buffer
  std::set<std::pair<Section, State::Entry*>> written_;  // states that each section changes
  uint64_t state_generation_ = 0, arenas_generation_ = 0;
  bool profiling_ = false;
};

}  // namespace ff
