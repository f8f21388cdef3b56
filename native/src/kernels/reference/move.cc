// Rectangles from shard to shard. Where all inputs cover the output, as in the sum of gradients, a block of the output
// stays in the cache until it is finished.
#include <algorithm>
#include <limits>

#include "graph/moves.h"
#include "kernels/reference/copy.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"
#include "kernels/walk.h"

namespace ff::reference {
namespace {

constexpr int64_t kBlock = 4096;

// A piece as a walk over the output and the input.
struct Piece {
  int input;
  Walk<2> walk;
  int64_t to = 0, from = 0;  // offsets of its first elements
  bool flat = false;         // all of the output, from a run of the input

  Piece(const MovePiece& piece, const Shape& out, const Shape& in)
      : input(piece.input),
        walk(piece.to.extent, {dense_strides(out), dense_strides(in)}),
        to(offset(piece.to, out)),
        from(offset(piece.from, in)),
        flat(piece.to.extent == out && run_in(piece.from, in).has_value()) {}

  static int64_t offset(const Rect& rect, const Shape& shape) {
    const Shape strides = dense_strides(shape);
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d) at += rect.origin[d] * strides[d];
    return at;
  }
};

std::vector<Piece> pieces_of(const OpCall& call) {
  std::vector<Piece> pieces;
  const Moves moves(call);
  for (const MovePiece& piece : moves.pieces())
    pieces.emplace_back(piece, call.outputs[0].shape, call.inputs[piece.input].shape);
  return pieces;
}

// A piece that lies in place already is left alone: output and input are one memory there.
template <class T>
void copy(const Piece& piece, const RunArgs& args) {
  if (args.output<T>(0) + piece.to == args.input<T>(piece.input) + piece.from) return;
  piece.walk.run(kBlock * 4, [&, step = piece.walk.stride()](const auto& offset, int64_t n) {
    T* y = args.output<T>(0) + piece.to + offset[0];
    const T* x = args.input<T>(piece.input) + piece.from + offset[1];
    if (step[0] == 1 && step[1] == 1)
      std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
    else
      for (int64_t i = 0; i < n; ++i) y[i * step[0]] = x[i * step[1]];
  });
}

std::unique_ptr<Kernel> bind_copies(const OpCall& call) {
  return dispatch_size(size_of(call.outputs[0].dtype), [&](auto zero) {
    using T = decltype(zero);
    return make_kernel([pieces = pieces_of(call)](const RunArgs& args) {
      for (const Piece& piece : pieces) copy<T>(piece, args);
    });
  });
}

struct Sum {
  static constexpr double identity = 0;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Product {
  static constexpr double identity = 1;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
};
// A NaN stays.
struct Max {
  static constexpr double identity = -std::numeric_limits<double>::infinity();
  template <class T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  static constexpr double identity = std::numeric_limits<double>::infinity();
  template <class T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <class T>
T identity_of(double identity) {
  if constexpr (std::numeric_limits<T>::is_integer) {
    if (identity == std::numeric_limits<double>::infinity()) return std::numeric_limits<T>::max();
    if (identity == -std::numeric_limits<double>::infinity()) return std::numeric_limits<T>::lowest();
  }
  return static_cast<T>(static_cast<float>(identity));
}

template <class Op, class T>
void combine_flat(const std::vector<Piece>& pieces, int64_t total, const RunArgs& args) {
  parallel_for(total, kBlock * 4, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      T* y = args.output<T>(0) + at;
      if (const T* x = args.input<T>(pieces[0].input) + pieces[0].from + at; x != y) std::copy_n(x, n, y);
      for (size_t p = 1; p < pieces.size(); ++p) {
        const T* x = args.input<T>(pieces[p].input) + pieces[p].from + at;
        for (int64_t i = 0; i < n; ++i) y[i] = Op::template apply<T>(y[i], x[i]);
      }
    }
  });
}

template <class Op, class T>
void combine(const std::vector<Piece>& pieces, int64_t total, const RunArgs& args) {
  std::fill_n(args.output<T>(0), total, identity_of<T>(Op::identity));
  for (const Piece& piece : pieces)
    piece.walk.run(kBlock * 4, [&, step = piece.walk.stride()](const auto& offset, int64_t n) {
      T* y = args.output<T>(0) + piece.to + offset[0];
      const T* x = args.input<T>(piece.input) + piece.from + offset[1];
      for (int64_t i = 0; i < n; ++i) y[i * step[0]] = Op::template apply<T>(y[i * step[0]], x[i * step[1]]);
    });
}

template <class Op>
std::unique_ptr<Kernel> bind_combination(const OpCall& call) {
  return dispatch_any(call.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<Piece> pieces = pieces_of(call);
    const bool flat =
        !pieces.empty() && std::all_of(pieces.begin(), pieces.end(), [](const Piece& p) { return p.flat; });
    return make_kernel([pieces = std::move(pieces), flat, total = call.outputs[0].numel()](const RunArgs& args) {
      (flat ? combine_flat<Op, T> : combine<Op, T>)(pieces, total, args);
    });
  });
}

std::unique_ptr<Kernel> bind_move(const BindContext& context) {
  const std::string& combiner = context.call.attrs.text("combiner");
  if (combiner == "copy") return bind_copies(context.call);
  if (combiner == "sum") return bind_combination<Sum>(context.call);
  if (combiner == "prod") return bind_combination<Product>(context.call);
  return combiner == "min" ? bind_combination<Min>(context.call) : bind_combination<Max>(context.call);
}

std::vector<KernelDef> move_kernels() { return {define("move", bind_move)}; }
REGISTER_KERNELS(move_kernels);

}  // namespace
}  // namespace ff::reference
