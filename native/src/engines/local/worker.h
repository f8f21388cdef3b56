// A thread that runs jobs for a device.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace ff::local {

class Worker {
 public:
  Worker();
  ~Worker();
  // Run a job there; finish() waits for it and throws what it threw.
  void start(std::function<void()> job);
  void finish();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  std::exception_ptr error_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace ff::local
