// The numbers of bucket elimination: products of the min-plus semiring, and the way back to an assignment.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "search/elimination.h"

namespace ff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// One step's minimisation. Factors are brought into one layout, (other axes, the one that goes, the inner one), with
// those that lie within another's axes added to it; then every row of the message is a minimum over rows of sums.
class Minimisation {
 public:
  Minimisation(const EliminationStep& step, const std::vector<std::vector<double>>& values) : sizes_(step.sizes) {
    const int axes = static_cast<int>(sizes_.size());
    for (int a = 1; a < axes; ++a)
      if (inner_ == 0 || sizes_[a] >= sizes_[inner_]) inner_ = a;
    for (int a = 1; a < axes; ++a)
      if (a != inner_) layout_.push_back(a);
    outer_ = layout_.size();
    layout_.push_back(0);
    if (inner_ != 0) layout_.push_back(inner_);
    std::vector<const EliminationStep::Input*> inputs;
    for (const EliminationStep::Input& input : step.inputs) inputs.push_back(&input);
    std::stable_sort(inputs.begin(), inputs.end(), [](auto* a, auto* b) { return a->axes.size() > b->axes.size(); });
    for (const EliminationStep::Input* input : inputs) add(*input, values[input->content]);
  }

  // False when the deadline was over before the end.
  bool run(std::vector<double>& message, Deadline& deadline) const {
    int64_t rows = 1, entries = 1;
    for (size_t i = 0; i < outer_; ++i) rows *= sizes_[layout_[i]];
    for (size_t a = 1; a < sizes_.size(); ++a) entries *= sizes_[a];
    message.resize(static_cast<size_t>(entries));
    const int64_t row_operations = entries / rows * sizes_[0];
    constexpr int64_t kAtOnce = 8'000'000, kGrain = 400'000;  // operations: some milliseconds, some tenths of one
    const int64_t chunk = std::max<int64_t>(1, kAtOnce / row_operations);
    for (int64_t begin = 0; begin < rows; begin += chunk) {
      if (deadline.over()) return false;
      parallel_for(std::min(chunk, rows - begin), std::max<int64_t>(1, kGrain / row_operations),
                   [&](int64_t from, int64_t to) {
                     std::vector<double> best(inner_size()), sum(inner_size());
                     for (int64_t row = begin + from; row < begin + to; ++row) minimise(row, best, sum, message);
                   });
    }
    return true;
  }

 private:
  struct Summand {
    std::vector<double> values;
    std::vector<int64_t> strides;  // by axis; 0 where it lacks it
    bool has(int axis) const { return strides[axis] != 0; }
  };

  size_t inner_size() const { return inner_ == 0 ? 1 : static_cast<size_t>(sizes_[inner_]); }

  void add(const EliminationStep::Input& input, const std::vector<double>& values) {
    std::vector<int64_t> strides(sizes_.size(), 0);
    int64_t stride = 1;
    for (size_t i = input.axes.size(); i-- > 0; stride *= sizes_[input.axes[i]]) strides[input.axes[i]] = stride;
    const auto home = std::find_if(summands_.begin(), summands_.end(), [&](const Summand& summand) {
      return std::all_of(input.axes.begin(), input.axes.end(), [&](int axis) { return summand.has(axis); });
    });
    Summand& summand = home == summands_.end() ? make_summand(input.axes) : *home;
    accumulate(summand, values, strides);
  }

  Summand& make_summand(const std::vector<int>& axes) {
    Summand summand{{}, std::vector<int64_t>(sizes_.size(), 0)};
    int64_t stride = 1;
    for (size_t i = layout_.size(); i-- > 0;)
      if (std::find(axes.begin(), axes.end(), layout_[i]) != axes.end()) {
        summand.strides[layout_[i]] = stride;
        stride *= sizes_[layout_[i]];
      }
    summand.values.assign(static_cast<size_t>(stride), 0.0);
    return summands_.emplace_back(std::move(summand));
  }

  void accumulate(Summand& summand, const std::vector<double>& values, const std::vector<int64_t>& strides) {
    std::vector<int> axes;
    for (const int axis : layout_)
      if (summand.has(axis)) axes.push_back(axis);
    const int last = axes.back();
    axes.pop_back();
    std::vector<int64_t> at(axes.size(), 0);
    const double* from = values.data();
    const int64_t run = sizes_[last], stride = strides[last], runs = static_cast<int64_t>(summand.values.size()) / run;
    for (int64_t r = 0; r < runs; ++r) {
      double* to = summand.values.data() + r * run;
      for (int64_t j = 0; j < run; ++j) to[j] += from[j * stride];
      for (size_t i = axes.size(); i-- > 0;) {
        from += strides[axes[i]];
        if (++at[i] < sizes_[axes[i]]) break;
        from -= strides[axes[i]] * sizes_[axes[i]];
        at[i] = 0;
      }
    }
  }

