// Sliding windows of convolution and pooling along one axis: how far the output reaches, which inputs a range of
// outputs reads, and what of the padding is left for a part of the work. Shared by the rules of the operators and by
// their kernels, so that both agree.
#pragma once

#include <array>
#include <cstdint>

#include "graph/call.h"

namespace ff {

struct Window {
  struct Span {
    int64_t begin, extent;
  };

  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // padding

  // Inputs from the first to the last that one window covers.
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // Number of windows over `in` inputs; less than 1 when none fits. ceil_mode admits a last window that hangs over the
  // padded end, if it starts on an input or on the padding before them.
  int64_t output_extent(int64_t in, bool ceil_mode) const;
  // The inputs, of `in`, that these outputs read.
  Span inputs_of(Span outputs, int64_t in) const;
  // Outputs, of `out`, among which are all that read these inputs; never empty, and starting at or before the inputs.
  Span outputs_of(Span inputs, int64_t out) const;
};

using Windows = std::array<Window, 2>;  // rows, columns

// From the attributes kernel, stride (empty: kernel), padding, pads (top, left, bottom, right) and, where the op has
// it, dilation; padding "same" is worked out for an input of height x width.
Windows windows_of(const Attrs& attrs, int64_t height, int64_t width);

// The windows of a call whose box may be a part of the work, from local inputs (N, C, h, w) to local outputs
// (N, C, p, q). Its padding is what the part must add to its own inputs.
Windows part_by_outputs(const OpCall& call, const Shape& inputs, const Shape& outputs);  // box: a range of p, q
Windows part_by_inputs(const OpCall& call, const Shape& inputs, const Shape& outputs);   // box: a range of h, w

}  // namespace ff
