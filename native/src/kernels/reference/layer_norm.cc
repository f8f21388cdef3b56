#include <cmath>

#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// x seen as (samples, size): each sample is normalised over its `size` elements.
struct Samples {
  int64_t samples = 1, size = 1;

  Samples(const OpCall& call) {
    const Shape& x = call.inputs[0].shape;
    const size_t leading = x.size() - call.attrs.ints("axes").size();
    for (size_t d = 0; d < x.size(); ++d) (d < leading ? samples : size) *= x[d];
  }
};

struct LayerNorm {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Samples n(call);
    const bool affine = call.inputs.size() == 3;
    for (int64_t k = 0; k < n.samples; ++k) {
      const T* x = args.input<T>(0) + k * n.size;
      T* y = args.output<T>(0) + k * n.size;
      double mean = 0, var = 0;
      for (int64_t i = 0; i < n.size; ++i) mean += x[i] / static_cast<double>(n.size);
      for (int64_t i = 0; i < n.size; ++i) var += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n.size);
      const double rstd = 1 / std::sqrt(var + call.attrs.real("eps"));
      for (int64_t i = 0; i < n.size; ++i) {
        const double xhat = (x[i] - mean) * rstd;
        y[i] = static_cast<T>(affine ? xhat * args.input<T>(1)[i] + args.input<T>(2)[i] : xhat);
      }
      args.output<T>(1)[k] = static_cast<T>(mean);
      args.output<T>(2)[k] = static_cast<T>(var);
    }
  }
};

struct LayerNormGradInput {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Samples n(call);
    const T* gamma = call.inputs.size() == 5 ? args.input<T>(4) : nullptr;
    for (int64_t k = 0; k < n.samples; ++k) {
      const T *x = args.input<T>(0) + k * n.size, *dy = args.input<T>(1) + k * n.size;
      const double mean = args.input<T>(2)[k], rstd = 1 / std::sqrt(args.input<T>(3)[k] + call.attrs.real("eps"));
      const auto g = [&](int64_t i) { return gamma != nullptr ? static_cast<double>(dy[i]) * gamma[i] : dy[i]; };
      const auto xhat = [&](int64_t i) { return (x[i] - mean) * rstd; };
      double mean_g = 0, mean_gx = 0;
      for (int64_t i = 0; i < n.size; ++i) mean_g += g(i) / static_cast<double>(n.size);
      for (int64_t i = 0; i < n.size; ++i) mean_gx += g(i) * xhat(i) / static_cast<double>(n.size);
      for (int64_t i = 0; i < n.size; ++i)
        args.output<T>(0)[k * n.size + i] = static_cast<T>((g(i) - mean_g - xhat(i) * mean_gx) * rstd);
    }
  }
};

struct LayerNormGradWeight {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Samples n(call);
    for (int64_t i = 0; i < n.size; ++i) {
      double dgamma = 0, dbeta = 0;
      for (int64_t k = 0; k < n.samples; ++k) {
        const double rstd = 1 / std::sqrt(args.input<T>(3)[k] + call.attrs.real("eps"));
        const double dy = args.input<T>(1)[k * n.size + i];
        dgamma += dy * (args.input<T>(0)[k * n.size + i] - args.input<T>(2)[k]) * rstd;
        dbeta += dy;
      }
      args.output<T>(0)[i] = static_cast<T>(dgamma);
      args.output<T>(1)[i] = static_cast<T>(dbeta);
    }
  }
};

std::vector<KernelDef> layer_norm_kernels() {
  return {float_kernel("layer_norm", LayerNorm{}), float_kernel("layer_norm_grad_input", LayerNormGradInput{}),
          float_kernel("layer_norm_grad_weight", LayerNormGradWeight{})};
}

REGISTER_KERNELS(layer_norm_kernels);

}  // namespace
}  // namespace ff::reference
