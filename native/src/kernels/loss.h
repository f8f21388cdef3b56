// What the kernels of losses and metrics share: the samples of a call, and labels that are class ids.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "graph/call.h"

namespace ff {

// The prediction as rows of classes.
struct Rows {
  int64_t count = 1;  // in this part of the batch
  int64_t classes = 1;
  double global = 1;  // in the whole batch; 1 for an empty batch, whose mean is 0
};

// One row per position of the prediction without its last axis; of a vector, one per element.
inline Rows rows_of(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  Rows rows;
  const size_t positions = shape.size() > 1 ? shape.size() - 1 : shape.size();
  int64_t global = 1;
  for (size_t d = 0; d < positions; ++d) {
    rows.count *= shape[d];
    global *= call.box.empty() ? shape[d] : call.box[d].global;
  }
  if (shape.size() > 1) rows.classes = shape.back();
  rows.global = static_cast<double>(std::max<int64_t>(global, 1));
  return rows;
}

template <class Id>
void check_labels(const OpCall& call, const Id* labels, const Rows& rows) {
  for (int64_t row = 0; row < rows.count; ++row)
    if (labels[row] < 0 || labels[row] >= rows.classes)
      bad_value(call.name, ": label ", labels[row], " of sample ", row, " is no class; expected 0 to ",
                rows.classes - 1, ", as the prediction has ", rows.classes, " classes");
}

}  // namespace ff
