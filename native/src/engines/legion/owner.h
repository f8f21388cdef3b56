// The one thread that calls Legion: a context of Legion belongs to a thread, and users call from any.
#pragma once

#include <legion.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace ff::legion {

class Owner {
 public:
  Owner();
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  // Run a job on the thread and wait for its end; throws what the job throws.
  void call(const std::function<void()>& job);
  // Run a last job and end the thread; calls after this one throw.
  void end(const std::function<void()>& job);

 private:
  void post(const std::function<void()>& job, bool last);
  void serve();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> jobs_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses all others
};

}  // namespace ff::legion
