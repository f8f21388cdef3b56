// batch_norm, its gradient and its form in inference, in blocked layouts where the channels allow it.
#include "kernels/cpu/primitive.h"

namespace ff::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Flags = dnnl::normalization_flags;
using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;

const Flags kAffine = Flags::use_scale | Flags::use_shift;

float eps_of(const OpCall& call) { return static_cast<float>(call.attrs.real("eps")); }

Forward::primitive_desc forward_pd(const OpCall& call, dnnl::prop_kind kind, const Desc& x, Flags flags) {
  return {dnnl_engine(), kind, x, x, eps_of(call), flags, user_scratchpad()};
}

// One layout for x and the tensors like it, dense for the rest.
Layouts like_x(const OpCall& call, const std::vector<Layout>& inputs) {
  const bool take_dy = call.op == "batch_norm_grad" && inputs[0].dense();
  const Layout x = image_layout(call.inputs[0], inputs[take_dy ? 1 : 0]);
  const auto pick = [&](const TensorType& type) { return type == call.inputs[0] ? x : Layout(); };
  Layouts layouts;
  for (const TensorType& type : call.inputs) layouts.inputs.push_back(pick(type));
  for (const TensorType& type : call.outputs) layouts.outputs.push_back(pick(type));
  return layouts;
}

Primitive normalise(const OpCall& call, const Layouts& layouts) {
  const Desc x = desc_of(call.inputs[0], layouts.inputs[0]), channel = dense_desc(call.inputs[1]);
  return describe<Forward>(
      forward_pd(call, dnnl::prop_kind::forward_training, x, kAffine),
      {in(DNNL_ARG_SRC, 0, x), in(DNNL_ARG_SCALE, 1, channel), in(DNNL_ARG_SHIFT, 2, channel), out(DNNL_ARG_DST, 0, x),
       out(DNNL_ARG_MEAN, 3, channel), out(DNNL_ARG_VARIANCE, 4, channel)});
}

class BatchNorm : public Kernel {
 public:
  explicit BatchNorm(const BindContext& context)
      : normalise_(bind_primitive(normalise(context.call, context.layouts))),
        channels_(context.call.inputs[1].numel()),
        keep_(static_cast<float>(context.call.attrs.real("momentum"))) {
    const auto n = static_cast<double>(context.call.inputs[0].numel() / channels_);
    if (context.call.attrs.flag("unbiased") && n > 1) correction_ = static_cast<float>(n / (n - 1));
  }

  void run(const RunArgs& args) override {
    normalise_->run(args);
    const float *mean = args.output<float>(3), *var = args.output<float>(4);
    for (int64_t c = 0; c < channels_; ++c) {
      args.output<float>(1)[c] = keep_ * args.input<float>(3)[c] + (1 - keep_) * mean[c];
      args.output<float>(2)[c] = keep_ * args.input<float>(4)[c] + (1 - keep_) * correction_ * var[c];
    }
  }

 private:
  std::unique_ptr<PrimitiveKernel> normalise_;
  int64_t channels_;
  float keep_;  // the share of the old statistics
  float correction_ = 1;
};

Primitive batch_norm_grad(const OpCall& call, const Layouts& layouts) {
  const Desc x = desc_of(call.inputs[0], layouts.inputs[0]), channel = dense_desc(call.inputs[2]);
  const auto hint = forward_pd(call, dnnl::prop_kind::forward_training, x, kAffine);
  return describe<Backward>(
      {dnnl_engine(), dnnl::prop_kind::backward, x, x, x, eps_of(call), kAffine, hint, user_scratchpad()},
      {in(DNNL_ARG_SRC, 0, x), in(DNNL_ARG_DIFF_DST, 1, x), in(DNNL_ARG_SCALE, 2, channel),
       in(DNNL_ARG_MEAN, 3, channel), in(DNNL_ARG_VARIANCE, 4, channel), out(DNNL_ARG_DIFF_SRC, 0, x),
       out(DNNL_ARG_DIFF_SCALE, 1, channel), out(DNNL_ARG_DIFF_SHIFT, 2, channel)});
}

Primitive batch_norm_inference(const OpCall& call, const Layouts& layouts) {
  const Desc x = desc_of(call.inputs[0], layouts.inputs[0]), channel = dense_desc(call.inputs[1]);
  return describe<Forward>(forward_pd(call, dnnl::prop_kind::forward_inference, x, kAffine | Flags::use_global_stats),
                           {in(DNNL_ARG_SRC, 0, x), in(DNNL_ARG_SCALE, 1, channel), in(DNNL_ARG_SHIFT, 2, channel),
                            in(DNNL_ARG_MEAN, 3, channel), in(DNNL_ARG_VARIANCE, 4, channel), out(DNNL_ARG_DST, 0, x)});
}

std::vector<KernelDef> batch_norm_kernels() {
  std::vector<KernelDef> defs = {primitive_kernel("batch_norm", normalise),
                                 primitive_kernel("batch_norm_grad", batch_norm_grad),
                                 primitive_kernel("batch_norm_inference", batch_norm_inference)};
  defs[0].bind = [](const BindContext& context) { return std::make_unique<BatchNorm>(context); };
  for (KernelDef& def : defs) def.layouts = like_x;
  return defs;
}

REGISTER_KERNELS(batch_norm_kernels);

}  // namespace
}  // namespace ff::cpu
