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
};

struct Machine {
  std::vector<Device> devices;
};

}  // namespace ff
