// dropout and its gradient: the mask of RandomStream, drawn for many neighbouring elements at once.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/random.h"
#include "kernels/box.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/simd.h"

namespace ff::cpu {
namespace {

constexpr int64_t kBlocks = 64;             // Philox blocks drawn at once
constexpr int64_t kElements = 4 * kBlocks;  // and the elements that they serve

// What is equal for all elements of a run of the kernel.
struct Mask {
  uint64_t seed, mixed;
  uint32_t threshold;  // an element whose upper 24 bits are below it becomes zero
  float scale;
};

// The bits of the kElements elements from `block` on: philox() of base/random.h for many blocks side by side.
FF_SIMD void draw(const Mask& mask, uint64_t block, uint32_t* bits) {
  uint32_t words[4][kBlocks];
  for (int64_t b = 0; b < kBlocks; ++b) {
    words[0][b] = static_cast<uint32_t>(block + b);
    words[1][b] = static_cast<uint32_t>((block + b) >> 32);
    words[2][b] = static_cast<uint32_t>(mask.mixed);
    words[3][b] = static_cast<uint32_t>(mask.mixed >> 32);
  }
  auto key0 = static_cast<uint32_t>(mask.seed), key1 = static_cast<uint32_t>(mask.seed >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
#pragma omp simd
    for (int64_t b = 0; b < kBlocks; ++b) {
      const uint64_t even = uint64_t{0xD2511F53} * words[0][b], odd = uint64_t{0xCD9E8D57} * words[2][b];
      words[0][b] = static_cast<uint32_t>(odd >> 32) ^ words[1][b] ^ key0;
      words[2][b] = static_cast<uint32_t>(even >> 32) ^ words[3][b] ^ key1;
      words[1][b] = static_cast<uint32_t>(odd);
      words[3][b] = static_cast<uint32_t>(even);
    }
  }
#pragma omp simd
  for (int64_t b = 0; b < kBlocks; ++b) {
    bits[4 * b] = words[0][b];
    bits[4 * b + 1] = words[1][b];
    bits[4 * b + 2] = words[2][b];
    bits[4 * b + 3] = words[3][b];
  }
}

FF_SIMD void apply(const uint32_t* bits, uint32_t threshold, float scale, const float* x, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float kept = x[i] * scale;
    y[i] = (bits[i] >> 8) >= threshold ? kept : 0.0f;
  }
}

// `count` elements whose global index starts at `first`.
void mask_run(const Mask& mask, int64_t first, const float* x, float* y, int64_t count) {
  uint32_t bits[kElements];
  for (int64_t done = 0; done < count;) {
    const int64_t begin = (first + done) % 4;
    const int64_t end = std::min(kElements, begin + count - done);
    draw(mask, (first + done) / 4, bits);
    apply(bits + begin, mask.threshold, mask.scale, x + done, y + done, end - begin);
    done += end - begin;
  }
}

std::unique_ptr<Kernel> bind(const BindContext& context) {
  const OpCall& call = context.call;
  const auto rate = static_cast<float>(call.attrs.real("rate"));
  Mask mask{static_cast<uint64_t>(call.attrs.integer("seed")), 0, static_cast<uint32_t>(std::ceil(rate * 0x1p24f)),
            static_cast<float>(1 / (1 - call.attrs.real("rate")))};
  return make_kernel([mask, runs = GlobalRuns(call),
                      stream = static_cast<uint64_t>(call.attrs.integer("stream"))](const RunArgs& args) {
    Mask now = mask;
    const auto step = static_cast<uint64_t>(*args.input<int64_t>(1));
    now.mixed = step * 0x9E3779B97F4A7C15ull + stream;  // as RandomStream has it
    for (int64_t run = 0; run < runs.count(); ++run) {
      const float* x = args.input<float>(0) + run * runs.length();
      float* y = args.output<float>(0) + run * runs.length();
      parallel_for(runs.length(), 16 * kElements, [&](int64_t begin, int64_t end) {
        mask_run(now, runs.start(run) + begin, x + begin, y + begin, end - begin);
      });
    }
  });
}

KernelDef masked(const std::string& op) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = [](const OpCall& call) { return call.outputs[0].dtype == DType::float32; };
  def.bind = bind;
  return def;
}

std::vector<KernelDef> dropout_kernels() { return {masked("dropout"), masked("dropout_grad")}; }

REGISTER_KERNELS(dropout_kernels);

}  // namespace
}  // namespace ff::cpu
