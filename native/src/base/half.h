// Storage of the two 16-bit floating-point formats. They hold bits and convert to and from float; arithmetic is done in
// float.
#pragma once

#include <bit>
#include <cstdint>

namespace ff {

// The upper half of a float, rounded to nearest even.
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  bfloat16(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const bool nan = (word & 0x7FFFFFFF) > 0x7F800000;
    // Rounding would carry the mantissa of some NaNs into an infinity.
    bits = static_cast<uint16_t>(nan ? (word >> 16) | 0x40 : (word + 0x7FFF + ((word >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// IEEE binary16: 1 sign, 5 exponent and 10 mantissa bits, rounded to nearest even.
struct float16 {
  uint16_t bits = 0;

  float16() = default;
  float16(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (word >> 16) & 0x8000;
    const uint32_t magnitude = word & 0x7FFFFFFF;
    uint32_t half;
    if (magnitude > 0x7F800000) {
      half = 0x7E00;
    } else if (magnitude >= 0x47800000) {  // 2^16 and more, infinity
      half = 0x7C00;
    } else if (magnitude < 0x38800000) {
      // Below 2^-14 the format is fixed-point: adding 0.5 leaves the value, rounded to 2^-24, in the low bits.
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000;
    } else {
      half = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  operator float() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
    // As a float's bits the exponent is too small by 127 - 15; the product mends it, subnormal numbers included.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
  }
};

}  // namespace ff
