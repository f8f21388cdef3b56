// The Legion runtime of this process, started by us or joined, from its start to its end.
#pragma once

#include <legion.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "engines/legion/owner.h"

namespace ff::legion {

class Host {
 public:
  // Lives as long as the process: what ends late finds it still there.
  static Host& get();

  // Start or join, once. Throws an Error when it has ended, when flags come too late or are wrong.
  void open(const EngineConfig& config);
  // Finish our part of the runtime, and the runtime itself when we started it; with several processes this is for the
  // end of the process, which knows whether it failed.
  void close();

  // Whether calls are still possible: not after the end, and not in a process that was forked.
  bool alive() const;
  // Run a job on the thread that has our context; throws an Error when it is too late.
  void call(const std::function<void()>& job);

  bool started() const { return started_; }
  bool several() const;  // whether several processes run the program
  // For jobs: what calls of Legion need.
  Legion::Runtime* runtime() const { return runtime_; }
  Legion::Context context() const { return context_; }
  Legion::FieldSpace bytes() const { return bytes_; }
  Legion::TaskID task() const { return task_; }
  Legion::MapperID mapper() const { return mapper_; }

  static constexpr Legion::FieldID kByte = 0;  // the field of bytes()

 private:
  Host() = default;
  void start(const std::vector<std::string>& line);
  void begin();
  void leave_with_caller();
  void expect_alive() const;
  void close_with(int status);  // of the process
  void end();

  std::mutex mutex_;
  std::atomic<pid_t> process_{0};  // that opened it
  std::atomic<bool> ended_{false};
  bool started_ = false;
  std::vector<std::string> flags_;
  std::unique_ptr<Owner> owner_;
  Legion::Runtime* runtime_ = nullptr;
  Legion::Context context_ = nullptr;
  Legion::FieldSpace bytes_;
  Legion::TaskID task_ = 0;
  Legion::MapperID mapper_ = 0;
};

}  // namespace ff::legion
