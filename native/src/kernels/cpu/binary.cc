// Elementwise functions of two inputs: in any layout where the shapes are equal, with broadcasting where they are
// dense.
#include <algorithm>

#include "kernels/cpu/elementwise.h"

namespace ff::cpu {
namespace {

using A = dnnl::algorithm;
using Desc = dnnl::memory::desc;
using Binary = dnnl::binary;

bool equal_shapes(const OpCall& call) { return call.inputs[0].shape == call.inputs[1].shape; }

// An input with ones before its dimensions, to the rank of the output.
TensorType aligned(const OpCall& call, int input) {
  TensorType type = call.inputs[input];
  type.shape.insert(type.shape.begin(), call.outputs[0].rank() - type.rank(), 1);
  return type;
}

// oneDNN repeats the second operand only: it must not be the first that is the smaller one.
bool reversed(const OpCall& call) { return aligned(call, 0).shape != call.outputs[0].shape; }

// An outer product, and a reversed difference or quotient, are left to the reference kernels: oneDNN has only slow
// code.
bool supported(const OpCall& call) {
  if (!filled_float32(call)) return false;
  if (!reversed(call)) return true;
  return aligned(call, 1).shape == call.outputs[0].shape && call.op != "subtract" && call.op != "divide";
}

Describe binary(A algorithm) {
  return [algorithm](const OpCall& call, const Layouts& layouts) {
    const int first = reversed(call) ? 1 : 0, second = 1 - first;
    const Desc a = desc_of(aligned(call, first), layouts.inputs[first]),
               b = desc_of(aligned(call, second), layouts.inputs[second]);
    const Desc y = desc_of(call.outputs[0], layouts.outputs[0]);
    return describe<Binary>({dnnl_engine(), algorithm, a, b, y, user_scratchpad()},
                            {in(DNNL_ARG_SRC_0, first, a), in(DNNL_ARG_SRC_1, second, b), out(DNNL_ARG_DST, 0, y)});
  };
}

KernelDef kernel(const std::string& op, A algorithm) {
  KernelDef def = primitive_kernel(op, binary(algorithm));
  def.supported = supported;
  def.layouts = [algorithm](const OpCall& call, const std::vector<Layout>& inputs) {
    return equal_shapes(call) ? shared_layout(call, inputs, algorithm != A::binary_div) : dense_layouts(call);
  };
  return def;
}

std::vector<KernelDef> binary_kernels() {
  return {kernel("add", A::binary_add),    kernel("subtract", A::binary_sub), kernel("multiply", A::binary_mul),
          kernel("divide", A::binary_div), kernel("maximum", A::binary_max),  kernel("minimum", A::binary_min)};
}
REGISTER_KERNELS(binary_kernels);

}  // namespace
}  // namespace ff::cpu
