// How a tensor lies on devices, in a few numbers instead of a rectangle for each: what the search reckons with for
// machines of a thousand devices. Lowering has the rectangles themselves (parallel/parts.h).
#pragma once

#include <vector>

#include "graph/rect.h"
#include "parallel/parts.h"

namespace ff {

// One dimension of a machine view, as it bears on a tensor.
struct ShardAxis {
  static constexpr int kCopies = -1;   // each part has a copy
  static constexpr int kPartial = -2;  // each part has a term of the sum

  int dim = kCopies;  // of the tensor
  int degree = 1;
  int stride = 1;
  bool operator==(const ShardAxis&) const = default;
  auto operator<=>(const ShardAxis&) const = default;
};

struct Sharding {
  int start = 0;
  std::vector<ShardAxis> axes;  // none of degree 1

  int degree(int dim) const;  // of all axes of a dimension, of kCopies or of kPartial
  int devices() const;
  bool operator==(const Sharding&) const = default;
  auto operator<=>(const Sharding&) const = default;
};

// What a placed op makes or needs of an operand.
Sharding sharding_of(const Splitting& splitting, const Placement& placement, Operand operand);
// Of the gradient of a tensor that is read so (or, of one that is made so, as its gradient is read): who reads copies
// gives terms of a sum, and who gives terms reads copies.
Sharding dual(Sharding sharding);
// Its largest part.
Shape part_shape(const Sharding& sharding, const Shape& shape);

}  // namespace ff
