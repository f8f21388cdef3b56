// Sums over many items on several cores. The items are cut into fixed chunks, so that the result does not depend on the
// number of threads.
#pragma once

#include <algorithm>
#include <vector>

#include "base/parallel.h"

namespace ff {

// part(begin, end) gives the sum of a chunk; Sum has += and starts at zero.
template <class Sum, class F>
Sum chunked_sum(int64_t n, int64_t chunk, F&& part) {
  std::vector<Sum> parts(static_cast<size_t>((n + chunk - 1) / chunk));
  parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) parts[c] = part(c * chunk, std::min(n, (c + 1) * chunk));
  });
  Sum total{};
  for (const Sum& sum : parts) total += sum;
  return total;
}

}  // namespace ff
