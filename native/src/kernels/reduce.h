// A reduction seen by a kernel: which dimensions go, and how the elements of the input lie for each output.
#pragma once

#include "graph/call.h"
#include "kernels/walk.h"

namespace ff {

// By dimension of x: is it reduced?
inline std::vector<bool> reduced_axes(const OpCall& call, const TensorType& x) {
  const std::vector<int64_t>& axes = call.attrs.ints("axes");
  std::vector<bool> reduced(x.rank(), axes.empty());
  for (const int64_t axis : axes) reduced[normal_axis(axis, x.rank(), call.name)] = true;
  return reduced;
}

// How many elements of the whole input one output stands for; at least 1.
inline double reduced_count(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const std::vector<bool> reduced = reduced_axes(call, x);
  double count = 1;
  for (size_t d = 0; d < x.rank(); ++d)
    if (reduced[d])
      count *= static_cast<double>(std::max<int64_t>(1, call.box.empty() ? x.shape[d] : call.box[d].global));
  return count;
}

struct Reduction {
  Walk<2> outputs;   // operands: outputs in order, the first element of each in x
  Walk<1> elements;  // of one output, from its first

  Reduction(const OpCall& call, const TensorType& x) : Reduction(x.shape, reduced_axes(call, x)) {}

 private:
  Reduction(const Shape& shape, const std::vector<bool>& reduced)
      : outputs(outputs_of(shape, reduced)), elements(elements_of(shape, reduced)) {}

  // The dimensions of one kind, and how x moves along them.
  static void pick(const Shape& shape, const std::vector<bool>& reduced, bool kind, Shape& extents, Shape& strides) {
    const Shape dense = dense_strides(shape);
    for (size_t d = 0; d < shape.size(); ++d)
      if (reduced[d] == kind) {
        extents.push_back(shape[d]);
        strides.push_back(dense[d]);
      }
  }

  static Walk<2> outputs_of(const Shape& shape, const std::vector<bool>& reduced) {
    Shape extents, strides;
    pick(shape, reduced, false, extents, strides);
    return {extents, {dense_strides(extents), strides}};
  }

  static Walk<1> elements_of(const Shape& shape, const std::vector<bool>& reduced) {
    Shape extents, strides;
    pick(shape, reduced, true, extents, strides);
    return {extents, {strides}};
  }
};

}  // namespace ff
