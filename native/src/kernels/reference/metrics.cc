#include <array>
#include <cmath>
#include <type_traits>

#include "kernels/loss.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"
#include "kernels/sum.h"

namespace ff::reference {
namespace {

struct Totals {
  double samples = 0, loss = 0, correct = 0, categorical = 0, sparse = 0, squared = 0, root = 0, absolute = 0;

  std::array<double, 8> values() const {
    return {samples, loss, correct, categorical, sparse, squared, root, absolute};
  }
  Totals& operator+=(const Totals& other) {
    samples += other.samples;
    loss += other.loss;
    correct += other.correct;
    categorical += other.categorical;
    sparse += other.sparse;
    squared += other.squared;
    root += other.root;
    absolute += other.absolute;
    return *this;
  }
};

// The attributes, read once.
struct Wanted {
  explicit Wanted(const Attrs& attrs)
      : accuracy(attrs.flag("accuracy")),
        categorical(attrs.flag("categorical_crossentropy")),
        sparse(attrs.flag("sparse_categorical_crossentropy")),
        errors(attrs.flag("mean_squared_error") || attrs.flag("root_mean_squared_error") ||
               attrs.flag("mean_absolute_error")) {}
  bool accuracy, categorical, sparse, errors;
};

double log_of(double p) { return std::log(std::max(p, 1e-8)); }

// The label of a row over its classes: given as such, or 1 at the class that an id names.
template <class L>
struct RowLabel {
  const L* label;
  int64_t classes;

  static constexpr bool kIds = std::is_integral_v<L>;
  double at(int64_t c) const {
    return kIds && classes > 1 ? static_cast<double>(c == truth()) : static_cast<double>(label[c]);
  }
  int64_t truth() const {
    if constexpr (kIds) return *label;
    return std::max_element(label, label + classes) - label;
  }
};

template <class T, class L>
bool is_correct(const T* p, const RowLabel<L>& label) {
  if (label.classes == 1) return (*p > 0.5) == (*label.label > 0.5);
  return std::max_element(p, p + label.classes) - p == label.truth();
}

template <class T, class L>
double cross_entropy(const T* p, const RowLabel<L>& label) {
  if (label.kIds && label.classes > 1) return -log_of(p[label.truth()]);
  double sum = 0;
  for (int64_t c = 0; c < label.classes; ++c)
    if (const double y = label.at(c); y != 0) sum -= y * log_of(p[c]);
  return sum;
}

template <class T, class L>
Totals of_row(const T* p, const RowLabel<L>& label, const Wanted& wanted) {
  Totals sums;
  sums.samples = 1;
  if (wanted.accuracy) sums.correct = is_correct(p, label);
  if (wanted.categorical || wanted.sparse) {
    const double entropy = cross_entropy(p, label);
    if (wanted.categorical) sums.categorical = entropy;
    if (wanted.sparse) sums.sparse = entropy;
  }
  if (wanted.errors) {
    for (int64_t c = 0; c < label.classes; ++c) {
      const double error = p[c] - label.at(c);
      sums.squared += error * error / static_cast<double>(label.classes);
      sums.absolute += std::abs(error) / static_cast<double>(label.classes);
    }
    sums.root = std::sqrt(sums.squared);
  }
  return sums;
}

template <class T, class L>
Totals of_batch(const OpCall& call, const RunArgs& args) {
  const Rows rows = rows_of(call);
  const T* prediction = args.input<T>(0);
  const L* labels = args.input<L>(1);
  const bool ids = call.attrs.flag("sparse");
  if constexpr (std::is_integral_v<L>)
    if (rows.classes > 1) check_labels(call, labels, rows);
  const Wanted wanted(call.attrs);
  Totals totals =
      chunked_sum<Totals>(rows.count, 1 + 1024 / std::max<int64_t>(rows.classes, 1), [&](int64_t begin, int64_t end) {
        Totals sums;
        for (int64_t row = begin; row < end; ++row)
          sums += of_row(prediction + row * rows.classes,
                         RowLabel<L>{labels + row * (ids ? 1 : rows.classes), rows.classes}, wanted);
        return sums;
      });
  totals.loss = totals.samples * *args.input<T>(2);
  return totals;
}

// Of the parts of a split batch, one adds the old totals.
bool first_part(const Box& box) {
  return std::all_of(box.begin(), box.end(), [](const IndexRange& range) { return range.origin == 0; });
}

void metrics(auto zero, const OpCall& call, const RunArgs& args) {
  using T = decltype(zero);
  const Totals totals =
      call.attrs.flag("sparse")
          ? dispatch_index(call.inputs[1].dtype, [&](auto id) { return of_batch<T, decltype(id)>(call, args); })
          : of_batch<T, T>(call, args);
  const std::array<double, 8> sums = totals.values();
  const bool carries = first_part(call.box);
  for (int i = 0; i < 8; ++i) args.output<double>(0)[i] = sums[i] + (carries ? args.input<double>(3)[i] : 0);
}

std::unique_ptr<Kernel> bind_metrics(const BindContext& context) {
  return dispatch_float(context.call.inputs[0].dtype, [&](auto zero) {
    return make_kernel([zero, call = context.call](const RunArgs& args) { metrics(zero, call, args); });
  });
}

std::vector<KernelDef> metrics_kernels() {
  return {define("metrics", bind_metrics, [](const OpCall& call) {
    return call.inputs[0].dtype == DType::float32 || call.inputs[0].dtype == DType::float64;
  })};
}
REGISTER_KERNELS(metrics_kernels);

}  // namespace
}  // namespace ff::reference
