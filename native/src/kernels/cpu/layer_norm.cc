#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/simd.h"

namespace ff::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Flags = dnnl::normalization_flags;
using Forward = dnnl::layer_normalization_forward;

// x seen as (samples, size); a statistic per sample, a weight per element of a sample.
struct Samples {
  int64_t samples = 1, size = 1;
  Desc x, statistic, weight;

  explicit Samples(const OpCall& call) {
    const Shape& shape = call.inputs[0].shape;
    const size_t leading = shape.size() - call.attrs.ints("axes").size();
    for (size_t d = 0; d < shape.size(); ++d) (d < leading ? samples : size) *= shape[d];
    x = dense_desc({DType::float32, {samples, size}});
    statistic = dense_desc({DType::float32, {samples}});
    weight = dense_desc({DType::float32, {size}});
  }
};

float eps_of(const OpCall& call) { return static_cast<float>(call.attrs.real("eps")); }

Primitive layer_norm(const OpCall& call, const Layouts&) {
  const Samples n(call);
  const bool affine = call.inputs.size() == 3;
  std::vector<Arg> args = {in(DNNL_ARG_SRC, 0, n.x), out(DNNL_ARG_DST, 0, n.x), out(DNNL_ARG_MEAN, 1, n.statistic),
                           out(DNNL_ARG_VARIANCE, 2, n.statistic)};
  if (affine) args.insert(args.end(), {in(DNNL_ARG_SCALE, 1, n.weight), in(DNNL_ARG_SHIFT, 2, n.weight)});
  const Flags flags = affine ? Flags::use_scale | Flags::use_shift : Flags::none;
  return describe<Forward>(
      {dnnl_engine(), dnnl::prop_kind::forward_training, n.x, n.x, n.statistic, eps_of(call), flags, user_scratchpad()},
      std::move(args));
}

// oneDNN gives the gradients of x and of the weights only together, and a step may want them apart: splitting the
// samples leaves the latter as partial sums. So both are loops of ours.

// dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma, xhat = (x - mean) rstd, for one sample.
FF_SIMD void grad_of_sample(const float* x, const float* dy, const float* gamma, float mean, float rstd, float* dx,
                            int64_t size) {
  float sum_g = 0, sum_gx = 0;
#pragma omp simd reduction(+ : sum_g, sum_gx)
  for (int64_t i = 0; i < size; ++i) {
    const float g = dy[i] * gamma[i];
    sum_g += g;
    sum_gx += g * ((x[i] - mean) * rstd);
  }
  const float mean_g = sum_g / static_cast<float>(size), mean_gx = sum_gx / static_cast<float>(size);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) dx[i] = (dy[i] * gamma[i] - mean_g - (x[i] - mean) * rstd * mean_gx) * rstd;
}

std::unique_ptr<Kernel> bind_grad_input(const BindContext& context) {
  const Samples n(context.call);
  const bool affine = context.call.inputs.size() == 5;
  std::vector<float> ones(affine ? 0 : n.size, 1.0f);
  return make_kernel(
      [=, samples = n.samples, size = n.size, eps = eps_of(context.call), ones = std::move(ones)](const RunArgs& args) {
        const float *mean = args.input<float>(2), *var = args.input<float>(3),
                    *gamma = affine ? args.input<float>(4) : ones.data();
        parallel_for(samples, std::max<int64_t>(1, 4096 / size), [&](int64_t begin, int64_t end) {
          for (int64_t k = begin; k < end; ++k)
            grad_of_sample(args.input<float>(0) + k * size, args.input<float>(1) + k * size, gamma, mean[k],
                           1 / std::sqrt(var[k] + eps), args.output<float>(0) + k * size, size);
        });
      });
}

FF_SIMD void add_sample(const float* x, const float* dy, float mean, float rstd, float* dgamma, float* dbeta,
                        int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    dgamma[i] += dy[i] * ((x[i] - mean) * rstd);
    dbeta[i] += dy[i];
  }
}

std::unique_ptr<Kernel> bind_grad_weight(const BindContext& context) {
  const Samples n(context.call);
  const float eps = eps_of(context.call);
  return make_kernel([samples = n.samples, size = n.size, eps](const RunArgs& args) {
    const float *x = args.input<float>(0), *dy = args.input<float>(1), *mean = args.input<float>(2),
                *var = args.input<float>(3);
    parallel_for(size, 64, [&](int64_t begin, int64_t end) {
      float *dgamma = args.output<float>(0) + begin, *dbeta = args.output<float>(1) + begin;
      std::fill_n(dgamma, end - begin, 0.0f);
      std::fill_n(dbeta, end - begin, 0.0f);
      for (int64_t k = 0; k < samples; ++k) {
        const float rstd = 1 / std::sqrt(var[k] + eps);
        add_sample(x + k * size + begin, dy + k * size + begin, mean[k], rstd, dgamma, dbeta, end - begin);
      }
    });
  });
}

KernelDef loop_kernel(const std::string& op, std::unique_ptr<Kernel> (*bind)(const BindContext&)) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = filled_float32;
  def.bind = bind;
  return def;
}

std::vector<KernelDef> layer_norm_kernels() {
  return {primitive_kernel("layer_norm", layer_norm), loop_kernel("layer_norm_grad_input", bind_grad_input),
          loop_kernel("layer_norm_grad_weight", bind_grad_weight)};
}

REGISTER_KERNELS(layer_norm_kernels);

}  // namespace
}  // namespace ff::cpu
