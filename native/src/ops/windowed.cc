#include "ops/windowed.h"

#include "ops/check.h"

namespace ff {

void add_window_attrs(OpDef& op, std::vector<int64_t> default_stride, const std::string& stride_doc) {
  op.required("kernel", AttrType::integers, "height and width of the window");
  op.attr("stride", std::move(default_stride), stride_doc);
  op.attr("padding", std::string("explicit"),
          "explicit: by pads; valid: none; same: as many outputs as inputs per stride, the odd padding at the end",
          {"explicit", "same", "valid"});
  op.attr("pads", std::vector<int64_t>{0, 0, 0, 0}, "explicit padding: top, left, bottom, right");
}

TensorType window_output(const OpCall& call, int64_t channels) {
  const TensorType& x = call.inputs[0];
  expect_list(call, "kernel", 2, 1);
  expect_list(call, "pads", 4, 0);
  if (!call.attrs.ints("stride").empty()) expect_list(call, "stride", 2, 1);
  if (call.attrs.has("dilation")) expect_list(call, "dilation", 2, 1);
  const bool ceil_mode = call.attrs.has("ceil_mode") && call.attrs.flag("ceil_mode");
  const Windows windows = windows_of(call.attrs, x.dim(2), x.dim(3));
  TensorType y{x.dtype, {x.dim(0), channels, 0, 0}};
  for (size_t axis = 0; axis < 2; ++axis) {
    const Window& window = windows[axis];
    const int64_t in = x.shape[axis + 2];
    y.shape[axis + 2] = window.output_extent(in, ceil_mode);
    if (y.shape[axis + 2] < 1)
      bad_value(call.name, ": a window that reaches over ", window.reach(), axis == 0 ? " rows" : " columns",
                " does not fit into ", in, " with padding ", window.before, " before and ", window.after,
                " after; expected a smaller kernel or more padding");
  }
  return y;
}

Attrs window_grad_attrs(const std::string& grad_op, const Attrs& attrs, const Shape& input) {
  const Windows windows = windows_of(attrs, input[2], input[3]);
  const OpDef& def = op_def(grad_op);
  Attrs known;
  for (const auto& [name, value] : attrs)
    if (def.find_attr(name) != nullptr) known.set(name, value);
  known.set("padding", std::string("explicit"));
  known.set("pads", std::vector<int64_t>{windows[0].before, windows[1].before, windows[0].after, windows[1].after});
  if (def.find_attr("input_shape") != nullptr) known.set("input_shape", input);
  return known;
}

bool spatial_split(const Attrs& attrs) {
  return attrs.text("padding") != "same" || attrs.ints("stride") == std::vector<int64_t>{1, 1};
}

Window::Span span_of(const Box& box, const std::string& index, int64_t extent) {
  for (const IndexRange& range : box) {
    if (range.name != index) continue;
    const int64_t scale = range.global > 0 ? extent / range.global : 0;
    return {range.origin * scale, range.extent * scale};
  }
  return {0, extent};
}

Window::Span read_span(const Window& window, Window::Span outputs, int64_t out, int64_t in) {
  return outputs.extent == out ? Window::Span{0, in} : window.inputs_of(outputs, in);
}

Rect rect_of(const std::vector<Window::Span>& spans) {
  Rect rect;
  for (const Window::Span& span : spans) {
    rect.origin.push_back(span.begin);
    rect.extent.push_back(span.extent);
  }
  return rect;
}

IndexRange whole_index(const std::string& name, int64_t extent) { return {name, 0, extent, extent}; }

}  // namespace ff
