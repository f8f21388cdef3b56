// UCX polls without pause, on every thread that Realm gives it. Where processes share cores, those who wait take the
// time from those who compute. Realm was loaded for this library, so its calls of this function come here first.
#include <dlfcn.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

extern "C" __attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
  using Poll = unsigned (*)(void*);
  static const Poll poll = reinterpret_cast<Poll>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  constexpr int kPolls = 4, kYields = 64;  // in vain, before a yield, and before a nap
  thread_local int idle = -1;
  if (idle < 0) {
    prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds; a nap would otherwise take twice as long
    idle = 0;
  }
  const unsigned progress = poll(worker);
  if (progress > 0) {
    idle = 0;
  } else if (++idle > kPolls + kYields) {
    constexpr timespec kNap = {0, 50'000};
    nanosleep(&kNap, nullptr);
  } else if (idle > kPolls) {
    sched_yield();
  }
  return progress;
}
