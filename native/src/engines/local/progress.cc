#include "engines/local/progress.h"

#include <limits>
#include <thread>

namespace ff::local {
namespace {

// Partners that have a core each come within microseconds of each other; on a machine with fewer cores the one who
// waits must not keep the core from the other.
constexpr int kSpins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Progress::begin(size_t devices) {
  if (devices != devices_) {
    counts_ = std::make_unique<Count[]>(devices);
    devices_ = devices;
  }
  for (size_t d = 0; d < devices; ++d) counts_[d].value.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
}

void Progress::ended(int device, int step) {
  // After a failure the count stays beyond all steps, so that nobody waits.
  int before = counts_[device].value.load(std::memory_order_relaxed);
  while (before <= step && !counts_[device].value.compare_exchange_weak(before, step + 1, std::memory_order_release)) {
  }
  counts_[device].value.notify_all();
}

bool Progress::await(int device, int step) const {
  static const bool spin = std::thread::hardware_concurrency() > 1;
  const std::atomic<int>& count = counts_[device].value;
  int seen = count.load(std::memory_order_acquire);
  for (int i = 0; spin && seen <= step && i < kSpins; ++i) {
    pause();
    seen = count.load(std::memory_order_acquire);
  }
  while (seen <= step) {
    count.wait(seen, std::memory_order_acquire);
    seen = count.load(std::memory_order_acquire);
  }
  return !failed_.load(std::memory_order_acquire);
}

void Progress::fail() {
  failed_.store(true, std::memory_order_release);
  for (size_t d = 0; d < devices_; ++d) {
    counts_[d].value.store(std::numeric_limits<int>::max(), std::memory_order_release);
    counts_[d].value.notify_all();
  }
}

}  // namespace ff::local
