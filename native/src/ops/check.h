// Checks that the shape rules of many operators share. Each message names the op, what came, what was expected and,
// where there is something to do, what.
#pragma once

#include <string>

#include "graph/call.h"

namespace ff {

// There must be `count` inputs, weights included; `what` lists them.
void expect_inputs(const OpCall& call, size_t count, const std::string& what);
// Input `index` must be of a floating-point dtype.
void expect_float(const OpCall& call, int index);
// Input `index` must be of int32 or int64.
void expect_integer(const OpCall& call, int index);
// Input `index` must have a rank from least to most; `layout` says what its dimensions mean, e.g. "(N, C, H, W)".
void expect_rank(const OpCall& call, int index, size_t least, size_t most, const std::string& layout);
// Input `index` must be exactly this; `what` names its part in the op, e.g. "kernel (out, in)".
void expect_type(const OpCall& call, int index, const TensorType& expected, const std::string& what);
// An attribute that holds a list must have `count` entries, none below `least`.
void expect_list(const OpCall& call, const std::string& attr, size_t count, int64_t least);
// An integer attribute must be at least `least`.
void expect_least(const OpCall& call, const std::string& attr, int64_t least);

}  // namespace ff
