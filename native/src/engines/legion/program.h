// A program of tasks in Legion: its memory as regions, its tasks as launches that are recorded once and replayed.
#pragma once

#include <legion.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engines/tasks.h"

namespace ff::legion {

using Range = Legion::Rect<1>;  // of bytes; its last one is in it

// Memory as Legion sees it: attached where it lies, with a part for each range that tasks use.
class Region {
 public:
  Region(void* data, size_t bytes, const std::vector<Range>& ranges);
  void destroy();
  Legion::RegionRequirement use(const Range& range, bool writes) const;

 private:
  void add_parts(const std::vector<Range>& apart);

  Legion::LogicalRegion region_;
  std::vector<Legion::IndexSpace> spaces_;
  std::map<std::pair<Legion::coord_t, Legion::coord_t>, Legion::LogicalRegion> parts_;  // by first and last byte
  Legion::PhysicalRegion attached_;
};

// What belongs to the thread that calls Legion: made, run and destroyed there.
class Program {
 public:
  explicit Program(TaskProgram program);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();
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

  void join_uses(Launch& launch);
  void make_regions();
  void make_launcher(Launch& launch);
  void execute(const Launch& launch, const std::vector<Legion::PhysicalRegion>& regions) const;

  TaskProgram program_;
  std::vector<char> turns_;      // by device, a byte that each of its tasks writes: it keeps them in order
  std::vector<Region> regions_;  // by memory, then by device for turns_
  std::vector<Launch> launches_;
  std::vector<int> last_;  // task of each device
  bool ran_ = false;
  Legion::TraceID trace_ = 0;
};

class LegionTasks : public LoadedTasks {
 public:
  explicit LegionTasks(TaskProgram program);
  ~LegionTasks() override;
  void run() override;

 private:
  std::unique_ptr<Program> program_;
};

// The one task that Legion knows of us.
void run_task(const Legion::Task* task, const std::vector<Legion::PhysicalRegion>& regions, Legion::Context context,
              Legion::Runtime* runtime);

}  // namespace ff::legion
