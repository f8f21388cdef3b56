// Cross-entropies over classes and their gradients, from scores with the softmax inside: per row one pass for the
// largest score, one for the sum of exponentials, one for the gradient.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/primitive.h"
#include "kernels/cpu/simd.h"
#include "kernels/loss.h"
#include "kernels/sum.h"

namespace ff::cpu {
namespace {

constexpr int64_t kGrain = 4096;  // elements
constexpr float kLeast = 1e-12f;  // of a probability whose logarithm is taken

// As integers, negative floats grow with their magnitude. Below -88, where exp is no normal number any more, all are
// taken for -88, whose exp comes out as 0; a NaN stays. Comparing floats would keep loops from being vectorised: it may
// trap.
__attribute__((always_inline)) inline float bounded(float x) {
  constexpr auto kLowest = std::bit_cast<int32_t>(-88.0f),
                 kInfinite = std::bit_cast<int32_t>(-std::numeric_limits<float>::infinity());
  const auto bits = std::bit_cast<int32_t>(x);
  return std::bit_cast<float>((bits > kLowest) & (bits <= kInfinite) ? kLowest : bits);
}

// exp for x <= 0, to two units in the last place, in operations that vectorise: 2^n times the series of the rest, n
// taken from the mantissa of a sum so large that it holds no fraction.
__attribute__((always_inline)) inline float exp_of(float x) {
  constexpr float kRound = 0x1.8p23f, kLog2E = 1.44269504f, kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  x = bounded(x);
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  const float series =
      1 + r * (1 + r * (1 / 2.f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r * (1 / 720.f + r / 5040.f))))));
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound) + 127;
  return series * std::bit_cast<float>(exponent << 23);
}

FF_SIMD float largest(const float* x, int64_t n) {
  float best = x[0];
#pragma omp simd reduction(max : best)
  for (int64_t c = 0; c < n; ++c) best = x[c] > best ? x[c] : best;
  return best;
}

FF_SIMD float sum_exp(const float* x, float shift, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < n; ++c) sum += exp_of(x[c] - shift);
  return sum;
}

// y = scale * exp(x - shift)
FF_SIMD void scaled_exp(const float* x, float shift, float scale, float* y, int64_t n) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) y[c] = scale * exp_of(x[c] - shift);
}

// y -= a * x + b
FF_SIMD void subtract_affine(const float* x, float a, float b, float* y, int64_t n) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) y[c] -= a * x[c] + b;
}

struct Sums {
  float x = 0, y = 0, xy = 0;
};

FF_SIMD void sums_of(const float* x, const float* y, Sums* sums, int64_t n) {
  float sx = 0, sy = 0, sxy = 0;
#pragma omp simd reduction(+ : sx, sy, sxy)
  for (int64_t c = 0; c < n; ++c) {
    sx += x[c];
    sy += y[c];
    sxy += x[c] * y[c];
  }
  *sums = {sx, sy, sxy};
}

float log_sum_exp(const float* x, int64_t n) {
  const float shift = largest(x, n);
  return shift + std::log(sum_exp(x, shift, n));
}

// Rows of scores against labels that are distributions.
struct Dense {
  const float* labels;
  int64_t classes;
  float smoothing;

  Dense(const OpCall& call, const Rows& rows, const RunArgs& args)
      : labels(args.input<float>(1)),
        classes(rows.classes),
        smoothing(static_cast<float>(call.attrs.real("label_smoothing"))) {}

  float spread() const { return smoothing / static_cast<float>(classes); }
  double loss(int64_t row, const float* x) const {
    Sums sums;
    sums_of(x, labels + row * classes, &sums, classes);
    const float mass = (1 - smoothing) * sums.y + smoothing;
    return static_cast<double>(mass) * log_sum_exp(x, classes) - ((1 - smoothing) * sums.xy + spread() * sums.x);
  }
  void gradient(int64_t row, const float* x, float scale, float* dx) const {
    const float* label = labels + row * classes;
    Sums sums;
    sums_of(x, label, &sums, classes);
    scaled_exp(x, log_sum_exp(x, classes), scale * ((1 - smoothing) * sums.y + smoothing), dx, classes);
    subtract_affine(label, scale * (1 - smoothing), scale * spread(), dx, classes);
  }
};

// Rows of scores, or of probabilities, against labels that are class ids.
template <class Id>
struct Sparse {
  const Id* labels;
  int64_t classes;
  bool logits;

  Sparse(const OpCall& call, const Rows& rows, const RunArgs& args)
      : labels(args.input<Id>(1)), classes(rows.classes), logits(call.attrs.flag("from_logits")) {
    check_labels(call, labels, rows);
  }

  double loss(int64_t row, const float* x) const {
    const float own = x[labels[row]];
    return logits ? log_sum_exp(x, classes) - own : -std::log(std::max(own, kLeast));
  }
  void gradient(int64_t row, const float* x, float scale, float* dx) const {
    const Id own = labels[row];
    if (logits) {
      scaled_exp(x, log_sum_exp(x, classes), scale, dx, classes);
      dx[own] -= scale;
    } else {
      const float slope = -scale / std::max(x[own], kLeast);
      std::fill_n(dx, classes, 0.0f);
      dx[own] = slope;
    }
  }
};

template <class Label>
void loss(const OpCall& call, const RunArgs& args) {
  const Rows rows = rows_of(call);
  const Label label(call, rows, args);
  const double sum = chunked_sum<double>(rows.count, 1 + kGrain / rows.classes, [&](int64_t begin, int64_t end) {
    double part = 0;
    for (int64_t row = begin; row < end; ++row) part += label.loss(row, args.input<float>(0) + row * rows.classes);
    return part;
  });
  *args.output<float>(0) = static_cast<float>(sum / rows.global);
}

template <class Label>
void loss_grad(const OpCall& call, const RunArgs& args) {
  const Rows rows = rows_of(call);
  const Label label(call, rows, args);
  const auto scale = static_cast<float>(*args.input<float>(2) / rows.global);
  parallel_for(rows.count, 1 + kGrain / rows.classes, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      label.gradient(row, args.input<float>(0) + row * rows.classes, scale, args.output<float>(0) + row * rows.classes);
  });
}

using Supported = bool (*)(const OpCall&);

bool float_scores(const OpCall& call) { return filled_float32(call) && call.attrs.flag("from_logits"); }

template <DType id>
bool labelled_by(const OpCall& call) {
  return call.inputs[0].dtype == DType::float32 && call.inputs[0].numel() > 0 && call.inputs[1].dtype == id;
}

KernelDef kernel(const std::string& op, void (*run)(const OpCall&, const RunArgs&), Supported supported) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = supported;
  def.bind = [run](const BindContext& context) {
    return make_kernel([run, call = context.call](const RunArgs& args) { run(call, args); });
  };
  return def;
}

std::vector<KernelDef> loss_kernels() {
  const std::string dense = "categorical_crossentropy", sparse = "sparse_categorical_crossentropy";
  return {kernel(dense, loss<Dense>, float_scores),
          kernel(dense + "_grad", loss_grad<Dense>, float_scores),
          kernel(sparse, loss<Sparse<int32_t>>, labelled_by<DType::int32>),
          kernel(sparse, loss<Sparse<int64_t>>, labelled_by<DType::int64>),
          kernel(sparse + "_grad", loss_grad<Sparse<int32_t>>, labelled_by<DType::int32>),
          kernel(sparse + "_grad", loss_grad<Sparse<int64_t>>, labelled_by<DType::int64>)};
}
REGISTER_KERNELS(loss_kernels);

}  // namespace
}  // namespace ff::cpu
