// Where the part that a call covers lies in the whole: for kernels whose numbers depend on it.
#pragma once

#include <string>

#include "graph/call.h"

namespace ff {

// Where the part starts along an index; 0 without a box or such an index.
inline int64_t origin_of(const OpCall& call, const std::string& index) {
  for (const IndexRange& range : call.box)
    if (range.name == index) return range.origin;
  return 0;
}

// The runs of elements of output 0 that are neighbours in the whole tensor too. For ops whose first indices are the
// dimensions of that output.
class GlobalRuns {
 public:
  explicit GlobalRuns(const OpCall& call) {
    const Shape& shape = call.outputs[0].shape;
    bool joined = true;  // all dimensions after this one are whole
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      const bool split = d < call.box.size() && !call.box[d].whole();
      if (joined)
        length_ *= shape[d];
      else
        outer_.push_back({shape[d], stride});
      if (split) first_ += call.box[d].origin * stride;
      stride *= split ? call.box[d].global : shape[d];
      joined = joined && !split;
    }
    for (const Outer& dim : outer_) count_ *= dim.extent;
  }

  int64_t length() const { return length_; }
  int64_t count() const { return count_; }
  // Index in the whole tensor of the first element of a run.
  int64_t start(int64_t run) const {
    int64_t index = first_;
    for (const Outer& dim : outer_) {
      index += run % dim.extent * dim.stride;
      run /= dim.extent;
    }
    return index;
  }

 private:
  struct Outer {
    int64_t extent, stride;
  };
  std::vector<Outer> outer_;  // innermost first
  int64_t length_ = 1, count_ = 1, first_ = 0;
};

}  // namespace ff
