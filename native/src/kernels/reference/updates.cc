// Optimizer updates, penalties, counters.
#include <cmath>

#include "base/parallel.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"
#include "kernels/sum.h"

namespace ff::reference {
namespace {

constexpr int64_t kGrain = 8192;

void sgd(auto zero, const OpCall& call, const RunArgs& args) {
  using T = decltype(zero);
  const T momentum = static_cast<T>(call.attrs.real("momentum")),
          decay = static_cast<T>(call.attrs.real("weight_decay"));
  const bool nesterov = call.attrs.flag("nesterov"), keeps = call.outputs.size() > 1;
  const T rate = static_cast<T>(*args.input<double>(2));
  const T *w = args.input<T>(0), *g = args.input<T>(1), *v = keeps ? args.input<T>(4) : nullptr;
  T *w_new = args.output<T>(0), *v_new = keeps ? args.output<T>(1) : nullptr;
  parallel_for(call.outputs[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T step = g[i] + decay * w[i];
      if (keeps) {
        v_new[i] = momentum * v[i] + step;
        step = nesterov ? step + momentum * v_new[i] : v_new[i];
      }
      w_new[i] = w[i] - rate * step;
    }
  });
}

void adam(auto zero, const OpCall& call, const RunArgs& args) {
  using T = decltype(zero);
  const double beta1 = call.attrs.real("beta1"), beta2 = call.attrs.real("beta2");
  const double t = static_cast<double>(*args.input<int64_t>(3) + 1);
  const T rate = static_cast<T>(*args.input<double>(2) * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)));
  const T keep1 = static_cast<T>(beta1), keep2 = static_cast<T>(beta2),
          epsilon = static_cast<T>(call.attrs.real("epsilon"));
  const T decay = static_cast<T>(call.attrs.real("weight_decay"));
  const T *w = args.input<T>(0), *g = args.input<T>(1), *m = args.input<T>(4), *v = args.input<T>(5);
  T *w_new = args.output<T>(0), *m_new = args.output<T>(1), *v_new = args.output<T>(2);
  parallel_for(call.outputs[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T slope = g[i] + decay * w[i];
      m_new[i] = keep1 * m[i] + (1 - keep1) * slope;
      v_new[i] = keep2 * v[i] + (1 - keep2) * slope * slope;
      w_new[i] = w[i] - rate * m_new[i] / (std::sqrt(v_new[i]) + epsilon);
    }
  });
}

void regularize(auto zero, const OpCall& call, const RunArgs& args) {
  using T = decltype(zero);
  const T l1 = static_cast<T>(call.attrs.real("l1")), l2 = static_cast<T>(call.attrs.real("l2"));
  const T *g = args.input<T>(0), *w = args.input<T>(1);
  T* out = args.output<T>(0);
  parallel_for(call.outputs[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = g[i] + l1 * static_cast<T>((w[i] > 0) - (w[i] < 0)) + l2 * w[i];
  });
}

void scale(auto zero, const OpCall& call, const RunArgs& args) {
  using T = decltype(zero);
  const T factor = static_cast<T>(*args.input<double>(1));
  parallel_for(call.outputs[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) args.output<T>(0)[i] = args.input<T>(0)[i] * factor;
  });
}

std::unique_ptr<Kernel> bind_square_sum(const BindContext& context) {
  return dispatch_float(context.call.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return make_kernel([n = context.call.inputs[0].numel()](const RunArgs& args) {
      const T* g = args.input<T>(0);
      *args.output<double>(0) = chunked_sum<double>(n, kGrain, [&](int64_t begin, int64_t end) {
        double sum = 0;
        for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
        return sum;
      });
    });
  });
}

std::unique_ptr<Kernel> bind_clip_factor(const BindContext& context) {
  return make_kernel([n = context.call.inputs.size(), most = context.call.attrs.real("norm")](const RunArgs& args) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += *args.input<double>(static_cast<int>(i));
    const double norm = std::sqrt(sum);
    // A norm that is NaN must not pass for a small one.
    *args.output<double>(0) = norm <= most ? 1.0 : most / norm;
  });
}

bool float_input(const OpCall& call) {
  return call.inputs[0].dtype == DType::float32 || call.inputs[0].dtype == DType::float64;
}

std::unique_ptr<Kernel> bind_increment(const BindContext& context) {
  return dispatch_index(context.call.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return make_kernel([n = context.call.outputs[0].numel()](const RunArgs& args) {
      for (int64_t i = 0; i < n; ++i) args.output<T>(0)[i] = args.input<T>(0)[i] + 1;
    });
  });
}

std::vector<KernelDef> update_kernels() {
  return {
      float_kernel("sgd", [](auto zero, const auto& call, const auto& args) { sgd(zero, call, args); }),
      float_kernel("adam", [](auto zero, const auto& call, const auto& args) { adam(zero, call, args); }),
      float_kernel("regularize", [](auto zero, const auto& call, const auto& args) { regularize(zero, call, args); }),
      float_kernel("scale", [](auto zero, const auto& call, const auto& args) { scale(zero, call, args); }),
      define("square_sum", bind_square_sum, float_input),
      define("clip_factor", bind_clip_factor),
      define("increment", bind_increment)};
}
REGISTER_KERNELS(update_kernels);

}  // namespace
}  // namespace ff::reference
