#include "kernels/cpu/elementwise.h"

namespace ff::cpu {
namespace {

bool padded(const TensorType& type, const Layout& layout) {
  const dnnl::memory::desc desc = desc_of(type, layout);
  return desc.get_padded_dims() != desc.get_dims();
}

}  // namespace

Layouts shared_layout(const OpCall& call, const std::vector<Layout>& inputs, bool keeps_zero) {
  Layouts layouts = dense_layouts(call);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dense()) continue;
    if (!keeps_zero && padded(call.inputs[i], inputs[i])) break;
    layouts.inputs.assign(layouts.inputs.size(), inputs[i]);
    layouts.outputs.assign(layouts.outputs.size(), inputs[i]);
    break;
  }
  return layouts;
}

KernelDef elementwise_kernel(const std::string& op, bool keeps_zero, Describe describe) {
  KernelDef kernel = primitive_kernel(op, std::move(describe));
  kernel.layouts = [keeps_zero](const OpCall& call, const std::vector<Layout>& inputs) {
    return shared_layout(call, inputs, keeps_zero);
  };
  return kernel;
}

}  // namespace ff::cpu
