// The activations that linear and conv2d apply to their sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace ff::reference {

inline double activate(const std::string& name, double x) {
  if (name == "none") return x;
  if (name == "relu") return std::max(x, 0.0);
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  FF_CHECK(name == "gelu", "unknown activation ", name);
  return 0.5 * x * (1 + std::erf(x * 0.70710678118654752440));
}

}  // namespace ff::reference
