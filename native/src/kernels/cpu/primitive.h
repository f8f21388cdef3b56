// Kernels that are one oneDNN primitive: an op gives the descriptor and the arguments, the rest follows from them.
#pragma once

#include "base/error.h"
#include "kernels/cpu/dnnl.h"

namespace ff::cpu {

struct Primitive {
  std::function<dnnl::primitive()> make;  // called at bind only: making a primitive may generate code
  size_t scratch = 0;
  std::vector<Arg> args;
};

template <class P>
Primitive describe(const typename P::primitive_desc& pd, std::vector<Arg> args) {
  args.push_back(scratch(pd.scratchpad_desc()));
  return {[pd] { return P(pd); }, pd.scratchpad_desc().get_size(), std::move(args)};
}

using Describe = std::function<Primitive(const OpCall&, const Layouts&)>;

// The kernel of an op on device "cpu", for float32 and sizes other than zero.
KernelDef primitive_kernel(const std::string& op, Describe describe);
std::unique_ptr<PrimitiveKernel> bind_primitive(const Primitive& primitive);

// Every tensor of the call is of a dtype (or opaque) and has elements. The other calls are left to the reference
// kernels.
bool filled(const OpCall& call, DType dtype);
bool filled_float32(const OpCall& call);
// As well in a half format for whose products the CPU has instructions (AVX-512's or AMX).
bool filled_matrices(const OpCall& call);

// Attributes with an activation fused behind the primitive.
dnnl::primitive_attr with_activation(const std::string& activation);

// The layout in which the passes over images (N, C, H, W) are fast: the one in which they can be had or, when that is
// dense and the channels fill blocks, the blocked layout that convolutions use too; dense images take many times
// longer.
Layout image_layout(const TensorType& type, const Layout& had);

// All operands dense.
Layouts dense_layouts(const OpCall& call);

}  // namespace ff::cpu
