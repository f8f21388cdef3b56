// Elementwise functions that oneDNN has, in the layout in which their input comes.
#include "kernels/cpu/elementwise.h"

namespace ff::cpu {
namespace {

using A = dnnl::algorithm;
using Desc = dnnl::memory::desc;
using Forward = dnnl::eltwise_forward;
using Backward = dnnl::eltwise_backward;

struct Coefficients {
  double alpha = 0, beta = 0;
};

struct Row {
  const char* op;
  A forward;
  A backward;       // undef: the gradient is composed of other ops, or not one of oneDNN's
  bool reads_y;     // by the gradient, rather than x
  bool keeps_zero;  // f(0) = 0
  Coefficients (*coefficients)(const Attrs&);
};

Coefficients none(const Attrs&) { return {}; }
Coefficients alpha(const Attrs& attrs) { return {attrs.real("alpha"), 0}; }

const Row kRows[] = {
    {"relu", A::eltwise_relu, A::eltwise_relu_use_dst_for_bwd, true, true, none},
    {"sigmoid", A::eltwise_logistic, A::eltwise_logistic_use_dst_for_bwd, true, false, none},
    {"tanh", A::eltwise_tanh, A::eltwise_tanh_use_dst_for_bwd, true, true, none},
    {"elu", A::eltwise_elu, A::eltwise_elu_use_dst_for_bwd, true, true, alpha},
    {"exp", A::eltwise_exp, A::eltwise_exp_use_dst_for_bwd, true, false, none},
    {"sqrt", A::eltwise_sqrt, A::eltwise_sqrt_use_dst_for_bwd, true, false, none},
    {"gelu", A::eltwise_gelu_erf, A::eltwise_gelu_erf, false, true, none},
    {"leaky_relu", A::eltwise_relu, A::eltwise_relu, false, true, alpha},
    {"silu", A::eltwise_swish, A::eltwise_swish, false, true, [](const Attrs&) { return Coefficients{1, 0}; }},
    {"log", A::eltwise_log, A::eltwise_log, false, false, none},
    {"abs", A::eltwise_abs, A::eltwise_abs, false, true, none},
    {"square", A::eltwise_square, A::eltwise_square, false, true, none},
    {"negative", A::eltwise_linear, A::undef, false, true, [](const Attrs&) { return Coefficients{-1, 0}; }},
    {"scalar_add", A::eltwise_linear, A::undef, false, false,
     [](const Attrs& a) { return Coefficients{1, a.real("scalar")}; }},
    {"scalar_sub", A::eltwise_linear, A::undef, false, false,
     [](const Attrs& a) { return Coefficients{1, -a.real("scalar")}; }},
    {"scalar_multiply", A::eltwise_linear, A::undef, false, true,
     [](const Attrs& a) { return Coefficients{a.real("scalar"), 0}; }},
    {"scalar_true_divide", A::eltwise_linear, A::undef, false, true,
     [](const Attrs& a) { return Coefficients{1 / a.real("scalar"), 0}; }},
};

A variant(A algorithm, const Attrs& attrs) {
  const bool by_tanh = algorithm == A::eltwise_gelu_erf && attrs.flag("approximate");
  return by_tanh ? A::eltwise_gelu_tanh : algorithm;
}

Forward::primitive_desc forward_pd(const Row& row, A algorithm, const OpCall& call, const Desc& desc) {
  const Coefficients c = row.coefficients(call.attrs);
  return {dnnl_engine(), dnnl::prop_kind::forward_training, variant(algorithm, call.attrs), desc,
          desc,          static_cast<float>(c.alpha),       static_cast<float>(c.beta),     user_scratchpad()};
}

KernelDef forward_kernel(const Row& row) {
  return elementwise_kernel(row.op, row.keeps_zero, [&row](const OpCall& call, const Layouts& layouts) {
    const Desc desc = desc_of(call.inputs[0], layouts.inputs[0]);
    return describe<Forward>(forward_pd(row, row.forward, call, desc),
                             {in(DNNL_ARG_SRC, 0, desc), out(DNNL_ARG_DST, 0, desc)});
  });
}

KernelDef backward_kernel(const Row& row) {
  return elementwise_kernel(
      std::string(row.op) + "_grad", row.keeps_zero, [&row](const OpCall& call, const Layouts& layouts) {
        const Desc desc = desc_of(call.inputs[0], layouts.inputs[0]);
        const Coefficients c = row.coefficients(call.attrs);
        const Backward::primitive_desc pd(dnnl_engine(), variant(row.backward, call.attrs), desc, desc, desc,
                                          static_cast<float>(c.alpha), static_cast<float>(c.beta),
                                          forward_pd(row, row.backward, call, desc), user_scratchpad());
        const int data = row.reads_y ? DNNL_ARG_DST : DNNL_ARG_SRC;
        return describe<Backward>(pd,
                                  {in(DNNL_ARG_DIFF_DST, 0, desc), in(data, 1, desc), out(DNNL_ARG_DIFF_SRC, 0, desc)});
      });
}

std::vector<KernelDef> unary_kernels() {
  std::vector<KernelDef> kernels;
  for (const Row& row : kRows) {
    kernels.push_back(forward_kernel(row));
    if (row.backward != A::undef) kernels.push_back(backward_kernel(row));
  }
  return kernels;
}
REGISTER_KERNELS(unary_kernels);

}  // namespace
}  // namespace ff::cpu
