// Searches for a strategy, each on a thread of its own, so that who asks may stop it and see how far it is.

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <sstream>
#include <thread>

#include "base/limits.h"
#include "base/parallel.h"
#include "c_api/model.h"
#include "c_api/objects.h"
#include "c_api/options.h"
#include "search/any_kernels.h"
#include "search/roofline.h"
#include "search/strategies.h"

namespace ff::c_api {

class Search {
 public:
  Search(Model& model, std::shared_ptr<const MachineModel> machine, Options options)
      : user_(model.owner().graph),
        machine_(std::move(machine)),
        step_(build_step(user_, unsplit(model.spec()), model.step_spec(model.widest(), 0), AnyKernels())),
        costs_(machine_->rates),
        transfers_(*machine_) {
    limits_.sample = options.take("sample", true);
    limits_.attribute = options.take("attribute", true);
    limits_.parameter = options.take("parameter", true);
    limits_.reduction = options.take("reduction", true);
    const int64_t most = options.take("most", static_cast<int64_t>(limits_.most));
    solve_.seed = static_cast<uint64_t>(options.take("seed", int64_t{0}));
    solve_.budget.seconds = options.take("seconds", 10.0);
    options.finish();
    if (most < 1) bad_value("search: most is ", most, "; expected at least one candidate for each op");
    if (!(solve_.budget.seconds >= 0))
      bad_value("search: seconds is ", solve_.budget.seconds, "; expected a number of at least 0");
    limits_.most = static_cast<size_t>(most);
    solve_.budget.stop = [this] { return stopped_.load(); };
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  ~Search() {
    stop();
    if (thread_.joinable()) thread_.join();
  }

  void add(Options strategy) {
    if (thread_.joinable()) fail(ErrorKind::state, "search: strategies to start from come before it runs");
    seeds_.push_back(take_strategy(user_, strategy));
    strategy.finish();
  }

  // Whether it is over, after so many seconds at most.
  bool wait(double seconds) {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    over_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return finished_; });
    if (finished_ && error_) std::rethrow_exception(error_);
    return finished_;
  }

  void stop() { stopped_ = true; }

  // -1: of the answer, else of what it started from.
  StrategyEstimate estimate(int32_t which) const {
    const Choices& choices = chosen(which);  // throws before there is a problem
    return problem_->estimate(choices);
  }
  std::string text(int32_t which) const {
    std::ostringstream out;
    const Choices& choices = chosen(which);
    for (const auto& [op, placement] : problem_->strategy_of(choices).ops) {
      out << user_.node(op).name << "\t" << placement.start;
      for (const Split& split : placement.splits)
        out << " " << split.index << ":" << split.degree << ":" << split.stride;
      out << "\n";
    }
    return out.str();
  }
  const ChoiceSolution& solution() const {
    const std::lock_guard lock(mutex_);
    if (!finished_ || error_) fail(ErrorKind::state, "the search is not over; call ff_search_run until it is");
    return solution_;
  }

 private:
  static CompileSpec unsplit(CompileSpec spec) {
    spec.strategy = {};
    return spec;
  }

  const Choices& chosen(int32_t which) const {
    const ChoiceSolution& answer = solution();
    if (which < -1 || which >= static_cast<int32_t>(solve_.starts.size()))
      bad_value("search: strategy ", which, "; expected -1 or one of the ", solve_.starts.size(),
                " that it started from");
    return which < 0 ? answer.assignment : solve_.starts[static_cast<size_t>(which)];
  }

  void run() {
    std::exception_ptr error;
    try {
      set_thread_count(usable_threads(usable_cores()));
      maker_ = std::make_unique<CandidateMaker>(user_, step_, *machine_, costs_, transfers_, limits_);
      problem_ = std::make_unique<StrategyProblem>(user_, *maker_, transfers_, *machine_, seeds_);
      for (const Strategy& seed : seeds_) solve_.starts.push_back(problem_->assignment_of(seed));
      solution_ = problem_->solve(solve_);
      if (!std::isfinite(solution_.cost))
        fail(ErrorKind::memory, "search: no strategy was found that leaves each of ", machine_->machine.devices.size(),
             " devices of ", machine_->name, " within its memory; take more devices, a smaller batch or more seconds");
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    finished_ = true;
    over_.notify_all();
  }

  Graph user_;
  std::shared_ptr<const MachineModel> machine_;
  Graph step_;
  Roofline costs_;
  Transfers transfers_;
  CandidateLimits limits_;
  SolveOptions solve_;
  std::vector<Strategy> seeds_;
  std::unique_ptr<CandidateMaker> maker_;
  std::unique_ptr<StrategyProblem> problem_;
  ChoiceSolution solution_;

  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable over_;
  std::atomic<bool> stopped_{false};
  bool finished_ = false;
  std::exception_ptr error_;
};

}  // namespace ff::c_api

using namespace ff;
using namespace ff::c_api;

extern "C" {

ff_status ff_search_create(ff_handle model, ff_handle machine, const ff_attr* options, size_t n_options,
                           ff_handle* search) {
  return guarded([&] {
    required(search, "search");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    *search = keep(std::make_shared<Search>(*object, machine_of(machine), Options(attrs_of(options, n_options))));
  });
}

ff_status ff_search_start_from(ff_handle search, const ff_attr* strategy, size_t n) {
  return guarded([&] { search_of(search)->add(Options(attrs_of(strategy, n))); });
}

ff_status ff_search_run(ff_handle search, double slice_ms, int32_t* finished) {
  return guarded([&] {
    required(finished, "finished");
    *finished = search_of(search)->wait(slice_ms * 1e-3) ? 1 : 0;
  });
}

ff_status ff_search_stop(ff_handle search) {
  return guarded([&] { search_of(search)->stop(); });
}

ff_status ff_search_read(ff_handle search, int32_t which, ff_estimate* estimate, const char** strategy) {
  return guarded([&] {
    required(estimate, "estimate");
    required(strategy, "strategy");
    const auto object = search_of(search);
    const StrategyEstimate found = object->estimate(which);
    const ChoiceSolution& solution = object->solution();
    *estimate = {found.seconds,         found.compute, found.sync, found.memory, std::max(0.0, solution.lower_bound),
                 solution.exact ? 1 : 0};
    *strategy = lend(object->text(which));
  });
}

}  // extern "C"
