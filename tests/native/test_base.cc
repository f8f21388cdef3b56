#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/half.h"
#include "base/parallel.h"
#include "base/random.h"
#include "check.h"

using namespace ff;

namespace {

using Words = std::array<uint32_t, 4>;

// The value of a 16-bit float by the definition of the format, with the given bits of exponent and mantissa.
double defined_value(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const int exponent = bits >> mantissa_bits & top, mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == top) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const double fraction = std::ldexp(mantissa, -mantissa_bits) + (exponent == 0 ? 0 : 1);
  return sign * std::ldexp(fraction, std::max(exponent, 1) - bias);
}

template <class Half>
Half from_bits(int bits) {
  Half half;
  half.bits = static_cast<uint16_t>(bits);
  return half;
}

template <class Half>
void check_all_values(int exponent_bits, int mantissa_bits) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const double expected = defined_value(static_cast<uint16_t>(bits), exponent_bits, mantissa_bits);
    const float value = from_bits<Half>(bits);
    if (std::isnan(expected)) {
      CHECK(std::isnan(value) && std::isnan(static_cast<float>(Half(value))), bits);
      continue;
    }
    CHECK(value == expected && std::signbit(value) == std::signbit(expected), bits);
    CHECK(Half(value).bits == bits, bits);
  }
}

// Between neighbours of the format, the nearer one is taken, and in the middle the even one.
template <class Half>
void check_rounding(int exponent_bits, int mantissa_bits) {
  const int infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = defined_value(static_cast<uint16_t>(bits), exponent_bits, mantissa_bits);
    // Beyond the largest number the next one would be a power of two.
    const double high = bits + 1 == infinity
                            ? std::ldexp(1, 1 << (exponent_bits - 1))
                            : defined_value(static_cast<uint16_t>(bits + 1), exponent_bits, mantissa_bits);
    const auto middle = static_cast<float>((low + high) / 2);
    if (middle != (low + high) / 2 || !std::isfinite(middle)) continue;  // no float lies there
    const int even = bits + (bits & 1);
    CHECK(Half(middle).bits == even, bits);
    CHECK(Half(-middle).bits == (even | 0x8000), bits);
    CHECK(Half(std::nextafter(middle, 0.0f)).bits == bits, bits);
    CHECK(Half(std::nextafter(middle, std::numeric_limits<float>::max())).bits == bits + 1, bits);
  }
}

TEST(philox_known_answers) {
  // The vectors that come with Random123, for 10 rounds of Philox4x32.
  CHECK((philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  CHECK((philox({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK((philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
         Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(random_numbers_depend_on_the_element_alone) {
  RandomStream forward(7, 3, 11), backward(7, 3, 11);
  std::vector<uint32_t> drawn;
  for (uint64_t i = 0; i < 1000; ++i) drawn.push_back(forward.bits(i));
  for (uint64_t i = 1000; i-- > 0;) CHECK(backward.bits(i) == drawn[i], i);
  // Another seed, stream or step gives other numbers; steps and streams do not shift into each other.
  for (const auto& [seed, stream, step] :
       {std::array<uint64_t, 3>{8, 3, 11}, {7, 4, 11}, {7, 3, 12}, {7, 11, 3}, {7, 4, 10}}) {
    RandomStream other(seed, stream, step);
    int equal = 0;
    for (uint64_t i = 0; i < 1000; ++i) equal += other.bits(i) == drawn[i];
    CHECK(equal == 0, seed, " ", stream, " ", step);
  }
}

TEST(random_numbers_have_their_distributions) {
  constexpr int kCount = 200000;
  RandomStream random(1, 2, 3);
  double sum = 0, square = 0;
  for (int i = 0; i < kCount; ++i) {
    const float u = random.uniform(i);
    CHECK(u >= 0 && u < 1);
    sum += u;
    square += u * u;
  }
  // Five standard deviations of the estimates.
  CHECK(std::abs(sum / kCount - 0.5) < 5 * std::sqrt(1.0 / 12 / kCount), sum / kCount);
  CHECK(std::abs(square / kCount - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kCount), square / kCount);
  double mean = 0, variance = 0, fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    const double z = random.normal(i);
    mean += z / kCount;
    variance += z * z / kCount;
    fourth += z * z * z * z / kCount;
  }
  CHECK(std::abs(mean) < 5 * std::sqrt(1.0 / kCount), mean);
  CHECK(std::abs(variance - 1) < 5 * std::sqrt(2.0 / kCount), variance);
  CHECK(std::abs(fourth - 3) < 5 * std::sqrt(96.0 / kCount), fourth);
}

TEST(float16_values) { check_all_values<float16>(5, 10); }
TEST(float16_rounding) { check_rounding<float16>(5, 10); }
TEST(bfloat16_values) { check_all_values<bfloat16>(8, 7); }
TEST(bfloat16_rounding) { check_rounding<bfloat16>(8, 7); }

TEST(float16_beyond_its_range) {
  CHECK(float16(1e30f).bits == 0x7C00);
  CHECK(float16(-1e30f).bits == 0xFC00);
  CHECK(float16(1e-30f).bits == 0);
  CHECK(float16(-1e-30f).bits == 0x8000);
  CHECK(float16(65519.0f).bits == 0x7BFF && float16(65520.0f).bits == 0x7C00);
}

TEST(parallel_for_covers_every_item_once) {
  const int before = thread_count();
  for (const int threads : {1, 2, 3, 8}) {
    set_thread_count(threads);
    for (const int64_t n : {0, 1, 2, 7, 64, 1000, 4097})
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        std::atomic<int64_t> calls = 0;
        parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          ++calls;
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (const auto& count : seen) CHECK(count == 1, n, " ", grain, " ", threads);
        CHECK(calls <= threads, n, " ", grain, " ", threads);
      }
  }
  set_thread_count(before);
}

}  // namespace
