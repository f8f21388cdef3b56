#include "graph/rect.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace ff {

Rect whole_of(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

int64_t volume(const Rect& rect) { return numel(rect.extent); }

bool contains(const Rect& outer, const Rect& inner) {
  for (size_t d = 0; d < outer.extent.size(); ++d)
    if (inner.origin[d] < outer.origin[d] || inner.origin[d] + inner.extent[d] > outer.origin[d] + outer.extent[d])
      return false;
  return true;
}

std::optional<Rect> intersection(const Rect& a, const Rect& b) {
  Rect common = a;
  for (size_t d = 0; d < a.extent.size(); ++d) {
    const int64_t end = std::min(a.origin[d] + a.extent[d], b.origin[d] + b.extent[d]);
    common.origin[d] = std::max(a.origin[d], b.origin[d]);
    common.extent[d] = end - common.origin[d];
    if (common.extent[d] <= 0) return std::nullopt;
  }
  return common;
}

std::vector<Rect> difference(const Rect& from, const Rect& without) {
  const std::optional<Rect> common = intersection(from, without);
  if (!common) return {from};
  std::vector<Rect> left;
  Rect rest = from;  // shrinks to what they have in common, one side after the other
  for (size_t d = 0; d < from.extent.size(); ++d) {
    const int64_t begin = common->origin[d], end = begin + common->extent[d];
    const int64_t rest_end = rest.origin[d] + rest.extent[d];
    if (rest.origin[d] < begin) {
      left.push_back(rest);
      left.back().extent[d] = begin - rest.origin[d];
    }
    if (end < rest_end) {
      left.push_back(rest);
      left.back().origin[d] = end;
      left.back().extent[d] = rest_end - end;
    }
    rest.origin[d] = begin;
    rest.extent[d] = end - begin;
  }
  return left;
}

Rect relative_to(const Rect& rect, const Rect& frame) {
  Rect out = rect;
  for (size_t d = 0; d < out.origin.size(); ++d) out.origin[d] -= frame.origin[d];
  return out;
}

std::string to_string(const Rect& rect) {
  std::vector<std::string> ranges;
  for (size_t d = 0; d < rect.extent.size(); ++d)
    ranges.push_back(cat(rect.origin[d], ":", rect.origin[d] + rect.extent[d]));
  return cat("[", join(ranges), "]");
}

Range part_of(int64_t n, int part, int parts) {
  const int64_t least = n / parts, larger = n % parts;
  return {part * least + std::min<int64_t>(part, larger), least + (part < larger ? 1 : 0)};
}

std::optional<int64_t> run_in(const Rect& rect, const Shape& shape) {
  int64_t start = 0;
  bool many = false;  // rows of what follows: that must be whole
  for (size_t d = 0; d < shape.size(); ++d) {
    start = start * shape[d] + rect.origin[d];
    if (many && rect.extent[d] != shape[d]) return std::nullopt;
    many = many || rect.extent[d] != 1;
  }
  return start;
}

size_t slicing_dim(const Rect& rect, size_t slices) {
  for (size_t d = 0; d < rect.extent.size(); ++d)
    if (rect.extent[d] >= static_cast<int64_t>(slices)) return d;
  return 0;
}

void copy_rect(const Rect& rect, size_t element_bytes, const void* from, const Rect& from_rect, void* to,
               const Rect& to_rect) {
  const size_t rank = rect.extent.size();
  size_t run = element_bytes;  // of the dimensions from `inner` on, which both sides pass as one
  size_t inner = rank;
  for (bool joined = true; joined && inner > 0; --inner) {
    const size_t d = inner - 1;
    joined = rect.extent[d] == from_rect.extent[d] && rect.extent[d] == to_rect.extent[d];
    run *= static_cast<size_t>(rect.extent[d]);
  }
  const auto offset = [&](const Rect& frame, const Shape& at) {
    int64_t index = 0;
    for (size_t d = 0; d < rank; ++d)
      index = index * frame.extent[d] + rect.origin[d] - frame.origin[d] + (d < inner ? at[d] : 0);
    return static_cast<size_t>(index) * element_bytes;
  };
  if (volume(rect) == 0) return;
  Shape at(inner, 0);
  while (true) {
    std::memcpy(static_cast<char*>(to) + offset(to_rect, at), static_cast<const char*>(from) + offset(from_rect, at),
                run);
    size_t d = inner;
    while (d > 0 && ++at[d - 1] == rect.extent[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace ff
