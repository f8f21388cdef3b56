#include "kernels/box.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"
#include "kernels/walk.h"

namespace ff::reference {
namespace {

// The index of a call line by line along `dim`, with the place in the long tensor where its line begins. What lies
// outside of the part [first, first + entries) of the picked dimension is another part's.
struct Lines {
  int64_t count = 0, length = 0;
  int64_t stride = 1, long_stride = 1;
  int64_t first = 0, entries = 0, global = 0;
  Walk<2> starts;

  Lines(const OpCall& call, const Shape& index, const Shape& whole)
      : Lines(call, index, whole,
              static_cast<size_t>(normal_axis(call.attrs.integer("dim"), index.size(), call.name))) {}

  Lines(const OpCall& call, const Shape& index, const Shape& whole, size_t dim)
      : length(index[dim]),
        stride(dense_strides(index)[dim]),
        long_stride(dense_strides(whole)[dim]),
        first(origin_of(call, "v")),
        entries(whole[dim]),
        global(whole[dim]),
        starts(without(index, dim), {without(dense_strides(index), dim), without(dense_strides(whole), dim)}) {
    count = starts.total();
    for (const IndexRange& range : call.box)
      if (range.name == "v") global = range.global;
  }

  static Shape without(Shape shape, size_t dim) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
    return shape;
  }

  template <class Id>
  void check(const OpCall& call, const Id* ids, int64_t n) const {
    for (int64_t i = 0; i < n; ++i)
      if (ids[i] < 0 || ids[i] >= global)
        bad_value(call.name, ": index ", ids[i], " at position ", i, " is out of range; expected 0 <= index < ",
                  global);
  }

  // body(at, picked): element `at` of the index and the element of the long tensor that it names; -1: not in this part.
  template <class Id, class Body>
  void run(const Id* ids, Body body) const {
    constexpr int64_t kGrain = 4096;
    starts.run(std::max<int64_t>(1, kGrain / std::max<int64_t>(1, length)), [&](const auto& offsets, int64_t n) {
      for (int64_t line = 0; line < n; ++line) {
        const int64_t at = offsets[0] + line * starts.stride()[0], start = offsets[1] + line * starts.stride()[1];
        for (int64_t k = 0; k < length; ++k) {
          const int64_t id = static_cast<int64_t>(ids[at + k * stride]) - first;
          body(at + k * stride, id >= 0 && id < entries ? start + id * long_stride : -1);
        }
      }
    });
  }
};

void gather(const OpCall& call, const RunArgs& args) {
  const Lines lines(call, call.inputs[1].shape, call.inputs[0].shape);
  dispatch_index(call.inputs[1].dtype, [&](auto id) {
    const auto* ids = args.input<decltype(id)>(1);
    lines.check(call, ids, call.inputs[1].numel());
    dispatch_number(call.outputs[0].dtype, [&](auto zero) {
      const auto* x = args.input<decltype(zero)>(0);
      auto* y = args.output<decltype(zero)>(0);
      lines.run(ids, [=](int64_t at, int64_t picked) { y[at] = picked < 0 ? zero : x[picked]; });
    });
  });
}

// Elements of one line of x are added to by one line of the index only, in its order.
void gather_grad(const OpCall& call, const RunArgs& args) {
  const Lines lines(call, call.inputs[0].shape, call.outputs[0].shape);
  dispatch_index(call.inputs[0].dtype, [&](auto id) {
    const auto* ids = args.input<decltype(id)>(0);
    lines.check(call, ids, call.inputs[0].numel());
    dispatch_float(call.outputs[0].dtype, [&](auto zero) {
      const auto* dy = args.input<decltype(zero)>(1);
      auto* dx = args.output<decltype(zero)>(0);
      std::fill_n(dx, call.outputs[0].numel(), zero);
      lines.run(ids, [=](int64_t at, int64_t picked) {
        if (picked >= 0) dx[picked] += dy[at];
      });
    });
  });
}

Bind bind(void (*run)(const OpCall&, const RunArgs&)) {
  return [run](const BindContext& context) {
    return make_kernel([run, call = context.call](const RunArgs& args) { run(call, args); });
  };
}

std::vector<KernelDef> gather_kernels() {
  return {define("gather", bind(gather), number_output), define("gather_grad", bind(gather_grad), float_output)};
}

REGISTER_KERNELS(gather_kernels);

}  // namespace
}  // namespace ff::reference
