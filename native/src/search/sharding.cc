#include "search/sharding.h"

#include <algorithm>

namespace ff {

int Sharding::degree(int dim) const {
  int degree = 1;
  for (const ShardAxis& axis : axes)
    if (axis.dim == dim) degree *= axis.degree;
  return degree;
}

int Sharding::devices() const {
  int count = 1;
  for (const ShardAxis& axis : axes) count *= axis.degree;
  return count;
}

Sharding sharding_of(const Splitting& splitting, const Placement& placement, Operand operand) {
  Sharding sharding{placement.start, {}};
  const Box& box = splitting.box();
  for (const Split& split : placement.splits) {
    if (split.degree == 1 || split.stride == 0) continue;
    const auto at = std::find_if(box.begin(), box.end(), [&](const IndexRange& r) { return r.name == split.index; });
    int dim = ShardAxis::kCopies;
    if (at != box.end()) {
      const auto index = static_cast<size_t>(at - box.begin());
      dim = std::max(splitting.dim_of(index, operand), static_cast<int>(ShardAxis::kCopies));
      if (operand.output && dim == ShardAxis::kCopies && splitting.combined(index)) dim = ShardAxis::kPartial;
    }
    sharding.axes.push_back({dim, split.degree, split.stride});
  }
  return sharding;
}

Sharding dual(Sharding sharding) {
  for (ShardAxis& axis : sharding.axes)
    if (axis.dim < 0) axis.dim = axis.dim == ShardAxis::kCopies ? ShardAxis::kPartial : ShardAxis::kCopies;
  return sharding;
}

Shape part_shape(const Sharding& sharding, const Shape& shape) {
  Shape part = shape;
  for (const ShardAxis& axis : sharding.axes)
    if (axis.dim >= 0) part[axis.dim] = part_of(part[axis.dim], 0, axis.degree).extent;
  return part;
}

}  // namespace ff
