// linear and its gradients as products of dense matrices: the kernel is state and stays dense, and the products of
// dense matrices are as fast here as those of packed ones are, with their reorders.
#include "kernels/box.h"
#include "kernels/cpu/primitive.h"

namespace ff::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Forward = dnnl::inner_product_forward;
using BackwardData = dnnl::inner_product_backward_data;
using BackwardWeights = dnnl::inner_product_backward_weights;

// x (rows, in), kernel (out, in), y (rows, out).
struct Descs {
  Desc x, kernel, bias, y;

  Descs(DType dtype, int64_t rows, int64_t in, int64_t out)
      : x(dense_desc({dtype, {rows, in}})),
        kernel(dense_desc({dtype, {out, in}})),
        bias(dense_desc({dtype, {out}})),
        y(dense_desc({dtype, {rows, out}})) {}
  Forward::primitive_desc forward() const { return {dnnl_engine(), dnnl::prop_kind::forward_training, x, kernel, y}; }
};

// As a matmul with the transposed kernel: oneDNN packs that one in parallel, which takes an inner product up to a third
// off. A few rows are not worth the packing.
Primitive linear(const OpCall& call, const Layouts&) {
  constexpr int64_t kFewRows = 4;
  const int64_t columns = call.inputs[0].dim(-1), rows = call.inputs[0].numel() / columns;
  const int64_t out_channels = call.outputs[0].dim(-1);
  const DType dtype = call.inputs[0].dtype;
  const Descs d(dtype, rows, columns, out_channels);
  const Desc transposed({columns, out_channels}, data_type(dtype), dnnl::memory::dims{1, columns});
  const bool few = rows <= kFewRows, bias = call.inputs.size() == 3 && origin_of(call, "i") == 0;
  const Desc kernel = few ? d.kernel : transposed, b = !bias ? Desc()
                                                       : few ? d.bias
                                                             : dense_desc({dtype, {1, out_channels}});
  std::vector<Arg> args = {in(DNNL_ARG_SRC, 0, d.x), in(DNNL_ARG_WEIGHTS, 1, kernel), out(DNNL_ARG_DST, 0, d.y)};
  if (bias) args.push_back(in(DNNL_ARG_BIAS, 2, b));
  const dnnl::primitive_attr attr = with_activation(call.attrs.text("activation"));
  if (few)
    return describe<Forward>({dnnl_engine(), dnnl::prop_kind::forward_training, d.x, kernel, b, d.y, attr},
                             std::move(args));
  return describe<dnnl::matmul>({dnnl_engine(), d.x, kernel, b, d.y, attr}, std::move(args));
}

Primitive linear_grad_input(const OpCall& call, const Layouts&) {
  const int64_t columns = call.inputs[0].dim(-1);
  const Descs d(call.inputs[0].dtype, call.inputs[0].numel() / columns, call.outputs[0].dim(-1), columns);
  return describe<BackwardData>(
      {dnnl_engine(), d.x, d.kernel, d.y, d.forward(), user_scratchpad()},
      {in(DNNL_ARG_DIFF_DST, 0, d.y), in(DNNL_ARG_WEIGHTS, 1, d.kernel), out(DNNL_ARG_DIFF_SRC, 0, d.x)});
}

Primitive linear_grad_weight(const OpCall& call, const Layouts&) {
  const int64_t columns = call.inputs[0].dim(-1);
  const Descs d(call.inputs[0].dtype, call.inputs[0].numel() / columns, columns, call.inputs[1].dim(-1));
  std::vector<Arg> args = {in(DNNL_ARG_SRC, 0, d.x), in(DNNL_ARG_DIFF_DST, 1, d.y),
                           out(DNNL_ARG_DIFF_WEIGHTS, 0, d.kernel)};
  const bool bias = call.outputs.size() == 2;
  if (bias) args.push_back(out(DNNL_ARG_DIFF_BIAS, 1, d.bias));
  return describe<BackwardWeights>(
      {dnnl_engine(), d.x, d.kernel, bias ? d.bias : Desc(), d.y, d.forward(), user_scratchpad()}, std::move(args));
}

KernelDef product_kernel(const std::string& op, Describe describe) {
  KernelDef def = primitive_kernel(op, std::move(describe));
  def.supported = filled_matrices;
  return def;
}

std::vector<KernelDef> linear_kernels() {
  return {product_kernel("linear", linear), product_kernel("linear_grad_input", linear_grad_input),
          product_kernel("linear_grad_weight", linear_grad_weight)};
}

REGISTER_KERNELS(linear_kernels);

}  // namespace
}  // namespace ff::cpu
