// conv2d and its gradients, in the layouts that oneDNN prefers.
#include <algorithm>

#include "graph/window.h"
#include "kernels/box.h"
#include "kernels/cpu/primitive.h"

namespace ff::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// oneDNN has no convolution with windows that lie in the padding alone.
bool supported(const OpCall& call, const Windows& windows) {
  for (const Window& window : windows)
    if (std::max(window.before, window.after) >= window.reach()) return false;
  return filled_matrices(call);
}

// oneDNN 3.2 leaves garbage in the bfloat16 gradient of a kernel's columns that see nothing but padding, where the
// columns of the output are more than one apart.
bool weight_supported(const OpCall& call, const Windows& windows) {
  if (!supported(call, windows)) return false;
  const Window& columns = windows[1];
  if (call.inputs[0].dtype != DType::bfloat16 || columns.stride == 1) return true;
  const int64_t width = call.inputs[0].dim(3), outputs = call.inputs[1].dim(3);
  for (int64_t k = 0; k < columns.kernel; ++k) {
    bool sees = false;
    for (int64_t o = 0; o < outputs && !sees; ++o) {
      const int64_t at = o * columns.stride + k * columns.dilation - columns.before;
      sees = at >= 0 && at < width;
    }
    if (!sees) return false;
  }
  return true;
}

// The sizes of a convolution, whichever of its tensors is asked for.
class Convolution {
 public:
  Convolution(const TensorType& x, const TensorType& kernel, const TensorType& y, const Windows& windows)
      : x(x), kernel(kernel), y(y) {
    for (const Window& window : windows) {
      strides.push_back(window.stride);
      dilates.push_back(window.dilation - 1);
      before.push_back(window.before);
      after.push_back(window.after);
    }
  }

  // oneDNN wants the groups of a kernel as a dimension of its own.
  TensorType grouped_kernel() const {
    const int64_t groups = x.dim(1) / kernel.dim(1);
    if (groups == 1) return kernel;
    return {kernel.dtype, {groups, kernel.dim(0) / groups, kernel.dim(1), kernel.dim(2), kernel.dim(3)}};
  }
  TensorType bias() const { return {y.dtype, {y.dim(1)}}; }
  Desc kernel_desc(const Layout& layout) const { return desc_of(grouped_kernel(), layout); }
  Layout kernel_layout(const Desc& desc) const { return layout_of(grouped_kernel(), desc); }

  Forward::primitive_desc forward(const Desc& x_desc, const Desc& kernel_desc, const Desc& bias_desc,
                                  const Desc& y_desc, const dnnl::primitive_attr& attr) const {
    return {dnnl_engine(), dnnl::prop_kind::forward_training,
            kDirect,       x_desc,
            kernel_desc,   bias_desc,
            y_desc,        strides,
            dilates,       before,
            after,         attr};
  }
  // What a gradient's descriptor asks for as a hint.
  Forward::primitive_desc hint() const {
    return forward(any_desc(x), any_desc(grouped_kernel()), Desc(), any_desc(y), dnnl::primitive_attr());
  }

  TensorType x, kernel, y;
  Dims strides, dilates, before, after;
};

// ---- conv2d(x, kernel [, bias]) -> y ----

Windows forward_windows(const OpCall& call) {
  return part_by_outputs(call, call.inputs[0].shape, call.outputs[0].shape);
}

Convolution forward_problem(const OpCall& call) {
  return {call.inputs[0], call.inputs[1], call.outputs[0], forward_windows(call)};
}

bool adds_bias(const OpCall& call) { return call.inputs.size() == 3 && origin_of(call, "c") == 0; }

Forward::primitive_desc forward_pd(const OpCall& call, const Convolution& c, const Desc& x, const Desc& kernel,
                                   const Desc& y) {
  return c.forward(x, kernel, adds_bias(call) ? dense_desc(c.bias()) : Desc(), y,
                   with_activation(call.attrs.text("activation")));
}

Layouts conv2d_layouts(const OpCall& call, const std::vector<Layout>&) {
  const Convolution c = forward_problem(call);
  const auto pd = forward_pd(call, c, any_desc(c.x), any_desc(c.grouped_kernel()), any_desc(c.y));
  Layouts layouts = dense_layouts(call);
  layouts.inputs[0] = layout_of(c.x, pd.src_desc());
  layouts.inputs[1] = c.kernel_layout(pd.weights_desc());
  layouts.outputs[0] = layout_of(c.y, pd.dst_desc());
  return layouts;
}

Primitive conv2d(const OpCall& call, const Layouts& layouts) {
  const Convolution c = forward_problem(call);
  const Desc x = desc_of(c.x, layouts.inputs[0]), kernel = c.kernel_desc(layouts.inputs[1]),
             y = desc_of(c.y, layouts.outputs[0]);
  std::vector<Arg> args = {in(DNNL_ARG_SRC, 0, x), in(DNNL_ARG_WEIGHTS, 1, kernel), out(DNNL_ARG_DST, 0, y)};
  if (adds_bias(call)) args.push_back(in(DNNL_ARG_BIAS, 2, dense_desc(c.bias())));
  return describe<Forward>(forward_pd(call, c, x, kernel, y), std::move(args));
}

