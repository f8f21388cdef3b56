// pool2d: maximum or mean over windows of NCHW images, and its gradient.
#include <algorithm>

#include "ops/check.h"
#include "ops/grad.h"
#include "ops/windowed.h"

namespace ff {
namespace {

void add_pool_attrs(OpDef& op) {
  add_window_attrs(op, {}, "step of the window, rows and columns; empty: the kernel's size");
  op.attr("pool_type", std::string("max"), "maximum or mean", {"max", "avg"});
  op.attr("ceil_mode", false, "let the last window hang over the end, if it starts inside the input or its padding");
  op.attr("count_include_pad", false, "a mean counts padding as zeros; else only inputs count");
}

bool is_max(const OpCall& call) { return call.attrs.text("pool_type") == "max"; }

bool has_workspace(const OpCall& call) { return is_max(call) && call.attrs.flag("workspace"); }

std::vector<TensorType> pool2d_shape(const OpCall& call) {
  expect_float(call, 0);
  expect_rank(call, 0, 4, 4, "(N, C, H, W)");
  const TensorType y = window_output(call, call.inputs[0].dim(1));
  for (const Window& window : windows_of(call.attrs, call.inputs[0].dim(2), call.inputs[0].dim(3)))
    if (std::max(window.before, window.after) >= window.kernel)
      bad_value(call.name, ": padding ", window.before, " and ", window.after, " for a window of ", window.kernel,
                "; expected less than the window, so that each window holds an input");
  if (!has_workspace(call)) return {y};
  return {y, {DType::opaque, {0}}};
}

// A workspace belongs to the kernel that made it and cannot be cut by rows; where a mean counts padding, an
// overhanging window must know where that ends.
Box pool2d_indices(const OpCall& call) {
  const Shape& y = call.outputs[0].shape;
  Box box = {whole_index("n", y[0]), whole_index("c", y[1])};
  const bool counts_overhang = !is_max(call) && call.attrs.flag("count_include_pad") && call.attrs.flag("ceil_mode");
  if (!has_workspace(call) && !counts_overhang && spatial_split(call.attrs))
    box.insert(box.end(), {whole_index("p", y[2]), whole_index("q", y[3])});
  return box;
}

Rect pool2d_region(const OpCall& call, const Box& box, Operand operand) {
  if (operand.output && operand.index == 1) return {};
  const Shape &x = call.inputs[0].shape, &y = call.outputs[0].shape;
  const Windows windows = windows_of(call.attrs, x[2], x[3]);
  const Window::Span rows = span_of(box, "p", y[2]), columns = span_of(box, "q", y[3]);
  if (operand.output) return rect_of({span_of(box, "n", y[0]), span_of(box, "c", y[1]), rows, columns});
  return rect_of({span_of(box, "n", x[0]), span_of(box, "c", x[1]), read_span(windows[0], rows, y[2], x[2]),
                  read_span(windows[1], columns, y[3], x[3])});
}

OpDef pool2d() {
  OpDef op("pool2d");
  op.describe("Maximum or mean over windows of (N, C, H, W).");
  add_pool_attrs(op);
  op.attr("workspace", true, "of a maximum: keep where it was found, for the gradient, as a second, opaque output");
  op.space("n c h w -> n c p q");
  op.indices = pool2d_indices;
  op.region = pool2d_region;
  op.shape = pool2d_shape;
  op.flops = [](const OpCall& call) {
    const auto& kernel = call.attrs.ints("kernel");
    return static_cast<double>(call.outputs[0].numel()) * static_cast<double>(kernel[0] * kernel[1]);
  };
  op.grad = [](GradContext& ctx) {
    if (!ctx.needs(0)) return;
    std::vector<Value> inputs = {ctx.dout(0)};
    if (ctx.attrs().text("pool_type") == "max") {
      if (!ctx.attrs().flag("workspace"))
        bad_value("pool2d \"", ctx.node().name,
                  "\": attribute \"workspace\" is false; the gradient of a maximum needs it to be true");
      inputs.push_back(ctx.out(1));
    }
    ctx.in_grad(0,
                ctx.emit("pool2d_grad", inputs, window_grad_attrs("pool2d_grad", ctx.attrs(), ctx.in_type(0).shape)));
  };
  op.inference = [](Expansion& ctx) {
    Attrs attrs = ctx.attrs();
    attrs.set("workspace", false);
    return std::vector<Value>{ctx.emit("pool2d", {ctx.in(0)}, attrs)};
  };
  op.residuals = {1};
  return op;
}

OpDef pool2d_grad() {
  OpDef op("pool2d_grad");
  op.describe("Gradient of pool2d, from dy and, of a maximum, the workspace.");
  op.inputs(1, 2).linear_in({0}).no_gradient();
  add_pool_attrs(op);
  op.required("input_shape", AttrType::integers, "shape of x; the batch is dy's");
  op.space("n c p q -> n c h w");
  op.indices = [](const OpCall& call) {
    return Box{whole_index("n", call.outputs[0].dim(0)), whole_index("c", call.outputs[0].dim(1))};
  };
  op.region = [](const OpCall& call, const Box& box, Operand operand) {
    if (!operand.output && operand.index == 1) return Rect{};
    const Shape& shape = operand.output ? call.outputs[0].shape : call.inputs[0].shape;
    return rect_of({span_of(box, "n", shape[0]), span_of(box, "c", shape[1]), {0, shape[2]}, {0, shape[3]}});
  };
  op.shape = [](const OpCall& call) {
    TensorType dx{call.inputs[0].dtype, call.attrs.ints("input_shape")};
    dx.shape[0] = call.inputs[0].dim(0);
    return std::vector<TensorType>{dx};
  };
  op.flops = [](const OpCall& call) {
    const auto& kernel = call.attrs.ints("kernel");
    return static_cast<double>(call.inputs[0].numel()) * static_cast<double>(kernel[0] * kernel[1]);
  };
  op.internal = true;
  return op;
}

std::vector<OpDef> pool2d_family() { return {pool2d(), pool2d_grad()}; }

REGISTER_OPS(pool2d_family);

}  // namespace
}  // namespace ff
