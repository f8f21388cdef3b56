// concat and split of images in blocked layouts: where every part is whole blocks of channels, the layout flows through.
// Dense tensors are left to the reference kernels, which are plain copies.
#include <algorithm>
#include <optional>

#include "kernels/cpu/primitive.h"

namespace ff::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

int axis_of(const OpCall& call) { return normal_axis(call.attrs.integer("axis"), call.inputs[0].rank(), call.name); }

Desc tagged(const TensorType& type, Tag tag) { return {type.shape, data_type(type.dtype), tag}; }

struct Blocks {
  Tag tag;
  int64_t channels;  // in one block
};

// The layout of images that this is, if it is one.
std::optional<Blocks> blocks_of(const TensorType& type, const Layout& layout) {
  if (type.rank() != 4 || layout.dense()) return std::nullopt;
  for (const Blocks& blocks : {Blocks{Tag::nChw16c, 16}, Blocks{Tag::nChw8c, 8}, Blocks{Tag::nhwc, 1}})
    if (desc_of(type, layout) == tagged(type, blocks.tag)) return blocks;
  return std::nullopt;
}

Layouts flowing(const OpCall& call, const std::vector<Layout>& inputs) {
  std::optional<Blocks> blocks;
  for (size_t i = 0; i < inputs.size() && !blocks; ++i) blocks = blocks_of(call.inputs[i], inputs[i]);
  if (!blocks) return dense_layouts(call);
  Layouts layouts;
  for (const auto& [types, chosen] : {std::pair(&call.inputs, &layouts.inputs), std::pair(&call.outputs, &layouts.outputs)})
    for (const TensorType& type : *types) {
      if (type.shape[1] % blocks->channels != 0) return dense_layouts(call);
      chosen->push_back(layout_of(type, tagged(type, blocks->tag)));
    }
  return layouts;
}

std::vector<Desc> descs_of(const std::vector<TensorType>& types, const std::vector<Layout>& layouts) {
  std::vector<Desc> descs;
  for (size_t i = 0; i < types.size(); ++i) descs.push_back(desc_of(types[i], layouts[i]));
  return descs;
}

// As a chain: a split is a reorder per part.
std::vector<Primitive> concat(const OpCall& call, const Layouts& layouts) {
  const std::vector<Desc> parts = descs_of(call.inputs, layouts.inputs);
  const Desc whole = desc_of(call.outputs[0], layouts.outputs[0]);
  std::vector<Arg> args = {out(DNNL_ARG_DST, 0, whole)};
  for (size_t i = 0; i < parts.size(); ++i)
    args.push_back(in(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), static_cast<int>(i), parts[i]));
  return {describe<dnnl::concat>({dnnl_engine(), whole, axis_of(call), parts, user_scratchpad()}, std::move(args))};
}

std::vector<Primitive> split(const OpCall& call, const Layouts& layouts) {
  const std::vector<Desc> parts = descs_of(call.outputs, layouts.outputs);
  const Desc whole = desc_of(call.inputs[0], layouts.inputs[0]);
  std::vector<Primitive> reorders;
  dnnl::memory::dims at(call.inputs[0].rank(), 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    const Desc from = whole.submemory_desc(parts[i].get_dims(), at);
    const dnnl::reorder::primitive_desc pd(dnnl_engine(), from, dnnl_engine(), parts[i], user_scratchpad());
    reorders.push_back(describe<dnnl::reorder>(pd, {in(DNNL_ARG_FROM, 0, from), out(DNNL_ARG_TO, static_cast<int>(i), parts[i])}));
    at[axis_of(call)] += parts[i].get_dims()[axis_of(call)];
  }
  return reorders;
}

bool all_dense(const Layouts& layouts) {
  const auto dense = [](const Layout& layout) { return layout.dense(); };
  return std::all_of(layouts.inputs.begin(), layouts.inputs.end(), dense);
}

KernelDef kernel(const std::string& op, std::vector<Primitive> (*chain)(const OpCall&, const Layouts&)) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = filled_float32;
  def.layouts = flowing;
  def.scratch = [chain](const OpCall& call, const Layouts& layouts) {
    size_t most = 0;
    if (!all_dense(layouts))
      for (const Primitive& primitive : chain(call, layouts)) most = std::max(most, primitive.scratch);
    return most;
  };
  def.bind = [chain](const BindContext& context) -> std::unique_ptr<Kernel> {
    if (all_dense(context.layouts)) return bind_kernel(context, "reference");
    auto kernel = std::make_unique<PrimitiveKernel>();
    for (const Primitive& primitive : chain(context.call, context.layouts)) kernel->add(primitive.make(), primitive.args);
    return kernel;
  };
  return def;
}

std::vector<KernelDef> concat_kernels() { return {kernel("concat", concat), kernel("split", split)}; }
REGISTER_KERNELS(concat_kernels);

}  // namespace
}  // namespace ff::cpu
