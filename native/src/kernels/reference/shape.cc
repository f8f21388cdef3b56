// Operators that move elements and leave their values alone; they look at the size of an element only.
#include "kernels/reference/copy.h"
#include "kernels/reference/define.h"
#include "kernels/walk.h"

namespace ff::reference {
namespace {

std::unique_ptr<Kernel> bind_copy(const BindContext& context) {
  const auto bytes = static_cast<int64_t>(context.call.outputs[0].bytes());
  return make_kernel([bytes](const RunArgs& args) { copy_bytes(args.out[0], args.in[0], bytes); });
}

std::unique_ptr<Kernel> bind_reorder(const BindContext& context) {
  FF_CHECK(context.layouts.inputs[0].dense() && context.layouts.outputs[0].dense(), context.call.name,
           ": no kernel between layouts ", context.layouts.inputs[0].name(), " and ", context.layouts.outputs[0].name(),
           " of ", to_string(context.call.inputs[0]));
  return bind_copy(context);
}

// The output in order, the input by strides.
std::unique_ptr<Kernel> bind_gather(const TensorType& out, const Shape& strides) {
  const Walk<2> walk(out.shape, {dense_strides(out.shape), strides});
  return dispatch_size(size_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    return make_kernel([walk](const RunArgs& args) {
      constexpr int64_t kGrain = 8192;
      walk.run(kGrain, [&, step = walk.stride()[1]](const auto& offset, int64_t n) {
        T* y = args.output<T>(0) + offset[0];
        const T* x = args.input<T>(0) + offset[1];
        if (step == 1)
          std::copy_n(x, n, y);
        else
          for (int64_t i = 0; i < n; ++i) y[i] = x[i * step];
      });
    });
  });
}

std::unique_ptr<Kernel> bind_transpose(const BindContext& context) {
  const TensorType& x = context.call.inputs[0];
  const Shape dense = dense_strides(x.shape);
  Shape strides;
  for (const int64_t axis : context.call.attrs.ints("perm"))
    strides.push_back(dense[normal_axis(axis, x.rank(), context.call.name)]);
  return bind_gather(context.call.outputs[0], strides);
}

std::unique_ptr<Kernel> bind_broadcast(const BindContext& context) {
  const TensorType& y = context.call.outputs[0];
  return bind_gather(y, broadcast_strides(context.call.inputs[0].shape, y.shape));
}

// Rows of a long tensor next to the rows of the short ones that it is made of.
struct Pieces {
  int64_t rows = 1;
  int64_t row_bytes = 0;
  std::vector<int64_t> bytes;  // of a row of each short tensor

  Pieces(const OpCall& call, const TensorType& whole, const std::vector<TensorType>& shorts) {
    const int axis = normal_axis(call.attrs.integer("axis"), whole.rank(), call.name);
    for (int d = 0; d < axis; ++d) rows *= whole.shape[d];
    for (const TensorType& part : shorts) {
      int64_t row = static_cast<int64_t>(size_of(part.dtype));
      for (size_t d = axis; d < part.rank(); ++d) row *= part.shape[d];
      bytes.push_back(row);
      row_bytes += row;
    }
  }

  // copy(short tensor, its offset, offset in the long one, bytes) for every piece.
  template <class F>
  void run(F&& copy) const {
    constexpr int64_t kBytes = 1 << 16;
    parallel_for(rows, std::max<int64_t>(1, kBytes / std::max<int64_t>(row_bytes, 1)), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t at = row * row_bytes;
        for (size_t i = 0; i < bytes.size(); ++i) {
          copy(i, row * bytes[i], at, bytes[i]);
          at += bytes[i];
        }
      }
    });
  }
};

std::unique_ptr<Kernel> bind_concat(const BindContext& context) {
  const Pieces pieces(context.call, context.call.outputs[0], context.call.inputs);
  return make_kernel([pieces](const RunArgs& args) {
    pieces.run([&](size_t i, int64_t from, int64_t to, int64_t bytes) {
      copy_bytes(args.output<char>(0) + to, args.input<char>(static_cast<int>(i)) + from, bytes);
    });
  });
}

std::unique_ptr<Kernel> bind_split(const BindContext& context) {
  const Pieces pieces(context.call, context.call.inputs[0], context.call.outputs);
  return make_kernel([pieces](const RunArgs& args) {
    pieces.run([&](size_t i, int64_t to, int64_t from, int64_t bytes) {
      // An output that nobody reads has no memory.
      if (args.out[i] != nullptr)
        copy_bytes(args.output<char>(static_cast<int>(i)) + to, args.input<char>(0) + from, bytes);
    });
  });
}

std::vector<KernelDef> shape_kernels() {
  return {define("reorder", bind_reorder), define("identity", bind_copy),         define("flat", bind_copy),
          define("reshape", bind_copy),    define("transpose", bind_transpose),   define("concat", bind_concat),
          define("split", bind_split),     define("broadcast_to", bind_broadcast)};
}
REGISTER_KERNELS(shape_kernels);

}  // namespace
}  // namespace ff::reference
