#include "kernels/cpu/primitive.h"

namespace ff::cpu {
namespace {

using dnnl::algorithm;
using Forward = dnnl::softmax_forward;
using Backward = dnnl::softmax_backward;

int axis_of(const OpCall& call) { return normal_axis(call.attrs.integer("axis"), call.inputs[0].rank(), call.name); }

Forward::primitive_desc forward_pd(const OpCall& call, algorithm kind) {
  const dnnl::memory::desc x = dense_desc(call.inputs[0]);
  return {dnnl_engine(), dnnl::prop_kind::forward_training, kind, x, x, axis_of(call), user_scratchpad()};
}

Describe forward(algorithm kind) {
  return [kind](const OpCall& call, const Layouts&) {
    const dnnl::memory::desc x = dense_desc(call.inputs[0]);
    return describe<Forward>(forward_pd(call, kind), {in(DNNL_ARG_SRC, 0, x), out(DNNL_ARG_DST, 0, x)});
  };
}

Describe backward(algorithm kind) {
  return [kind](const OpCall& call, const Layouts&) {
    const dnnl::memory::desc x = dense_desc(call.inputs[0]);
    return describe<Backward>({dnnl_engine(), kind, x, x, x, axis_of(call), forward_pd(call, kind), user_scratchpad()},
                              {in(DNNL_ARG_DIFF_DST, 0, x), in(DNNL_ARG_DST, 1, x), out(DNNL_ARG_DIFF_SRC, 0, x)});
  };
}

std::vector<KernelDef> softmax_kernels() {
  return {primitive_kernel("softmax", forward(algorithm::softmax_accurate)), primitive_kernel("log_softmax", forward(algorithm::softmax_log)),
          primitive_kernel("softmax_grad", backward(algorithm::softmax_accurate)),
          primitive_kernel("log_softmax_grad", backward(algorithm::softmax_log))};
}

REGISTER_KERNELS(softmax_kernels);

}  // namespace
}  // namespace ff::cpu
