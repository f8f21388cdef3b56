#include "engines/legion/owner.h"

#include <pthread.h>
#include <signal.h>

#include "base/error.h"

namespace ff::legion {
namespace {

// What a caller waits for. A task of Legion must not block its processor, on which what it waits for may have to run:
// it waits in Legion's own way.
class Ending {
 public:
  Ending() {
    if (!Legion::Processor::get_executing_processor().exists() || !Legion::Runtime::has_context()) return;
    runtime_ = Legion::Runtime::get_runtime();
    barrier_ = runtime_->create_phase_barrier(Legion::Runtime::get_context(), 1);
  }

  void notify() {
    if (runtime_ != nullptr) {
      Legion::PhaseBarrier barrier = barrier_;
      barrier.arrive(1);
      return;
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    condition_.notify_one();
  }

  void wait() {
    if (runtime_ != nullptr) {
      const Legion::Context context = Legion::Runtime::get_context();
      runtime_->advance_phase_barrier(context, barrier_).wait();
      runtime_->destroy_phase_barrier(context, barrier_);
      return;
    }
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [&] { return ended_; });
  }

 private:
  Legion::Runtime* runtime_ = nullptr;
  Legion::PhaseBarrier barrier_;
  std::mutex mutex_;
  std::condition_variable condition_;
  bool ended_ = false;
};

}  // namespace

Owner::Owner() {
  // Signals are for the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Owner::call(const std::function<void()>& job) { post(job, false); }

void Owner::end(const std::function<void()>& job) {
  post(job, true);
  thread_.join();
}

void Owner::post(const std::function<void()>& job, bool last) {
  Ending ending;
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    if (ending_) fail(ErrorKind::state, "the Legion runtime of this process has ended, and Legion cannot start twice");
    jobs_.push_back([&] {
      try {
        job();
      } catch (...) {
        error = std::current_exception();
      }
      ending.notify();
    });
    ending_ = last;
    posted_.notify_one();
  }
  ending.wait();
  if (error != nullptr) std::rethrow_exception(error);
}

void Owner::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [&] { return !jobs_.empty() || ending_; });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace ff::legion
