// Checks and small rules that many operators share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/rect.h"
#include "ops/check.h"
#include "ops/op.h"

namespace ff {

// Each throws an Error that names the op, what came, what was expected and what to do.
void expect_number(const OpCall& call, int input = 0);  // anything but bool
void expect_equal_dtypes(const OpCall& call, int a, int b);
void expect_equal_shapes(const OpCall& call, int a, int b);

// The shape rule of ops whose only output is like their first input.
std::vector<TensorType> like_first(const OpCall& call);
// The work rule of ops that spend `each` operations on an element of their first output (or first input, where that
// is larger).
std::function<double(const OpCall&)> flops_per_element(double each);

// An index per dimension of a shape: "x0", "x1", ...
Box indices_over(const Shape& shape, const std::string& letter);
// The part of [begin, begin + length) that lies in the range, counted from begin; empty where they do not meet.
struct Interval {
  int64_t origin = 0;
  int64_t extent = 0;
};
Interval intersect(const IndexRange& range, int64_t begin, int64_t length);

}  // namespace ff
