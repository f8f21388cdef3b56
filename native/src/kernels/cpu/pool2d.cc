// pool2d and its gradient, in blocked layouts where the channels allow it.
#include <algorithm>

#include "graph/window.h"
#include "kernels/cpu/primitive.h"

namespace ff::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Forward = dnnl::pooling_forward;
using Backward = dnnl::pooling_backward;

// The workspace of a maximum belongs to the layouts of the forward call; the gradient has to run in the same ones.
struct Workspace : LayoutInfo {
  Workspace(const Layout& x, const Layout& y, size_t bytes)
      : LayoutInfo("workspace of " + x.name(), bytes), x(x), y(y) {}
  Layout x, y;
};

struct Pooling {
  TensorType x, y;
  dnnl::algorithm algorithm;
  dnnl::prop_kind kind;
  Dims strides, kernel, before, after, dilation = {0, 0};

  Pooling(const OpCall& call, const TensorType& x, const TensorType& y, const Windows& windows, bool workspace)
      : x(x), y(y) {
    using A = dnnl::algorithm;
    const bool max = call.attrs.text("pool_type") == "max";
    algorithm = max                                    ? A::pooling_max
                : call.attrs.flag("count_include_pad") ? A::pooling_avg_include_padding
                                                       : A::pooling_avg_exclude_padding;
    kind = max && !workspace ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    for (const Window& window : windows) {
      strides.push_back(window.stride);
      kernel.push_back(window.kernel);
      before.push_back(window.before);
      after.push_back(window.after);
    }
  }
  Forward::primitive_desc forward(const Desc& x_desc, const Desc& y_desc) const {
    return {dnnl_engine(), kind,     algorithm, x_desc, y_desc,           strides,
            kernel,        dilation, before,    after,  user_scratchpad()};
  }
  Backward::primitive_desc backward(const Desc& dx, const Desc& dy, const Forward::primitive_desc& hint) const {
    return {dnnl_engine(), algorithm, dx, dy, strides, kernel, dilation, before, after, hint, user_scratchpad()};
  }
};

// oneDNN counts the whole of a window that hangs over the padding, where the op counts what lies within it.
bool supported(const OpCall& call, const Windows& part, const Shape& x) {
  if (!filled_float32(call)) return false;
  if (call.attrs.text("pool_type") == "max" || !call.attrs.flag("count_include_pad")) return true;
  const Windows whole = windows_of(call.attrs, x[2], x[3]);
  return !call.attrs.flag("ceil_mode") || (part[0].after <= whole[0].after && part[1].after <= whole[1].after);
}

Windows forward_windows(const OpCall& call) {
  return part_by_outputs(call, call.inputs[0].shape, call.outputs[0].shape);
}

Pooling forward_problem(const OpCall& call) {
  return {call, call.inputs[0], call.outputs[0], forward_windows(call), call.outputs.size() == 2};
}

Layouts pool2d_layouts(const OpCall& call, const std::vector<Layout>& inputs) {
  const Pooling pooling = forward_problem(call);
  const Layout x = image_layout(pooling.x, inputs[0]);
  const auto pd = pooling.forward(desc_of(pooling.x, x), any_desc(pooling.y));
  Layouts layouts{{x}, {layout_of(pooling.y, pd.dst_desc())}};
  if (call.outputs.size() == 2) {
    const bool dense = layouts.inputs[0].dense() && layouts.outputs[0].dense();
    layouts.outputs.push_back(dense ? Layout()
                                    : Layout(std::make_shared<Workspace>(layouts.inputs[0], layouts.outputs[0],
                                                                         pd.workspace_desc().get_size())));
  }
  return layouts;
}

Primitive pool2d(const OpCall& call, const Layouts& layouts) {
  const Pooling pooling = forward_problem(call);
  const Desc x = desc_of(pooling.x, layouts.inputs[0]), y = desc_of(pooling.y, layouts.outputs[0]);
  const auto pd = pooling.forward(x, y);
  std::vector<Arg> args = {in(DNNL_ARG_SRC, 0, x), out(DNNL_ARG_DST, 0, y)};
  if (call.outputs.size() == 2) args.push_back(out(DNNL_ARG_WORKSPACE, 1, pd.workspace_desc()));
  return describe<Forward>(pd, std::move(args));
}

// Of any layout: channels may be padded to a block, and an entry takes up to 4 bytes.
size_t workspace_bytes(const OpCall& call, int) {
  Shape shape = call.outputs[0].shape;
  shape[1] = (shape[1] + 15) / 16 * 16;
  return sizeof(int32_t) * static_cast<size_t>(numel(shape));
}

Windows backward_windows(const OpCall& call) {
  return part_by_inputs(call, call.outputs[0].shape, call.inputs[0].shape);
}

Pooling backward_problem(const OpCall& call) {
  return {call, call.outputs[0], call.inputs[0], backward_windows(call), true};
}

Layouts pool2d_grad_layouts(const OpCall& call, const std::vector<Layout>& inputs) {
  if (call.inputs.size() == 1) {
    const Pooling pooling = backward_problem(call);
    const auto hint = pooling.forward(dense_desc(pooling.x), dense_desc(pooling.y));
    const Layout dy = image_layout(pooling.y, inputs[0]);
    const auto pd = pooling.backward(any_desc(pooling.x), desc_of(pooling.y, dy), hint);
    return {{dy}, {layout_of(pooling.x, pd.diff_src_desc())}};
  }
  const auto* workspace = dynamic_cast<const Workspace*>(inputs[1].info());
  if (workspace == nullptr) return dense_layouts(call);
  return {{workspace->y, inputs[1]}, {workspace->x}};
}

Primitive pool2d_grad(const OpCall& call, const Layouts& layouts) {
  const Pooling pooling = backward_problem(call);
  const Desc dx = desc_of(pooling.x, layouts.outputs[0]), dy = desc_of(pooling.y, layouts.inputs[0]);
  const auto pd = pooling.backward(dx, dy, pooling.forward(dx, dy));
  std::vector<Arg> args = {in(DNNL_ARG_DIFF_DST, 0, dy), out(DNNL_ARG_DIFF_SRC, 0, dx)};
  if (call.inputs.size() == 2) args.push_back(in(DNNL_ARG_WORKSPACE, 1, pd.workspace_desc()));
  return describe<Backward>(pd, std::move(args));
}

std::vector<KernelDef> pool2d_kernels() {
  KernelDef forward = primitive_kernel("pool2d", pool2d), backward = primitive_kernel("pool2d_grad", pool2d_grad);
  forward.supported = [](const OpCall& call) { return supported(call, forward_windows(call), call.inputs[0].shape); };
  forward.layouts = pool2d_layouts;
  forward.residual = workspace_bytes;
  backward.supported = [](const OpCall& call) {
    return supported(call, backward_windows(call), call.outputs[0].shape);
  };
  backward.layouts = pool2d_grad_layouts;
  return {forward, backward};
}

REGISTER_KERNELS(pool2d_kernels);

}  // namespace
}  // namespace ff::cpu
