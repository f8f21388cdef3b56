// concat and split of images in blocked layouts: where every part is whole blocks of channels, the layout flows
// through. Dense tensors are left to the reference kernels, which are plain copies.
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
  for (const auto& [types, chosen] :
       {std::pair(&call.inputs, &layouts.inputs), std::pair(&call.outputs, &layouts.outputs)})
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

Primitive concat(const OpCall& call, const Layouts& layouts) {
  const std::vector<Desc> parts = descs_of(call.inputs, layouts.inputs);
  const Desc whole = desc_of(call.outputs[0], layouts.outputs[0]);
  std::vector<Arg> args = {out(DNNL_ARG_DST, 0, whole)};
  for (size_t i = 0; i < parts.size(); ++i)
    args.push_back(in(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), static_cast<int>(i), parts[i]));
  return describe<dnnl::concat>({dnnl_engine(), whole, axis_of(call), parts, user_scratchpad()}, std::move(args));
}

// A reorder per part, out of the middle of the whole. The pointer moves and not the descriptor, whose size oneDNN does
// not tell when it has an offset.
class Split : public Kernel {
 public:
  explicit Split(const BindContext& context) {
    const OpCall& call = context.call;
    const int axis = axis_of(call);
    const Desc whole = desc_of(call.inputs[0], context.layouts.inputs[0]);
    const int64_t block = axis == 1 ? blocks_of(call.inputs[0], context.layouts.inputs[0])->channels : 1;
    int64_t at = 0;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const Desc to = desc_of(call.outputs[i], context.layouts.outputs[i]);
      const Desc from = whole.submemory_desc(to.get_dims(), dnnl::memory::dims(to.get_ndims(), 0));
      const dnnl::reorder::primitive_desc pd(dnnl_engine(), from, dnnl_engine(), to);
      const int64_t offset = at / block * whole.get_strides()[axis] * static_cast<int64_t>(sizeof(float));
      parts_.push_back({{dnnl::reorder(pd), {in(DNNL_ARG_FROM, 0, from), out(DNNL_ARG_TO, 0, to)}}, offset});
      at += to.get_dims()[axis];
    }
  }

  void run(const RunArgs& args) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const void* from = args.input<char>(0) + parts_[i].offset;
      parts_[i].reorder.run({&from, args.out + i, args.scratch});
    }
  }

 private:
  struct Part {
    PrimitiveKernel reorder;
    int64_t offset;  // in bytes
  };
  std::vector<Part> parts_;
};

bool all_dense(const Layouts& layouts) {
  const auto dense = [](const Layout& layout) { return layout.dense(); };
  return std::all_of(layouts.inputs.begin(), layouts.inputs.end(), dense);
}

KernelDef kernel(const std::string& op, std::function<std::unique_ptr<Kernel>(const BindContext&)> bind_blocked) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = filled_float32;
  def.layouts = flowing;
  def.bind = [bind_blocked](const BindContext& context) {
    return all_dense(context.layouts) ? bind_kernel(context, "reference") : bind_blocked(context);
  };
  return def;
}

std::vector<KernelDef> concat_kernels() {
  KernelDef joined = kernel(
      "concat", [](const BindContext& context) { return bind_primitive(concat(context.call, context.layouts)); });
  joined.scratch = [](const OpCall& call, const Layouts& layouts) {
    return all_dense(layouts) ? 0 : concat(call, layouts).scratch;
  };
  return {joined, kernel("split", [](const BindContext& context) { return std::make_unique<Split>(context); })};
}
REGISTER_KERNELS(concat_kernels);

}  // namespace
}  // namespace ff::cpu
