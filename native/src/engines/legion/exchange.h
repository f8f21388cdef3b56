// Bytes from one process to all, as tasks of Legion.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engines/legion/program.h"

namespace ff::legion {

class Exchange {
 public:
  Exchange();
  int processes() const { return static_cast<int>(machine_.devices.size()); }
  int here() const { return machine_.node; }
  // All processes make the same calls in one order.
  void broadcast(int from, void* data, size_t bytes);
  // What each process gives, in all of them.
  std::vector<uint64_t> gather(uint64_t value);

 private:
  // Memory of a process that the others copy, and the tasks that do it.
  struct Channel {
    std::vector<char> memory;
    char* data = nullptr;
    size_t bytes = 0;
    std::unique_ptr<LegionTasks> tasks;
  };
  Channel& channel(int from, size_t bytes);

  Machine machine_;  // a device for each process
  std::map<std::pair<int, size_t>, Channel> channels_;
};

}  // namespace ff::legion
