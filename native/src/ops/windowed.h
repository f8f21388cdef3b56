// What the rules of convolution and pooling share: their attributes, and how a part of the output maps to the input.
#pragma once

#include "graph/window.h"
#include "ops/op.h"

namespace ff {

// The attributes kernel, stride, padding and pads.
void add_window_attrs(OpDef& op, std::vector<int64_t> default_stride, const std::string& stride_doc);
// Check them against input 0 (N, C, H, W) and give the output (N, channels, P, Q); throws when no window fits.
TensorType window_output(const OpCall& call, int64_t channels);
// The attributes of a gradient op, padding written out; input_shape is added where the op has it.
Attrs window_grad_attrs(const std::string& grad_op, const Attrs& attrs, const Shape& input);

// Can rows and columns of the output be split? The padding "same" with strides needs the whole input to be known.
bool spatial_split(const Attrs& attrs);

// The part of a dimension that the index of that name runs over: all of it without such an index, and several elements
// per step where the index counts groups of them.
Window::Span span_of(const Box& box, const std::string& index, int64_t extent);
// The rows (or columns) of an input of `in` that the part of the `out` outputs reads; all of them for all outputs.
Window::Span read_span(const Window& window, Window::Span outputs, int64_t out, int64_t in);
Rect rect_of(const std::vector<Window::Span>& spans);
// A range over all of an index.
IndexRange whole_index(const std::string& name, int64_t extent);

}  // namespace ff