// ---- conv2d_grad_input(dy, kernel) -> dx ----

Windows data_windows(const OpCall& call) { return part_by_inputs(call, call.outputs[0].shape, call.inputs[0].shape); }

Convolution data_problem(const OpCall& call) {
  return {call.outputs[0], call.inputs[1], call.inputs[0], data_windows(call)};
}

BackwardData::primitive_desc data_pd(const Convolution& c, const Desc& dx, const Desc& kernel, const Desc& dy) {
  return {dnnl_engine(), kDirect, dx, kernel, dy, c.strides, c.dilates, c.before, c.after, c.hint(), user_scratchpad()};
}

Layouts grad_input_layouts(const OpCall& call, const std::vector<Layout>&) {
  const Convolution c = data_problem(call);
  const auto pd = data_pd(c, any_desc(c.x), any_desc(c.grouped_kernel()), any_desc(c.y));
  return {{layout_of(c.y, pd.diff_dst_desc()), c.kernel_layout(pd.weights_desc())},
          {layout_of(c.x, pd.diff_src_desc())}};
}

Primitive conv2d_grad_input(const OpCall& call, const Layouts& layouts) {
  const Convolution c = data_problem(call);
  const Desc dx = desc_of(c.x, layouts.outputs[0]), kernel = c.kernel_desc(layouts.inputs[1]),
             dy = desc_of(c.y, layouts.inputs[0]);
  return describe<BackwardData>(
      data_pd(c, dx, kernel, dy),
      {in(DNNL_ARG_DIFF_DST, 0, dy), in(DNNL_ARG_WEIGHTS, 1, kernel), out(DNNL_ARG_DIFF_SRC, 0, dx)});
}

// ---- conv2d_grad_weight(x, dy) -> dkernel [, dbias] ----

Windows weight_windows(const OpCall& call) { return part_by_outputs(call, call.inputs[0].shape, call.inputs[1].shape); }

Convolution weight_problem(const OpCall& call) {
  return {call.inputs[0], call.outputs[0], call.inputs[1], weight_windows(call)};
}

BackwardWeights::primitive_desc weight_pd(const OpCall& call, const Convolution& c, const Desc& x, const Desc& dkernel,
                                          const Desc& dy) {
  const Desc dbias = call.outputs.size() == 2 ? dense_desc(c.bias()) : Desc();
  return {dnnl_engine(), kDirect,   x,        dkernel, dbias,    dy,
          c.strides,     c.dilates, c.before, c.after, c.hint(), user_scratchpad()};
}

Layouts grad_weight_layouts(const OpCall& call, const std::vector<Layout>&) {
  const Convolution c = weight_problem(call);
  const auto pd = weight_pd(call, c, any_desc(c.x), any_desc(c.grouped_kernel()), any_desc(c.y));
  Layouts layouts = dense_layouts(call);
  layouts.inputs = {layout_of(c.x, pd.src_desc()), layout_of(c.y, pd.diff_dst_desc())};
  layouts.outputs[0] = c.kernel_layout(pd.diff_weights_desc());
  return layouts;
}

Primitive conv2d_grad_weight(const OpCall& call, const Layouts& layouts) {
  const Convolution c = weight_problem(call);
  const Desc x = desc_of(c.x, layouts.inputs[0]), dkernel = c.kernel_desc(layouts.outputs[0]),
             dy = desc_of(c.y, layouts.inputs[1]);
  std::vector<Arg> args = {in(DNNL_ARG_SRC, 0, x), in(DNNL_ARG_DIFF_DST, 1, dy),
                           out(DNNL_ARG_DIFF_WEIGHTS, 0, dkernel)};
  if (call.outputs.size() == 2) args.push_back(out(DNNL_ARG_DIFF_BIAS, 1, dense_desc(c.bias())));
  return describe<BackwardWeights>(weight_pd(call, c, x, dkernel, dy), std::move(args));
}

KernelDef conv_kernel(const std::string& op, Describe describe, std::function<bool(const OpCall&)> supported,
                      Layouts (*layouts)(const OpCall&, const std::vector<Layout>&)) {
  KernelDef def = primitive_kernel(op, std::move(describe));
  def.supported = std::move(supported);
  def.layouts = layouts;
  return def;
}

std::vector<KernelDef> conv2d_kernels() {
  return {
      conv_kernel(
          "conv2d", conv2d, [](const OpCall& call) { return supported(call, forward_windows(call)); }, conv2d_layouts),
      conv_kernel(
          "conv2d_grad_input", conv2d_grad_input,
          [](const OpCall& call) { return supported(call, data_windows(call)); }, grad_input_layouts),
      conv_kernel(
          "conv2d_grad_weight", conv2d_grad_weight,
          [](const OpCall& call) { return weight_supported(call, weight_windows(call)); }, grad_weight_layouts)};
}

REGISTER_KERNELS(conv2d_kernels);

}  // namespace
}  // namespace ff::cpu
