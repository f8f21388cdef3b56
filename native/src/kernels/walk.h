// A loop over a tensor in which each of N operands moves by strides of its own: broadcasting, transposing, reducing.
// Neighbouring dimensions that all operands pass as one are merged, so that the innermost runs are long.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "graph/tensor.h"

namespace ff {

// Row-major strides, in elements.
inline Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Strides by which a dense tensor moves when it is broadcast to `out`: 0 where it repeats.
inline Shape broadcast_strides(const Shape& shape, const Shape& out) {
  const Shape dense = dense_strides(shape);
  Shape strides(out.size(), 0);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) strides[out.size() - shape.size() + d] = dense[d];
  return strides;
}

template <size_t N>
class Walk {
 public:
  using Offsets = std::array<int64_t, N>;

  Walk(const Shape& shape, const std::array<Shape, N>& strides) : total_(numel(shape)) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      Offsets step;
      for (size_t k = 0; k < N; ++k) step[k] = strides[k][d];
      if (continues(step, shape[d])) {
        extents_.back() *= shape[d];
        steps_.back() = step;
      } else {
        extents_.push_back(shape[d]);
        steps_.push_back(step);
      }
    }
    if (extents_.empty()) {
      extents_.push_back(1);
      steps_.push_back({});
    }
    FF_CHECK(extents_.size() <= kMaxRank, "a tensor of rank ", shape.size());
  }

  int64_t total() const { return total_; }
  // By how much each operand moves within a run.
  const Offsets& stride() const { return steps_.back(); }

  // Call body(offsets, n) for every run of n elements; the cores share the work.
  template <class F>
  void run(int64_t grain, F&& body) const {
    parallel_for(total_, grain, [&](int64_t begin, int64_t end) { range(begin, end, body); });
  }

  // The same for the elements [begin, end) in row-major order, on this thread.
  template <class F>
  void range(int64_t begin, int64_t end, F&& body) const {
    if (begin >= end) return;
    const size_t last = extents_.size() - 1;
    int64_t at = begin % extents_[last], outer = begin / extents_[last];
    std::array<int64_t, kMaxRank> index{};
    Offsets offsets{};
    for (size_t d = last; d-- > 0; outer /= extents_[d]) {
      index[d] = outer % extents_[d];
      move(offsets, d, index[d]);
    }
    move(offsets, last, at);
    while (true) {
      const int64_t n = std::min(extents_[last] - at, end - begin);
      body(static_cast<const Offsets&>(offsets), n);
      begin += n;
      if (begin == end) return;
      move(offsets, last, -at);
      at = 0;
      for (size_t d = last; d-- > 0;) {
        move(offsets, d, 1);
        if (++index[d] < extents_[d]) break;
        move(offsets, d, -extents_[d]);
        index[d] = 0;
      }
    }
  }

 private:
  static constexpr size_t kMaxRank = 16;

  bool continues(const Offsets& step, int64_t extent) const {
    if (extents_.empty()) return false;
    for (size_t k = 0; k < N; ++k)
      if (steps_.back()[k] != step[k] * extent) return false;
    return true;
  }

  void move(Offsets& offsets, size_t d, int64_t by) const {
    for (size_t k = 0; k < N; ++k) offsets[k] += by * steps_[d][k];
  }

  int64_t total_;
  std::vector<int64_t> extents_;
  std::vector<Offsets> steps_;
};

}  // namespace ff
