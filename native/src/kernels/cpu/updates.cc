// Optimizer updates in one pass over the memory of a weight.
#include <cmath>

#include "base/parallel.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/simd.h"
#include "kernels/sum.h"

namespace ff::cpu {
namespace {

constexpr int64_t kGrain = 16384;

// New values may be written over old ones, element by element; the loops need not fear any other overlap.
FF_SIMD void descend(const float* w, const float* g, float* w_new, int64_t n, float rate, float decay) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) w_new[i] = w[i] - rate * (g[i] + decay * w[i]);
}

struct Momentum {
  float rate, decay, momentum;
  float ahead;  // with Nesterov's form the weight moves by `own` g + `ahead` v, else by v
  float own;
};

FF_SIMD void descend_with(const Momentum& c, const float* w, const float* g, const float* v, float* w_new, float* v_new,
                          int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float slope = g[i] + c.decay * w[i];
    const float speed = c.momentum * v[i] + slope;
    v_new[i] = speed;
    w_new[i] = w[i] - c.rate * (c.own * slope + c.ahead * speed);
  }
}

struct AdamStep {
  float rate, decay, keep1, keep2, epsilon;
};

FF_SIMD void adam_range(const AdamStep& c, const float* w, const float* g, const float* m, const float* v, float* w_new,
                        float* m_new, float* v_new, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float slope = g[i] + c.decay * w[i];
    const float mean = c.keep1 * m[i] + (1 - c.keep1) * slope;
    const float square = c.keep2 * v[i] + (1 - c.keep2) * slope * slope;
    m_new[i] = mean;
    v_new[i] = square;
    w_new[i] = w[i] - c.rate * mean / (std::sqrt(square) + c.epsilon);
  }
}

FF_SIMD void penalise(const float* g, const float* w, float* y, int64_t n, float l1, float l2) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float sign = (w[i] > 0 ? 1.0f : 0.0f) - (w[i] < 0 ? 1.0f : 0.0f);
    y[i] = g[i] + l1 * sign + l2 * w[i];
  }
}

FF_SIMD double squares(const float* g, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  return sum;
}

FF_SIMD void multiply(const float* g, float* y, int64_t n, float factor) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = g[i] * factor;
}

float attr(const OpCall& call, const std::string& name) { return static_cast<float>(call.attrs.real(name)); }

RunFn sgd(const OpCall& call) {
  const int64_t n = call.outputs[0].numel();
  Momentum c{0, attr(call, "weight_decay"), attr(call, "momentum"), 1, 0};
  if (call.attrs.flag("nesterov")) c.ahead = c.momentum, c.own = 1;
  if (call.outputs.size() == 1)
    return [n, c](const RunArgs& args) {
      const auto rate = static_cast<float>(*args.input<double>(2));
      parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
        descend(args.input<float>(0) + b, args.input<float>(1) + b, args.output<float>(0) + b, e - b, rate, c.decay);
      });
    };
  return [n, c](const RunArgs& args) {
    Momentum now = c;
    now.rate = static_cast<float>(*args.input<double>(2));
    parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
      descend_with(now, args.input<float>(0) + b, args.input<float>(1) + b, args.input<float>(4) + b,
                   args.output<float>(0) + b, args.output<float>(1) + b, e - b);
    });
  };
}

RunFn adam(const OpCall& call) {
  const double beta1 = call.attrs.real("beta1"), beta2 = call.attrs.real("beta2");
  const AdamStep c{0, attr(call, "weight_decay"), static_cast<float>(beta1), static_cast<float>(beta2),
                   attr(call, "epsilon")};
  return [n = call.outputs[0].numel(), c, beta1, beta2](const RunArgs& args) {
    const auto t = static_cast<double>(*args.input<int64_t>(3) + 1);
    AdamStep now = c;
    now.rate =
        static_cast<float>(*args.input<double>(2) * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)));
    parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
      adam_range(now, args.input<float>(0) + b, args.input<float>(1) + b, args.input<float>(4) + b,
                 args.input<float>(5) + b, args.output<float>(0) + b, args.output<float>(1) + b,
                 args.output<float>(2) + b, e - b);
    });
  };
}

RunFn regularize(const OpCall& call) {
  return [n = call.outputs[0].numel(), l1 = attr(call, "l1"), l2 = attr(call, "l2")](const RunArgs& args) {
    parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
      penalise(args.input<float>(0) + b, args.input<float>(1) + b, args.output<float>(0) + b, e - b, l1, l2);
    });
  };
}

RunFn square_sum(const OpCall& call) {
  return [n = call.inputs[0].numel()](const RunArgs& args) {
    *args.output<double>(0) =
        chunked_sum<double>(n, kGrain, [&](int64_t b, int64_t e) { return squares(args.input<float>(0) + b, e - b); });
  };
}

RunFn scale(const OpCall& call) {
  return [n = call.outputs[0].numel()](const RunArgs& args) {
    const auto factor = static_cast<float>(*args.input<double>(1));
    parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
      multiply(args.input<float>(0) + b, args.output<float>(0) + b, e - b, factor);
    });
  };
}

KernelDef kernel(const std::string& op, RunFn (*bind)(const OpCall&)) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = [](const OpCall& call) { return call.inputs[0].dtype == DType::float32; };
  def.bind = [bind](const BindContext& context) { return make_kernel(bind(context.call)); };
  return def;
}

std::vector<KernelDef> update_kernels() {
  return {kernel("sgd", sgd), kernel("adam", adam), kernel("regularize", regularize), kernel("square_sum", square_sum),
          kernel("scale", scale)};
}
REGISTER_KERNELS(update_kernels);

}  // namespace
}  // namespace ff::cpu
