#include "graph/window.h"

#include <algorithm>

namespace ff {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }  // b > 0
int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// Padding after that makes the windows end where the last output's does; inputs beyond are not read.
int64_t missing_after(const Window& window, int64_t in, int64_t out) {
  return std::max<int64_t>(0, (out - 1) * window.stride + window.reach() - in - window.before);
}

}  // namespace

int64_t Window::output_extent(int64_t in, bool ceil_mode) const {
  const int64_t slack = in + before + after - reach();
  const int64_t floor_mode = floor_div(slack, stride) + 1;
  if (!ceil_mode) return floor_mode;
  const int64_t most = ceil_div(slack, stride) + 1;
  return (most - 1) * stride >= in + before ? most - 1 : most;
}

Window::Span Window::inputs_of(Span outputs, int64_t in) const {
  const int64_t begin = std::clamp<int64_t>(outputs.begin * stride - before, 0, in);
  const int64_t last = (outputs.begin + outputs.extent - 1) * stride - before;
  const int64_t end = std::clamp<int64_t>(outputs.extent > 0 ? last + reach() : begin, begin, in);
  return {begin, end - begin};
}

Window::Span Window::outputs_of(Span inputs, int64_t out) const {
  const int64_t first_reader = ceil_div(inputs.begin + before - (reach() - 1), stride);
  const int64_t at_or_before = floor_div(inputs.begin + before, stride);
  const int64_t begin = std::clamp<int64_t>(std::min(first_reader, at_or_before), 0, out - 1);
  const int64_t end = floor_div(inputs.begin + inputs.extent - 1 + before, stride) + 1;
  return {begin, std::clamp<int64_t>(end, begin + 1, out) - begin};
}

Windows windows_of(const Attrs& attrs, int64_t height, int64_t width) {
  const auto& kernel = attrs.ints("kernel");
  const auto& stride = attrs.ints("stride");
  const auto& pads = attrs.ints("pads");
  const std::string& padding = attrs.text("padding");
  const std::array<int64_t, 2> in = {height, width};
  Windows windows;
  for (size_t axis = 0; axis < 2; ++axis) {
    Window& window = windows[axis];
    window.kernel = kernel[axis];
    window.stride = stride.empty() ? window.kernel : stride[axis];
    if (attrs.has("dilation")) window.dilation = attrs.ints("dilation")[axis];
    if (padding == "explicit") {
      window.before = pads[axis];
      window.after = pads[axis + 2];
    } else if (padding == "same") {
      const int64_t out = ceil_div(in[axis], window.stride);
      const int64_t total = std::max<int64_t>(0, (out - 1) * window.stride + window.reach() - in[axis]);
      window.before = total / 2;
      window.after = total - total / 2;
    }
  }
  return windows;
}

Windows part_by_outputs(const OpCall& call, const Shape& inputs, const Shape& outputs) {
  std::array<int64_t, 2> origin = {0, 0};
  std::array<int64_t, 2> in = {inputs[2], inputs[3]};
  for (const IndexRange& range : call.box) {
    if (range.name != "p" && range.name != "q") continue;
    const size_t axis = range.name == "q";
    origin[axis] = range.origin;
    // Of the padding "same" only windows of stride 1 are split: they have as many outputs as inputs.
    if (!range.whole()) in[axis] = range.global;
  }
  Windows windows = windows_of(call.attrs, in[0], in[1]);
  for (size_t axis = 0; axis < 2; ++axis) {
    Window& window = windows[axis];
    window.before = std::max<int64_t>(0, window.before - origin[axis] * window.stride);
    window.after = missing_after(window, inputs[axis + 2], outputs[axis + 2]);
  }
  return windows;
}

Windows part_by_inputs(const OpCall& call, const Shape& inputs, const Shape& outputs) {
  const auto& whole = call.attrs.ints("input_shape");
  const bool ceil_mode = call.attrs.has("ceil_mode") && call.attrs.flag("ceil_mode");
  Windows windows = windows_of(call.attrs, whole[2], whole[3]);
  for (size_t axis = 0; axis < 2; ++axis) {
    Window& window = windows[axis];
    const int64_t out = window.output_extent(whole[axis + 2], ceil_mode);
    for (const IndexRange& range : call.box) {
      if (range.name != (axis == 0 ? "h" : "w") || range.whole()) continue;
      window.before += range.origin - window.outputs_of({range.origin, range.extent}, out).begin * window.stride;
    }
    window.after = missing_after(window, inputs[axis + 2], outputs[axis + 2]);
  }
  return windows;
}

}  // namespace ff
