#include "base/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/error.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ff {
namespace {

// libgomp is not instrumented: that a team starts after its caller came, and ends before the caller goes on, has to be
// told to the thread sanitizer, loop by loop.
#if defined(__SANITIZE_THREAD__)
void happened_before(void* loop) { __tsan_release(loop); }
void happens_after(void* loop) { __tsan_acquire(loop); }
#else
void happened_before(void*) {}
void happens_after(void*) {}
#endif

// libgomp's pool does not survive fork: a child that asked for the parent's threads would wait for them for ever. A
// child therefore computes with one thread until a device sets up workers of its own.
const int fork_guard = pthread_atfork(nullptr, nullptr, [] { omp_set_num_threads(1); });

}  // namespace

int thread_count() { return omp_get_max_threads(); }

void set_thread_count(int n) { omp_set_num_threads(std::max(1, n)); }

// Loops and oneDNN's barriers count on teams of the size that they ask for: nothing may make them smaller later.
int usable_threads(int wanted) {
  omp_set_dynamic(0);
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
  return std::min(wanted, omp_get_thread_limit());
}

void start_threads(int n) {
  thread_local int started = 1;
  if (n <= started) return;
  std::vector<pthread_t> tried;  // as many at one time as libgomp will start
  std::mutex hold;
  const auto wait = [](void* mutex) -> void* {
    const std::lock_guard lock(*static_cast<std::mutex*>(mutex));
    return nullptr;
  };
  {
    const std::lock_guard lock(hold);
    pthread_t thread;
    while (static_cast<int>(tried.size()) < n - 1 && pthread_create(&thread, nullptr, wait, &hold) == 0)
      tried.push_back(thread);
  }
  for (const pthread_t thread : tried) pthread_join(thread, nullptr);
  if (static_cast<int>(tried.size()) < n - 1)
    fail(ErrorKind::memory, "the system gives this process ", tried.size() + 1, " threads, not ", n,
         "; ask for fewer (threads=...), or raise the limit (ulimit -u, memory)");
  (void)usable_threads(n);  // settings of this thread
#pragma omp parallel num_threads(n)
  {
  }
  started = n;
}

void detail::parallel_ranges(int64_t n, int64_t grain, RangeFn fn, void* self) {
  const int64_t most = (n + grain - 1) / std::max<int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<int64_t>(most, omp_in_parallel() ? 1 : thread_count()));
  if (threads <= 1) {
    fn(self, 0, n);
    return;
  }
  happened_before(self);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; ++t) {
    happens_after(self);
    fn(self, n * t / threads, n * (t + 1) / threads);
    happened_before(self);
  }
  happens_after(self);
}

}  // namespace ff
