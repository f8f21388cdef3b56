// A program of tasks in Legion: its memory as regions, its tasks as launches that are recorded once and replayed.
#pragma once

#include <legion.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engines/legion/copies.h"
#include "engines/tasks.h"

namespace ff::legion {

using Range = Legion::Rect<1>;                             // of bytes; its last one is in it
using Ends = std::pair<Legion::coord_t, Legion::coord_t>;  // its first and last byte

// The memories of a program as Legion sees them: one after another in one region, each attached where it lies by the
// process that has it, with a part for each range that tasks use.
class Regions {
 public:
  // data: of each memory, nullptr in the processes that do not have it.
  struct Piece {
    void* data;
    size_t bytes;
    std::vector<Range> ranges;
  };
  explicit Regions(const std::vector<Piece>& memories);
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;
  // When nothing uses them any more. Processes may come to it at different times.
  ~Regions();

  Legion::RegionRequirement use(int memory, const Range& range, bool writes) const;
  Legion::coord_t begin(int memory) const { return begins_[memory]; }  // where its byte 0 is in the region

 private:
  Range in_region(int memory, const Range& range) const;
  std::vector<Legion::LogicalRegion> divide(Legion::LogicalRegion whole, const std::vector<Range>& ranges);
  void attach(const std::vector<Piece>& memories, const std::vector<int>& used,
              const std::vector<Legion::LogicalRegion>& regions);

  std::vector<Legion::coord_t> begins_;
  std::vector<Legion::IndexSpace> spaces_;
  std::map<Ends, Legion::LogicalRegion> parts_;
  Legion::LogicalRegion region_;
  Legion::ExternalResources attached_;
};

// What belongs to the thread that calls Legion: made, run and destroyed there.
class Program {
 public:
  // machine: of the devices of the tasks.
  Program(TaskProgram program, const Machine& machine);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  void run();

 private:
  // Uses of one memory by one task, joined where they overlap.
  struct Piece {
    int memory;
    Range range;
    bool writes;
  };
  struct Launch {
    const Program* program;
    const Launch* self;  // what the task is given
    int task;
    std::vector<Piece> pieces;
    std::vector<int> piece_of;  // by use; -1: it is of no byte
    Legion::TaskLauncher launcher;
  };
  friend void run_task(const Legion::Task*, const std::vector<Legion::PhysicalRegion>&, Legion::Context,
                       Legion::Runtime*);

  int add_gates(const Machine& machine);
  void join_uses(Launch& launch);
  std::map<int, size_t> copied(const Machine& machine) const;
  void make_regions(const Machine& machine);
  void make_launcher(Launch& launch, const Machine& machine);
  void execute(const Launch& launch, const std::vector<Legion::PhysicalRegion>& regions) const;

  TaskProgram program_;
  int gates_;                // tasks before those that were given
  std::vector<char> turns_;  // by device, a byte that each of its tasks writes: it keeps them in order
  std::unique_ptr<Copies> copies_;
  std::unique_ptr<Regions> regions_;  // of the memories, then of turns_
  std::vector<Launch> launches_;
  std::vector<int> last_;  // task of each device
  bool spread_;            // over several processes
  bool ran_ = false;
  Legion::TraceID trace_ = 0;
};

class LegionTasks : public LoadedTasks {
 public:
  LegionTasks(TaskProgram program, const Machine& machine);
  ~LegionTasks() override;
  void run() override;

 private:
  std::unique_ptr<Program> program_;
};

// The one task that Legion knows of us.
void run_task(const Legion::Task* task, const std::vector<Legion::PhysicalRegion>& regions, Legion::Context context,
              Legion::Runtime* runtime);

}  // namespace ff::legion
