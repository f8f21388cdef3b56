// Losses and their gradients. The two cross-entropies over classes go row by row, the others element by element.
#include <cmath>

#include "kernels/loss.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"
#include "kernels/sum.h"

namespace ff::reference {
namespace {

constexpr int64_t kGrain = 2048;  // elements
constexpr double kLeast = 1e-12;  // of a probability whose logarithm is taken

// ---- row by row ----

// The label of a row as a distribution over the classes.
template <class T>
struct DenseLabel {
  const T* labels;
  int64_t classes;
  double smoothing;

  double at(int64_t row, int64_t c) const {
    return labels[row * classes + c] * (1 - smoothing) + smoothing / static_cast<double>(classes);
  }
};

template <class Id>
struct SparseLabel {
  const Id* labels;

  double at(int64_t row, int64_t c) const { return labels[row] == static_cast<Id>(c) ? 1 : 0; }
};

template <class F>
void with_label(const OpCall& call, const RunArgs& args, const Rows& rows, F&& f) {
  if (call.op.starts_with("sparse")) {
    dispatch_index(call.inputs[1].dtype, [&](auto zero) {
      using Id = decltype(zero);
      check_labels(call, args.input<Id>(1), rows);
      f(SparseLabel<Id>{args.input<Id>(1)});
    });
  } else {
    dispatch_float(call.inputs[1].dtype, [&](auto zero) {
      using T = decltype(zero);
      f(DenseLabel<T>{args.input<T>(1), rows.classes, call.attrs.real("label_smoothing")});
    });
  }
}

// log(sum(exp(x))), shifted so that nothing overflows.
template <class T>
double log_sum_exp(const T* x, int64_t n) {
  const double largest = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += std::exp(x[c] - largest);
  return largest + std::log(sum);
}

template <class T>
double least(T p) {
  return std::max(static_cast<double>(p), kLeast);
}

void cross_entropy(auto zero, const OpCall& call, const RunArgs& args) {
  using T = decltype(zero);
  const Rows rows = rows_of(call);
  const bool logits = call.attrs.flag("from_logits");
  const T* prediction = args.input<T>(0);
  with_label(call, args, rows, [&](const auto& label) {
    const double sum = chunked_sum<double>(rows.count, 1 + kGrain / rows.classes, [&](int64_t begin, int64_t end) {
      double loss = 0;
      for (int64_t row = begin; row < end; ++row) {
        const T* p = prediction + row * rows.classes;
        const double total = logits ? log_sum_exp(p, rows.classes) : 0;
        for (int64_t c = 0; c < rows.classes; ++c)
          if (const double y = label.at(row, c); y != 0) loss += y * (logits ? total - p[c] : -std::log(least(p[c])));
      }
      return loss;
    });
    *args.output<T>(0) = static_cast<T>(sum / rows.global);
  });
}

void cross_entropy_grad(auto zero, const OpCall& call, const RunArgs& args) {
  using T = decltype(zero);
  const Rows rows = rows_of(call);
  const bool logits = call.attrs.flag("from_logits");
  const double scale = *args.input<T>(2) / rows.global;
  with_label(call, args, rows, [&](const auto& label) {
    parallel_for(rows.count, 1 + kGrain / rows.classes, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* p = args.input<T>(0) + row * rows.classes;
        T* dp = args.output<T>(0) + row * rows.classes;
        const double total = logits ? log_sum_exp(p, rows.classes) : 0;
        double mass = 0;  // of the label: 1, unless the user's labels are no distributions
        for (int64_t c = 0; c < rows.classes; ++c) mass += label.at(row, c);
        for (int64_t c = 0; c < rows.classes; ++c) {
          const double y = label.at(row, c);
          dp[c] = static_cast<T>(scale * (logits ? std::exp(p[c] - total) * mass - y : -y / least(p[c])));
        }
      }
    });
  });
}

// ---- element by element ----

