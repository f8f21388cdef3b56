// batch_norm, its gradient and its form in inference, in blocked layouts where the channels allow it.
#include <map>

#include "graph/rect.h"
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
Layouts all_like_x(const OpCall& call, const Layout& x) {
  const auto pick = [&](const TensorType& type) { return type == call.inputs[0] ? x : Layout(); };
  Layouts layouts;
  for (const TensorType& type : call.inputs) layouts.inputs.push_back(pick(type));
  for (const TensorType& type : call.outputs) layouts.outputs.push_back(pick(type));
  return layouts;
}

Layouts like_x(const OpCall& call, const std::vector<Layout>& inputs) {
  const bool take_dy = call.op == "batch_norm_grad" && inputs[0].dense();
  return all_like_x(call, image_layout(call.inputs[0], inputs[take_dy ? 1 : 0]));
}

// `mean` is the output that takes the mean; the variance is the next.
Primitive normalise_into(int mean, const OpCall& call, const Layouts& layouts) {
  const Desc x = desc_of(call.inputs[0], layouts.inputs[0]), channel = dense_desc(call.inputs[1]);
  return describe<Forward>(
      forward_pd(call, dnnl::prop_kind::forward_training, x, kAffine),
      {in(DNNL_ARG_SRC, 0, x), in(DNNL_ARG_SCALE, 1, channel), in(DNNL_ARG_SHIFT, 2, channel), out(DNNL_ARG_DST, 0, x),
       out(DNNL_ARG_MEAN, mean, channel), out(DNNL_ARG_VARIANCE, mean + 1, channel)});
}

Primitive normalise(const OpCall& call, const Layouts& layouts) { return normalise_into(3, call, layouts); }

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

// ---- groups of rows: the primitive of one group, run on each ----
bool of_groups(const TensorType& statistics) { return statistics.rank() == 2; }

int64_t groups_of(const OpCall& call) { return call.outputs[1].dim(0); }

Range rows_of(const OpCall& call, int64_t group) {
  return part_of(call.inputs[0].dim(0), static_cast<int>(group), static_cast<int>(groups_of(call)));
}

// Dense or as image_layout blocks it: in both, rows lie one after the other.
Layouts rows_apart(const OpCall& call, const std::vector<Layout>&) {
  return all_like_x(call, image_layout(call.inputs[0], {}));
}

// For a group of rows, what the layouts of the whole call are.
Layouts of_rows(const OpCall& one, const Layouts& whole) {
  return all_like_x(one, whole.inputs[0].dense() ? Layout() : image_layout(one.inputs[0], {}));
}

OpCall on_rows(OpCall call, int64_t rows) {
  const Shape x = call.inputs[0].shape;
  for (auto* tensors : {&call.inputs, &call.outputs})
    for (TensorType& type : *tensors)
      if (type.shape == x)
        type.shape[0] = rows;
      else if (of_groups(type))
        type.shape = {type.dim(1)};
  return call;
}

class GroupByGroup : public Kernel {
 public:
  GroupByGroup(const KernelDef& of_group, const BindContext& context) {
    const OpCall& call = context.call;
    const int64_t channels = call.inputs[0].dim(1), row = call.inputs[0].numel() / call.inputs[0].dim(0);
    for (int64_t g = 0; g < groups_of(call); ++g) {
      const Range range = rows_of(call, g);
      std::unique_ptr<Kernel>& kernel = by_rows_[range.extent];
      const OpCall one = on_rows(call, range.extent);
      if (kernel == nullptr) kernel = of_group.bind({one, of_rows(one, context.layouts), context.threads});
      runs_.push_back({kernel.get(), offsets(call.inputs, call, range.origin * row, g * channels),
                       offsets(call.outputs, call, range.origin * row, g * channels)});
    }
  }

  void run(const RunArgs& args) override {
    for (const Run& run : runs_) {
      std::vector<const void*> in;
      std::vector<void*> out;
      for (size_t i = 0; i < run.in.size(); ++i) in.push_back(args.input<float>(static_cast<int>(i)) + run.in[i]);
      for (size_t k = 0; k < run.out.size(); ++k) out.push_back(args.output<float>(static_cast<int>(k)) + run.out[k]);
      run.kernel->run({in.data(), out.data(), args.scratch});
    }
  }

 private:
  struct Run {
    Kernel* kernel;
    std::vector<int64_t> in, out;  // where the group begins in each operand
  };

  static std::vector<int64_t> offsets(const std::vector<TensorType>& types, const OpCall& call, int64_t rows,
                                      int64_t statistics) {
    std::vector<int64_t> begins;
    for (const TensorType& type : types)
      begins.push_back(type == call.inputs[0] ? rows : of_groups(type) ? statistics : 0);
    return begins;
  }

  std::map<int64_t, std::unique_ptr<Kernel>> by_rows_;
  std::vector<Run> runs_;
};

KernelDef group_kernel(const std::string& op, Describe describe) {
  const KernelDef of_group = primitive_kernel(op, std::move(describe));
  KernelDef def = of_group;
  def.supported = [](const OpCall& call) { return filled_float32(call) && of_groups(call.outputs[1]); };
  def.layouts = rows_apart;
  def.scratch = [of_group](const OpCall& call, const Layouts& layouts) {
    size_t most = 0;
    for (const int64_t group : {int64_t{0}, groups_of(call) - 1}) {  // the largest and the smallest
      const OpCall one = on_rows(call, rows_of(call, group).extent);
      most = std::max(most, of_group.scratch(one, of_rows(one, layouts)));
    }
    return most;
  };
  def.bind = [of_group](const BindContext& context) { return std::make_unique<GroupByGroup>(of_group, context); };
  return def;
}

std::vector<KernelDef> batch_norm_kernels() {
  std::vector<KernelDef> defs = {primitive_kernel("batch_norm", normalise),
                                 primitive_kernel("batch_norm_grad", batch_norm_grad),
                                 primitive_kernel("batch_norm_inference", batch_norm_inference)};
  defs[0].bind = [](const BindContext& context) { return std::make_unique<BatchNorm>(context); };
  defs[0].supported = [](const OpCall& call) { return filled_float32(call) && call.attrs.integer("groups") == 1; };
  defs[1].supported = [](const OpCall& call) { return filled_float32(call) && !of_groups(call.inputs[3]); };
  for (KernelDef& def : defs) def.layouts = like_x;
  defs.push_back(group_kernel("batch_norm_groups", [](const OpCall& call, const Layouts& layouts) {
    return normalise_into(1, call, layouts);
  }));
  defs.push_back(group_kernel("batch_norm_grad", batch_norm_grad));
  return defs;
}

REGISTER_KERNELS(batch_norm_kernels);

}  // namespace
}  // namespace ff::cpu
