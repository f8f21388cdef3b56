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
using Backward = dnnl::layer_normalization_backward;

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

Forward::primitive_desc forward_pd(const OpCall& call, const Samples& n, bool affine) {
  const Flags flags = affine ? Flags::use_scale | Flags::use_shift : Flags::none;
  return {dnnl_engine(), dnnl::prop_kind::forward_training, n.x, n.x, n.statistic, static_cast<float>(call.attrs.real("eps")), flags, user_scratchpad()};
}

Primitive layer_norm(const OpCall& call, const Layouts&) {
  const Samples n(call);
  const bool affine = call.inputs.size() == 3;
  std::vector<Arg> args = {in(DNNL_ARG_SRC, 0, n.x), out(DNNL_ARG_DST, 0, n.x), out(DNNL_ARG_MEAN, 1, n.statistic),
                           out(DNNL_ARG_VARIANCE, 2, n.statistic)};
  if (affine) args.insert(args.end(), {in(DNNL_ARG_SCALE, 1, n.weight), in(DNNL_ARG_SHIFT, 2, n.weight)});
  return describe<Forward>(forward_pd(call, n, affine), std::move(args));
}

Primitive layer_norm_grad_input(const OpCall& call, const Layouts&) {
  const Samples n(call);
  const bool affine = call.inputs.size() == 5;
  std::vector<Arg> args = {in(DNNL_ARG_SRC, 0, n.x), in(DNNL_ARG_DIFF_DST, 1, n.x), in(DNNL_ARG_MEAN, 2, n.statistic),
                           in(DNNL_ARG_VARIANCE, 3, n.statistic), out(DNNL_ARG_DIFF_SRC, 0, n.x)};
  if (affine) args.push_back(in(DNNL_ARG_SCALE, 4, n.weight));
  return describe<Backward>({dnnl_engine(), dnnl::prop_kind::backward_data, n.x, n.x, n.x, n.statistic,
                             static_cast<float>(call.attrs.real("eps")), affine ? Flags::use_scale : Flags::none,
                             forward_pd(call, n, affine), user_scratchpad()},
                            std::move(args));
}

// oneDNN gives the gradients of the weights only together with that of x; here the sums over the samples stand alone.
FF_SIMD void add_sample(const float* x, const float* dy, float mean, float rstd, float* dgamma, float* dbeta, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    dgamma[i] += dy[i] * ((x[i] - mean) * rstd);
    dbeta[i] += dy[i];
  }
}

std::unique_ptr<Kernel> bind_grad_weight(const BindContext& context) {
  const Samples n(context.call);
  const auto eps = static_cast<float>(context.call.attrs.real("eps"));
  return make_kernel([samples = n.samples, size = n.size, eps](const RunArgs& args) {
    const float *x = args.input<float>(0), *dy = args.input<float>(1), *mean = args.input<float>(2), *var = args.input<float>(3);
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

std::vector<KernelDef> layer_norm_kernels() {
  KernelDef weight;
  weight.op = "layer_norm_grad_weight";
  weight.device = "cpu";
  weight.supported = filled_float32;
  weight.bind = bind_grad_weight;
  return {primitive_kernel("layer_norm", layer_norm), primitive_kernel("layer_norm_grad_input", layer_norm_grad_input), weight};
}

REGISTER_KERNELS(layer_norm_kernels);

}  // namespace
}  // namespace ff::cpu
