// conv2d: two-dimensional convolution (cross-correlation) of NCHW images, and its gradients.
#include "ops/check.h"
#include "ops/grad.h"
#include "ops/windowed.h"

namespace ff {
namespace {

using Span = Window::Span;

void add_conv_attrs(OpDef& op) {
  add_window_attrs(op, {1, 1}, "step of the window, rows and columns");
  op.attr("dilation", std::vector<int64_t>{1, 1}, "distance of the elements that a window reads");
  op.attr("groups", int64_t{1}, "channels are convolved in this many separate groups");
}

std::vector<WeightSpec> conv2d_weights(const OpCall& call) {
  expect_float(call, 0);
  expect_rank(call, 0, 4, 4, "(N, C, H, W)");
  expect_least(call, "out_channels", 1);
  expect_least(call, "groups", 1);
  expect_list(call, "kernel", 2, 1);
  const TensorType& x = call.inputs[0];
  const int64_t out = call.attrs.integer("out_channels"), groups = call.attrs.integer("groups");
  if (x.dim(1) % groups != 0 || out % groups != 0)
    bad_value(call.name, ": ", x.dim(1), " input and ", out, " output channels do not divide into ", groups, " groups");
  const auto& kernel = call.attrs.ints("kernel");
  std::vector<WeightSpec> specs = {{"kernel",
                                    {x.dtype, {out, x.dim(1) / groups, kernel[0], kernel[1]}},
                                    {{"initializer", std::string("glorot_uniform")}}}};
  if (call.attrs.flag("use_bias")) specs.push_back({"bias", {x.dtype, {out}}, {{"initializer", std::string("zeros")}}});
  return specs;
}

std::vector<TensorType> conv2d_shape(const OpCall& call) {
  const bool use_bias = call.attrs.flag("use_bias");
  expect_inputs(call, use_bias ? 3 : 2, use_bias ? "x, kernel, bias" : "x, kernel");
  const std::vector<WeightSpec> weights = conv2d_weights(call);
  for (size_t k = 0; k < weights.size(); ++k)
    expect_type(call, static_cast<int>(k) + 1, weights[k].type, "the " + weights[k].name);
  return {window_output(call, call.attrs.integer("out_channels"))};
}

// The index of groups is called "o": it counts groups of output channels, and the input channels go with it.
std::vector<IndexRange> channel_indices(const OpCall& call, int64_t out, int64_t in) {
  const int64_t groups = call.attrs.integer("groups");
  if (groups > 1) return {whole_index("o", groups)};
  return {whole_index("o", out), whole_index("c", in)};
}

Span in_channels(const OpCall& call, const Box& box, int64_t extent) {
  return span_of(box, call.attrs.integer("groups") > 1 ? "o" : "c", extent);
}

Rect image_rect(const OpCall& call, const Box& box, const Shape& x) {  // the part that outputs p, q read
  const Windows windows = windows_of(call.attrs, x[2], x[3]);
  const auto read = [&](size_t axis, const char* index) {
    const int64_t out = windows[axis].output_extent(x[axis + 2], false);
    return read_span(windows[axis], span_of(box, index, out), out, x[axis + 2]);
  };
  return rect_of({span_of(box, "n", x[0]), in_channels(call, box, x[1]), read(0, "p"), read(1, "q")});
}

Rect kernel_rect(const OpCall& call, const Box& box, const Shape& kernel) {
  const Span in = call.attrs.integer("groups") > 1 ? Span{0, kernel[1]} : span_of(box, "c", kernel[1]);
  return rect_of({span_of(box, "o", kernel[0]), in, {0, kernel[2]}, {0, kernel[3]}});
}

Rect output_rect(const Box& box, const Shape& y) {
  return rect_of({span_of(box, "n", y[0]), span_of(box, "o", y[1]), span_of(box, "p", y[2]), span_of(box, "q", y[3])});
}

Rect bias_rect(const Box& box, const Shape& bias) { return rect_of({span_of(box, "o", bias[0])}); }

Box outer_indices(const OpCall& call, const Shape& x, const Shape& y) {
  Box box = {whole_index("n", y[0])};
  if (spatial_split(call.attrs)) box.insert(box.end(), {whole_index("p", y[2]), whole_index("q", y[3])});
  for (IndexRange& range : channel_indices(call, y[1], x[1])) box.push_back(std::move(range));
  return box;
}

Rect conv2d_region(const OpCall& call, const Box& box, Operand operand) {
  if (operand.output) return output_rect(box, call.outputs[0].shape);
  const Shape& shape = call.inputs[operand.index].shape;
  return operand.index == 0   ? image_rect(call, box, shape)
         : operand.index == 1 ? kernel_rect(call, box, shape)
                              : bias_rect(box, shape);
}

void conv2d_grad(GradContext& ctx) {
  const std::string& activation = ctx.attrs().text("activation");
  FF_CHECK(activation == "none", ctx.node().name, ": expand before taking the gradient");
  const Attrs attrs = ctx.attrs();
  const Shape x = ctx.in_type(0).shape;
  if (ctx.needs(0))
    ctx.in_grad(
        0, ctx.emit("conv2d_grad_input", {ctx.dout(0), ctx.in(1)}, window_grad_attrs("conv2d_grad_input", attrs, x)));
  const bool use_bias = ctx.in_count() == 3;
  if (!ctx.needs(1) && !(use_bias && ctx.needs(2))) return;
  Attrs weight_attrs = window_grad_attrs("conv2d_grad_weight", attrs, x);
  const std::vector<Value> grads =
      ctx.emit_all("conv2d_grad_weight", {ctx.in(0), ctx.dout(0)}, std::move(weight_attrs));
  ctx.in_grad(1, grads[0]);
  if (use_bias) ctx.in_grad(2, grads[1]);
}

// Without activation, and with the padding written out; nothing when the op is simple already.
std::vector<Value> conv2d_expand(Expansion& ctx) {
  Attrs attrs = ctx.attrs();
  const std::string activation = attrs.text("activation");
  if (activation == "none" && spatial_split(attrs)) return {};
  const Windows windows = windows_of(attrs, ctx.in_type(0).dim(2), ctx.in_type(0).dim(3));
  attrs.set("activation", std::string("none"));
  attrs.set("padding", std::string("explicit"));
  attrs.set("pads", std::vector<int64_t>{windows[0].before, windows[1].before, windows[0].after, windows[1].after});
  const Value y = ctx.emit("conv2d", ctx.node().inputs, attrs);
  return {activation == "none" ? y : ctx.emit(activation, {y})};
}

// Every element of the output (or of its gradient) takes one product per element of a filter.
double conv_flops(const Shape& y, int64_t in_channels_of_group, const Attrs& attrs) {
  const auto& kernel = attrs.ints("kernel");
  return 2.0 * static_cast<double>(numel(y)) * static_cast<double>(in_channels_of_group * kernel[0] * kernel[1]);
}

OpDef conv2d() {
  OpDef op("conv2d");
  op.describe(
      "y = activation(x * kernel + bias), cross-correlation of (N, C, H, W); weights: kernel (out, C / groups, height, "
      "width), "
      "bias (out).");
  op.required("out_channels", AttrType::integer, "number of filters");
  add_conv_attrs(op);
  op.attr("use_bias", true, "add a bias");
  op.attr("activation", std::string("none"), "applied to the sum", {"none", "relu", "sigmoid", "tanh", "gelu"});
  op.space("n c h w, o c r s, o -> n o p q");
  op.indices = [](const OpCall& call) { return outer_indices(call, call.inputs[0].shape, call.outputs[0].shape); };
  op.region = conv2d_region;
  op.shape = conv2d_shape;
  op.weights = conv2d_weights;
  op.flops = [](const OpCall& call) { return conv_flops(call.outputs[0].shape, call.inputs[1].dim(1), call.attrs); };
  op.grad = conv2d_grad;
  op.expand = conv2d_expand;
  return op;
}

Rect grad_input_region(const OpCall& call, const Box& box, Operand operand) {
  const Shape& dx = call.outputs[0].shape;
  const std::array<Span, 2> image = {span_of(box, "h", dx[2]), span_of(box, "w", dx[3])};
  if (operand.output) return rect_of({span_of(box, "n", dx[0]), in_channels(call, box, dx[1]), image[0], image[1]});
  if (operand.index == 1) return kernel_rect(call, box, call.inputs[1].shape);
  const Shape& dy = call.inputs[0].shape;
  const Windows windows = windows_of(call.attrs, dx[2], dx[3]);
  const auto readers = [&](size_t axis) {
    return image[axis].extent == dx[axis + 2] ? Span{0, dy[axis + 2]}
                                              : windows[axis].outputs_of(image[axis], dy[axis + 2]);
  };
  return rect_of({span_of(box, "n", dy[0]), span_of(box, "o", dy[1]), readers(0), readers(1)});
}

OpDef conv2d_grad_input() {
  OpDef op("conv2d_grad_input");
  op.describe("Gradient of conv2d with respect to x, from dy and the kernel.");
  op.inputs(2).linear_in({0}).no_gradient();
  add_conv_attrs(op);
  op.required("input_shape", AttrType::integers, "shape of x; the batch is dy's");
  op.space("n o p q, o c r s -> n c h w");
  op.indices = [](const OpCall& call) {
    const Shape& dx = call.outputs[0].shape;
    Box box = {whole_index("n", dx[0]), whole_index("h", dx[2]), whole_index("w", dx[3])};
    for (IndexRange& range : channel_indices(call, call.inputs[0].dim(1), dx[1])) box.push_back(std::move(range));
    return box;
  };
  op.region = grad_input_region;
  op.shape = [](const OpCall& call) {
    TensorType dx{call.inputs[0].dtype, call.attrs.ints("input_shape")};
    dx.shape[0] = call.inputs[0].dim(0);
    return std::vector<TensorType>{dx};
  };
  op.flops = [](const OpCall& call) { return conv_flops(call.inputs[0].shape, call.inputs[1].dim(1), call.attrs); };
  op.internal = true;
  return op;
}

Rect grad_weight_region(const OpCall& call, const Box& box, Operand operand) {
  if (operand.output && operand.index == 0) return kernel_rect(call, box, call.outputs[0].shape);
  if (operand.output) return bias_rect(box, call.outputs[1].shape);
  return operand.index == 0 ? image_rect(call, box, call.inputs[0].shape) : output_rect(box, call.inputs[1].shape);
}

OpDef conv2d_grad_weight() {
  OpDef op("conv2d_grad_weight");
  op.describe("Gradients of conv2d with respect to kernel and bias, from x and dy.");
  op.inputs(2).linear_in({1}).no_gradient();
  add_conv_attrs(op);
  op.attr("use_bias", true, "give the bias gradient as a second output");
  op.space("n c h w, n o p q -> o c r s, o");
  op.indices = [](const OpCall& call) { return outer_indices(call, call.inputs[0].shape, call.inputs[1].shape); };
  op.region = grad_weight_region;
  op.shape = [](const OpCall& call) {
    const TensorType &x = call.inputs[0], &dy = call.inputs[1];
    const auto& kernel = call.attrs.ints("kernel");
    std::vector<TensorType> grads = {
        {x.dtype, {dy.dim(1), x.dim(1) / call.attrs.integer("groups"), kernel[0], kernel[1]}}};
    if (call.attrs.flag("use_bias")) grads.push_back({x.dtype, {dy.dim(1)}});
    return grads;
  };
  op.flops = [](const OpCall& call) { return conv_flops(call.inputs[1].shape, call.outputs[0].dim(1), call.attrs); };
  op.internal = true;
  return op;
}

std::vector<OpDef> conv2d_family() { return {conv2d(), conv2d_grad_input(), conv2d_grad_weight()}; }

REGISTER_OPS(conv2d_family);

}  // namespace
}  // namespace ff
