// Moving bytes, whatever they mean.
#pragma once

#include <cstring>

#include "base/error.h"
#include "base/parallel.h"

namespace ff::reference {

// A copy on several cores; source and target may be the same.
inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  constexpr int64_t kGrain = 1 << 16;
  if (to == from) return;
  parallel_for(bytes, kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

// The function is called with a zero of an unsigned type of that many bytes.
template <class F>
decltype(auto) dispatch_size(size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      FF_CHECK(false, "an element of ", bytes, " bytes");
  }
}

}  // namespace ff::reference
