#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/simd.h"

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

// oneDNN's gradients are plain scalar loops where AVX-512 is missing; along the last axis these are used instead.
FF_SIMD void softmax_grad_row(const float* dy, const float* y, float* dx, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += dy[i] * y[i];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
}

FF_SIMD void log_softmax_grad_row(const float* dy, const float* y, float* dx, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += dy[i];
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - std::exp(y[i]) * sum;
}

KernelDef row_kernel(const std::string& op, void (*row)(const float*, const float*, float*, int64_t)) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = [](const OpCall& call) {
    return filled_float32(call) && axis_of(call) + 1 == static_cast<int>(call.inputs[0].rank());
  };
  def.bind = [row](const BindContext& context) {
    const int64_t size = context.call.inputs[0].dim(-1), rows = context.call.inputs[0].numel() / size;
    return make_kernel([=](const RunArgs& args) {
      parallel_for(rows, std::max<int64_t>(1, 4096 / size), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin * size; at < end * size; at += size)
          row(args.input<float>(0) + at, args.input<float>(1) + at, args.output<float>(0) + at, size);
      });
    });
  };
  return def;
}

std::vector<KernelDef> softmax_kernels() {
  return {primitive_kernel("softmax", forward(algorithm::softmax_accurate)),
          primitive_kernel("log_softmax", forward(algorithm::softmax_log)),
          row_kernel("softmax_grad", softmax_grad_row),
          row_kernel("log_softmax_grad", log_softmax_grad_row),
          primitive_kernel("softmax_grad", backward(algorithm::softmax_accurate)),
          primitive_kernel("log_softmax_grad", backward(algorithm::softmax_log))};
}

REGISTER_KERNELS(softmax_kernels);

}  // namespace
}  // namespace ff::cpu
