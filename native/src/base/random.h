// Counter-based random numbers: the number for an element depends on (seed, stream, step, element) alone, never on
// who computes it, so any split of the work draws the same numbers.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace ff {

// Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The numbers of one random op in one step. Neighbouring elements share a Philox block, which is kept.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t stream, uint64_t step) : seed_(seed), stream_(stream), step_(step) {}

  // Uniform bits of an element (its global logical index).
  uint32_t bits(uint64_t element) {
    const uint64_t block = element / 4;
    if (block != block_ || fresh_) {
      block_ = block;
      fresh_ = false;
      // 64 bits of element, 32 of step and 32 of stream fill the counter; the seed is the key.
      const uint64_t mixed = step_ * 0x9E3779B97F4A7C15ull + stream_;
      words_ = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(mixed),
                       static_cast<uint32_t>(mixed >> 32)},
                      {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    }
    return words_[element % 4];
  }

  // Uniform in [0, 1), 24 bits.
  float uniform(uint64_t element) { return static_cast<float>(bits(element) >> 8) * 0x1p-24f; }

  // Standard normal by Box and Muller; element i uses the bits of 2i and 2i + 1.
  double normal(uint64_t element) {
    const double u = (static_cast<double>(bits(2 * element)) + 1.0) * 0x1p-32;
    const double v = static_cast<double>(bits(2 * element + 1)) * 0x1p-32;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  uint64_t seed_, stream_, step_;
  uint64_t block_ = 0;
  bool fresh_ = true;
  std::array<uint32_t, 4> words_{};
};

}  // namespace ff