  void minimise(int64_t row, std::vector<double>& best, std::vector<double>& sum, std::vector<double>& message) const {
    // Where the row starts in every summand and in the message.
    std::vector<const double*> whole, single;
    std::vector<int64_t> message_strides(sizes_.size(), 1);
    for (size_t a = sizes_.size() - 1; a-- > 1;) message_strides[a] = message_strides[a + 1] * sizes_[a + 1];
    std::vector<int64_t> at(sizes_.size(), 0);
    int64_t to = 0;
    for (size_t i = outer_; i-- > 0; row /= sizes_[layout_[i]]) at[layout_[i]] = row % sizes_[layout_[i]];
    for (size_t a = 1; a < sizes_.size(); ++a) to += at[a] * message_strides[a];
    for (const Summand& summand : summands_) {
      int64_t start = 0;
      for (size_t a = 1; a < sizes_.size(); ++a) start += at[a] * summand.strides[a];
      (inner_ != 0 && summand.has(inner_) ? whole : single).push_back(summand.values.data() + start);
    }
    std::fill(best.begin(), best.end(), kInfinity);
    for (int64_t k = 0; k < sizes_[0]; ++k) {
      double alone = 0;
      for (const double* values : single) alone += values[k];
      if (alone < kInfinity) lower(best, sum, whole, k, alone);
    }
    const int64_t stride = inner_ == 0 ? 1 : message_strides[inner_];
    for (size_t j = 0; j < best.size(); ++j)
      message[static_cast<size_t>(to + static_cast<int64_t>(j) * stride)] = best[j];
  }

  static void lower(std::vector<double>& best, std::vector<double>& sum, const std::vector<const double*>& whole,
                    int64_t k, double alone) {
    const int64_t n = static_cast<int64_t>(best.size());
    double* least = best.data();
    double* row_sum = sum.data();
    if (whole.size() == 1) {
      const double* row = whole[0] + k * n;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) least[j] = std::min(least[j], alone + row[j]);
      return;
    }
    std::fill(sum.begin(), sum.end(), alone);
    for (const double* values : whole) {
      const double* row = values + k * n;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) row_sum[j] += row[j];
    }
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) least[j] = std::min(least[j], row_sum[j]);
  }

  const std::vector<int64_t>& sizes_;
  int inner_ = 0;            // the largest axis of the message; 0 when that is a single number
  std::vector<int> layout_;  // axes of a summand, if it has them
  size_t outer_ = 0;         // how many of them come before axis 0
  std::vector<Summand> summands_;
};

}  // namespace

Deadline::Deadline(const SearchBudget& budget) : budget_(budget), start_(now()), asked_(start_) {}

bool Deadline::over() {
  constexpr double kBetween = 0.01;
  const double time = now();
  if (!over_ && time - start_ >= budget_.seconds) over_ = true;
  if (!over_ && budget_.stop && (time - asked_ >= kBetween || asked_ == start_)) {
    over_ = budget_.stop();
    asked_ = now();
  }
  return over_;
}

Messages::Messages(const ChoiceProblem& problem, const EliminationPlan& plan, const std::vector<double>& weights,
                   Deadline& deadline)
    : problem_(problem), plan_(plan), done_(plan.complete) {
  const size_t tables = problem.tables().size();
  values_.resize(tables + plan.steps.size());
  for (const EliminationPlan::Variable& gone : plan.order)
    for (const Factor& factor : gone.bucket) {
      const size_t content = static_cast<size_t>(factor.content);
      if (content >= tables || !values_[content].empty()) continue;
      values_[content] = weighted(problem.tables()[content], weights);
      (void)deadline.over();  // asked, so that many tables are no silence
    }
  for (size_t s = 0; s < plan.steps.size() && done_; ++s)
    done_ = Minimisation(plan.steps[s], values_).run(values_[tables + s], deadline);
}

double Messages::bound() const {
  double sum = 0;
  for (const Factor& message : plan_.messages)
    if (message.scope.empty()) sum += values_[message.content][0];
  return sum;
}

Choices Messages::assignment() const {
  Choices chosen(problem_.size(), 0);
  for (size_t i = plan_.order.size(); i-- > 0;) {
    const EliminationPlan::Variable& gone = plan_.order[i];
    std::vector<double> sums(problem_.candidates(gone.variable), 0.0);
    for (const Factor& factor : gone.bucket) {
      size_t start = 0, stride = 1, step = 0;
      for (size_t a = factor.scope.size(); a-- > 0; stride *= problem_.candidates(factor.scope[a])) {
        if (factor.scope[a] == gone.variable)
          step = stride;
        else
          start += stride * static_cast<size_t>(chosen[factor.scope[a]]);
      }
      for (size_t k = 0; k < sums.size(); ++k) sums[k] += values_[factor.content][start + k * step];
    }
    chosen[gone.variable] = static_cast<int>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  }
  return chosen;
}

}  // namespace ff
