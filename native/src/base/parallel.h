// The one way in which our own kernels use several cores. It shares its thread pool with oneDNN, so that the
// two never fight for cores.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ff {

// Threads that a parallel_for on this thread uses.
int thread_count();
// Set it for this thread. n >= 1.
void set_thread_count(int n);
// How many of `wanted` threads this process may use at once; what computes must not count on more.
int usable_threads(int wanted);
// Start the threads that this thread's loops will use. Throws an Error when the system does not give them: libgomp
// would end the process.
void start_threads(int n);

namespace detail {
using RangeFn = void (*)(void* self, int64_t begin, int64_t end);
void parallel_ranges(int64_t n, int64_t grain, RangeFn fn, void* self);
}  // namespace detail

// Call body(begin, end) on disjoint ranges that cover [0, n), each of at least `grain` items but the last; small
// work runs on the calling thread. The body must not throw.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& body) {
  if (n <= grain || n <= 1) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  detail::parallel_ranges(
      n, grain,
      [](void* self, int64_t begin, int64_t end) { (*static_cast<std::remove_reference_t<F>*>(self))(begin, end); },
      &body);
}

}  // namespace ff
