#include <cmath>

#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// x seen as (batch, channels, positions).
struct Channels {
  int64_t batch, channels, positions;

  explicit Channels(const Shape& x) : batch(x[0]), channels(x[1]), positions(numel(Shape(x.begin() + 2, x.end()))) {}
  int64_t count() const { return batch * positions; }
  // Call body(index) for every element of a channel.
  template <class Body>
  void each(int64_t channel, Body body) const {
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t s = 0; s < positions; ++s) body((n * channels + channel) * positions + s);
  }
};

// An empty batch has no statistics: it leaves the running ones as they are.
struct BatchNorm {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Channels n(call.inputs[0].shape);
    const T *x = args.input<T>(0), *gamma = args.input<T>(1), *beta = args.input<T>(2);
    const auto count = static_cast<double>(n.count());
    const double eps = call.attrs.real("eps"), momentum = n.count() == 0 ? 1.0 : call.attrs.real("momentum");
    const double correction = call.attrs.flag("unbiased") && n.count() > 1 ? count / (count - 1) : 1.0;
    for (int64_t c = 0; c < n.channels; ++c) {
      double mean = 0, var = 0;
      n.each(c, [&](int64_t i) { mean += x[i] / count; });
      n.each(c, [&](int64_t i) { var += (x[i] - mean) * (x[i] - mean) / count; });
      const double scale = gamma[c] / std::sqrt(var + eps);
      n.each(c, [&](int64_t i) { args.output<T>(0)[i] = static_cast<T>((x[i] - mean) * scale + beta[c]); });
      args.output<T>(1)[c] = static_cast<T>(momentum * args.input<T>(3)[c] + (1 - momentum) * mean);
      args.output<T>(2)[c] = static_cast<T>(momentum * args.input<T>(4)[c] + (1 - momentum) * var * correction);
      args.output<T>(3)[c] = static_cast<T>(mean);
      args.output<T>(4)[c] = static_cast<T>(var);
    }
  }
};

struct BatchNormGrad {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Channels n(call.inputs[0].shape);
    const T *x = args.input<T>(0), *dy = args.input<T>(1);
    const auto count = static_cast<double>(n.count());
    for (int64_t c = 0; c < n.channels; ++c) {
      const double gamma = args.input<T>(2)[c], mean = args.input<T>(3)[c];
      const double rstd = 1 / std::sqrt(args.input<T>(4)[c] + call.attrs.real("eps"));
      double dbeta = 0, dgamma = 0;
      n.each(c, [&](int64_t i) { dbeta += dy[i]; });
      n.each(c, [&](int64_t i) { dgamma += dy[i] * (x[i] - mean) * rstd; });
      n.each(c, [&](int64_t i) {
        args.output<T>(0)[i] =
            static_cast<T>(gamma * rstd * (dy[i] - dbeta / count - (x[i] - mean) * rstd * dgamma / count));
      });
      args.output<T>(1)[c] = static_cast<T>(dgamma);
      args.output<T>(2)[c] = static_cast<T>(dbeta);
    }
  }
};

struct BatchNormInference {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Channels n(call.inputs[0].shape);
    for (int64_t c = 0; c < n.channels; ++c) {
      const double scale = args.input<T>(1)[c] / std::sqrt(args.input<T>(4)[c] + call.attrs.real("eps"));
      const double mean = args.input<T>(3)[c], beta = args.input<T>(2)[c];
      n.each(c, [&](int64_t i) { args.output<T>(0)[i] = static_cast<T>((args.input<T>(0)[i] - mean) * scale + beta); });
    }
  }
};

std::vector<KernelDef> batch_norm_kernels() {
  return {float_kernel("batch_norm", BatchNorm{}), float_kernel("batch_norm_grad", BatchNormGrad{}),
          float_kernel("batch_norm_inference", BatchNormInference{})};
}

REGISTER_KERNELS(batch_norm_kernels);

}  // namespace
}  // namespace ff::reference
