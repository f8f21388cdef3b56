// Arithmetic on rectangles of tensors.
#pragma once

#include <optional>
#include <vector>

#include "graph/call.h"

namespace ff {

Rect whole_of(const Shape& shape);
int64_t volume(const Rect& rect);
bool contains(const Rect& outer, const Rect& inner);
// What two rectangles have in common; nothing when that is empty.
std::optional<Rect> intersection(const Rect& a, const Rect& b);
// What is left of a rectangle without another, as rectangles that do not meet.
std::vector<Rect> difference(const Rect& from, const Rect& without);
// The rectangle seen from the origin of one that contains it.
Rect relative_to(const Rect& rect, const Rect& frame);
// Where the elements of a rectangle start in a dense tensor, if they lie one after another there.
std::optional<int64_t> run_in(const Rect& rect, const Shape& shape);
std::string to_string(const Rect& rect);  // "[0:4, 8:16]"

// The p-th of `parts` even parts of n items: where it starts and how many it has. The first ones are the larger.
struct Range {
  int64_t origin = 0, extent = 0;
};
Range part_of(int64_t n, int part, int parts);

// The first dimension with enough for so many slices, which then are runs of memory; the first, if there is none.
size_t slicing_dim(const Rect& rect, size_t slices);

// A rectangle of a tensor in a device's memory.
struct Shard {
  Rect rect;
  int device = 0;
  bool operator==(const Shard&) const = default;
};

// Copy a rectangle between two dense arrays that each hold a rectangle of one tensor.
void copy_rect(const Rect& rect, size_t element_bytes, const void* from, const Rect& from_rect, void* to,
               const Rect& to_rect);

}  // namespace ff
