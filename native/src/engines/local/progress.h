// How far each device is in a run. Devices wait for each other here and nowhere else.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace ff::local {

class Progress {
 public:
  // All devices are before the first step.
  void begin(size_t devices);
  // A device has ended a step; it ends them in the order of their numbers.
  void ended(int device, int step);
  // Wait until a device has ended a step; false: some device failed, and nothing is worth waiting for.
  bool await(int device, int step) const;
  void fail();

 private:
  // On cache lines of their own: each is written by one thread and read by others.
  struct alignas(64) Count {
    std::atomic<int> value{0};  // steps with numbers below this have ended
  };

  std::unique_ptr<Count[]> counts_;
  size_t devices_ = 0;
  std::atomic<bool> failed_{false};
};

}  // namespace ff::local
