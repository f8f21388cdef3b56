#include "kernels/cpu/primitive.h"

namespace ff::cpu {
namespace {

// oneDNN's own messages name neither the op nor its shapes.
Primitive described(const Describe& describe, const OpCall& call, const Layouts& layouts) {
  try {
    return describe(call, layouts);
  } catch (const dnnl::error& error) {
    fail(ErrorKind::internal, call.name, ": oneDNN: ", error.what(), " for ", to_string(call));
  }
}

}  // namespace

KernelDef primitive_kernel(const std::string& op, Describe describe) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = filled_float32;
  def.scratch = [describe](const OpCall& call, const Layouts& layouts) {
    return described(describe, call, layouts).scratch;
  };
  def.bind = [describe](const BindContext& context) {
    return bind_primitive(described(describe, context.call, context.layouts));
  };
  return def;
}

std::unique_ptr<PrimitiveKernel> bind_primitive(const Primitive& primitive) {
  return std::make_unique<PrimitiveKernel>(primitive.make(), primitive.args);
}

bool filled(const OpCall& call, DType dtype) {
  for (const auto* tensors : {&call.inputs, &call.outputs})
    for (const TensorType& type : *tensors)
      if (type.dtype != DType::opaque && (type.dtype != dtype || type.numel() == 0)) return false;
  return true;
}

bool filled_float32(const OpCall& call) { return filled(call, DType::float32); }

bool filled_matrices(const OpCall& call) {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  return filled(call, DType::float32) || (has(dnnl::cpu_isa::avx512_core_bf16) && filled(call, DType::bfloat16)) ||
         (has(dnnl::cpu_isa::avx512_core_fp16) && filled(call, DType::float16));
}

dnnl::primitive_attr with_activation(const std::string& activation) {
  dnnl::primitive_attr attr = user_scratchpad();
  if (activation == "none") return attr;
  using A = dnnl::algorithm;
  dnnl::post_ops post_ops;
  post_ops.append_eltwise(activation == "relu"      ? A::eltwise_relu
                          : activation == "sigmoid" ? A::eltwise_logistic
                          : activation == "tanh"    ? A::eltwise_tanh
                                                    : A::eltwise_gelu_erf,
                          0.0f, 0.0f);
  attr.set_post_ops(post_ops);
  return attr;
}

Layout image_layout(const TensorType& type, const Layout& had) {
  static const bool wide =
      (static_cast<int>(dnnl::get_effective_cpu_isa()) & static_cast<int>(dnnl::cpu_isa::avx512_core)) ==
      static_cast<int>(dnnl::cpu_isa::avx512_core);
  if (!had.dense() || type.rank() != 4 || type.dim(1) % (wide ? 16 : 8) != 0) return had;
  using Tag = dnnl::memory::format_tag;
  return layout_of(type, {type.shape, data_type(type.dtype), wide ? Tag::nChw16c : Tag::nChw8c});
}

Layouts dense_layouts(const OpCall& call) {
  return {std::vector<Layout>(call.inputs.size()), std::vector<Layout>(call.outputs.size())};
}

}  // namespace ff::cpu
