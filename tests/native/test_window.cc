// The arithmetic of windows against counting.
#include <algorithm>
#include <set>

#include "check.h"
#include "graph/window.h"

using namespace ff;

namespace {

// Call body(window, in) for many windows over inputs of several sizes.
template <class F>
void each_window(F body) {
  for (int64_t kernel = 1; kernel <= 4; ++kernel)
    for (int64_t stride = 1; stride <= 4; ++stride)
      for (int64_t dilation = 1; dilation <= 3; ++dilation)
        for (int64_t before = 0; before <= 3; ++before)
          for (int64_t after = 0; after <= 3; ++after)
            for (int64_t in = 1; in <= 9; ++in)
              body(Window{.kernel = kernel, .stride = stride, .dilation = dilation, .before = before, .after = after},
                   in);
}

// The inputs that an output reads, within [0, in).
std::set<int64_t> read_by(const Window& window, int64_t output, int64_t in) {
  std::set<int64_t> read;
  for (int64_t k = 0; k < window.kernel; ++k)
    if (const int64_t at = output * window.stride - window.before + k * window.dilation; at >= 0 && at < in)
      read.insert(at);
  return read;
}

TEST(output_extents) {
  each_window([](const Window& window, int64_t in) {
    const int64_t padded = in + window.before + window.after;
    int64_t fit = 0;
    while (fit * window.stride + window.reach() <= padded) ++fit;
    CHECK(std::max<int64_t>(0, window.output_extent(in, false)) == fit, in);
    // In ceil mode a window may hang over the end, but must start on an input or on the padding before, as PyTorch has
    // it.
    if (fit == 0 || window.dilation > 1 || std::max(window.before, window.after) >= window.kernel) return;
    int64_t hang = 1;
    while ((hang - 1) * window.stride + window.reach() < padded) ++hang;
    while ((hang - 1) * window.stride >= in + window.before) --hang;
    CHECK(window.output_extent(in, true) == hang, in, " ", window.kernel, " ", window.stride, " ", window.before, " ",
          window.after);
  });
}

TEST(inputs_of_outputs) {
  each_window([](const Window& window, int64_t in) {
    const int64_t out = window.output_extent(in, false);
    for (int64_t begin = 0; begin < out; ++begin)
      for (int64_t extent = 1; begin + extent <= out; ++extent) {
        const Window::Span span = window.inputs_of({begin, extent}, in);
        CHECK(span.begin >= 0 && span.extent >= 0 && span.begin + span.extent <= in);
        for (int64_t o = begin; o < begin + extent; ++o)
          for (const int64_t i : read_by(window, o, in))
            CHECK(i >= span.begin && i < span.begin + span.extent, o, " reads ", i);
      }
    const Window::Span none = window.inputs_of({0, 0}, in);
    CHECK(none.extent == 0);
  });
}

TEST(outputs_of_inputs) {
  each_window([](const Window& window, int64_t in) {
    const int64_t out = window.output_extent(in, false);
    if (out < 1) return;
    for (int64_t begin = 0; begin < in; ++begin)
      for (int64_t extent = 1; begin + extent <= in; ++extent) {
        const Window::Span span = window.outputs_of({begin, extent}, out);
        CHECK(span.begin >= 0 && span.extent >= 1 && span.begin + span.extent <= out);
        for (int64_t o = 0; o < out; ++o) {
          const auto read = read_by(window, o, in);
          const bool reads =
              std::any_of(read.begin(), read.end(), [&](int64_t i) { return i >= begin && i < begin + extent; });
          CHECK(!reads || (o >= span.begin && o < span.begin + span.extent), o);
        }
      }
  });
}

TEST(same_padding_gives_an_output_per_stride) {
  for (int64_t in = 1; in <= 12; ++in)
    for (int64_t kernel = 1; kernel <= 5; ++kernel)
      for (int64_t stride = 1; stride <= 4; ++stride) {
        const Attrs attrs = {{"kernel", std::vector<int64_t>{kernel, 1}},
                             {"stride", std::vector<int64_t>{stride, 1}},
                             {"padding", std::string("same")},
                             {"pads", std::vector<int64_t>{0, 0, 0, 0}}};
        const Window window = windows_of(attrs, in, 1)[0];
        CHECK(window.output_extent(in, false) == (in + stride - 1) / stride, in, " ", kernel, " ", stride);
        CHECK(window.after - window.before == 0 || window.after - window.before == 1);
      }
}

}  // namespace
