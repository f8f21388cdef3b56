// The machine that a plan is made for, as the engine that will run it describes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ff {

struct Device {
  std::string kind;  // "cpu", "reference", "cuda": which kernels run there
  int threads = 1;
  int64_t memory = 0;  // bytes
  int node = 0;
  int space = -1;  // devices of one address space read each other's memory as their own; -1: one of its own
};

struct Machine {
  std::vector<Device> devices;
  int node = 0;  // of this process: each process runs the same program, and its devices are those of its node

  bool is_here(int device) const { return devices[device].node == node; }
  bool share_memory(int a, int b) const {
    if (a == b) return true;
    const auto n = static_cast<int>(devices.size());
    return a < n && b < n && devices[a].space >= 0 && devices[a].space == devices[b].space;
  }
};

}  // namespace ff