// What the whole sum is divided by: all elements, or the samples where a sample counts by its sum.
double divisor(const OpCall& call, bool per_sample) {
  const Shape& shape = call.inputs[0].shape;
  int64_t count = 1;
  for (size_t d = 0; d < (per_sample ? 1 : shape.size()); ++d)
    count *= call.box.empty() ? shape[d] : call.box[d].global;
  return static_cast<double>(std::max<int64_t>(count, 1));
}

bool labelled(const OpCall& call) { return !call.op.starts_with("identity"); }

bool sums_samples(const OpCall& call) {
  return !labelled(call) || (call.attrs.has("reduction") && call.attrs.text("reduction") == "sum");
}

bool from_logits(const OpCall& call) { return call.attrs.has("from_logits") && call.attrs.flag("from_logits"); }

// value(p, y, logits)
template <class F>
KernelDef loss(const std::string& op, F value) {
  return float_kernel(op, [value](auto zero, const OpCall& call, const RunArgs& args) {
    using T = decltype(zero);
    const bool logits = from_logits(call);
    // Without a label its place is taken by the prediction, at which the function does not look.
    const T *p = args.input<T>(0), *y = args.input<T>(labelled(call) ? 1 : 0);
    const double sum = chunked_sum<double>(call.inputs[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
      double part = 0;
      for (int64_t i = begin; i < end; ++i) part += value(p[i], y[i], logits);
      return part;
    });
    *args.output<T>(0) = static_cast<T>(sum / divisor(call, sums_samples(call)));
  });
}

// slope(p, y, logits), the derivative of value with respect to p
template <class F>
KernelDef loss_grad(const std::string& op, F slope) {
  return float_kernel(op, [slope](auto zero, const OpCall& call, const RunArgs& args) {
    using T = decltype(zero);
    const bool logits = from_logits(call);
    // Without a label its place is taken by the prediction, at which the function does not look.
    const T *p = args.input<T>(0), *y = args.input<T>(labelled(call) ? 1 : 0);
    T* dp = args.output<T>(0);
    const double scale = *args.input<T>(labelled(call) ? 2 : 1) / divisor(call, sums_samples(call));
    parallel_for(call.inputs[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) dp[i] = static_cast<T>(scale * slope(p[i], y[i], logits));
    });
  });
}

double binary_entropy(double p, double y, bool logits) {
  if (logits) return std::max(p, 0.0) - p * y + std::log1p(std::exp(-std::abs(p)));
  return -(y * std::log(least(p)) + (1 - y) * std::log(least(1 - p)));
}

double binary_entropy_slope(double p, double y, bool logits) {
  return logits ? 1 / (1 + std::exp(-p)) - y : (1 - y) / least(1 - p) - y / least(p);
}

std::vector<KernelDef> loss_kernels() {
  std::vector<KernelDef> kernels;
  for (const char* name : {"categorical_crossentropy", "sparse_categorical_crossentropy"}) {
    kernels.push_back(
        float_kernel(name, [](auto zero, const auto& call, const auto& args) { cross_entropy(zero, call, args); }));
    kernels.push_back(float_kernel(std::string(name) + "_grad", [](auto zero, const auto& call, const auto& args) {
      cross_entropy_grad(zero, call, args);
    }));
  }
  const auto row = [&](const std::string& name, auto value, auto slope) {
    kernels.push_back(loss(name, value));
    kernels.push_back(loss_grad(name + "_grad", slope));
  };
  row("binary_crossentropy", binary_entropy, binary_entropy_slope);
  row(
      "mean_squared_error", [](double p, double y, bool) { return (p - y) * (p - y); },
      [](double p, double y, bool) { return 2 * (p - y); });
  row(
      "mean_absolute_error", [](double p, double y, bool) { return std::abs(p - y); },
      [](double p, double y, bool) { return static_cast<double>((p > y) - (p < y)); });
  row("identity_loss", [](double p, double, bool) { return p; }, [](double, double, bool) { return 1.0; });
  return kernels;
}
REGISTER_KERNELS(loss_kernels);

}  // namespace
}  // namespace ff::reference
