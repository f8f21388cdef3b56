#include "base/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>

namespace ff {
namespace {

// libgomp's pool does not survive fork: a child that asked for the parent's threads would wait for them for ever. A
// child therefore computes with one thread until a device sets up workers of its own.
const int fork_guard = pthread_atfork(nullptr, nullptr, [] { omp_set_num_threads(1); });

}  // namespace

int thread_count() { return omp_get_max_threads(); }

void set_thread_count(int n) { omp_set_num_threads(std::max(1, n)); }

void detail::parallel_ranges(int64_t n, int64_t grain, RangeFn fn, void* self) {
  const int64_t most = (n + grain - 1) / std::max<int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<int64_t>(most, omp_in_parallel() ? 1 : thread_count()));
  if (threads <= 1) {
    fn(self, 0, n);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; ++t) fn(self, n * t / threads, n * (t + 1) / threads);
}

}  // namespace ff
