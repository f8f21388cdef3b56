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

// Element i of the chunk of kElements that starts at `block` (in blocks): y = mask x / (1 - rate), for i in [begin, end).
FF_SIMD void mask_chunk(const Mask& mask, uint64_t block, const float* x, float* y, int64_t begin, int64_t end) {
  uint32_t bits[kElements];
  for (int64_t b = 0; b < kBlocks; ++b) {
    const uint64_t at = block + b;
    const auto words = philox({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), static_cast<uint32_t>(mask.mixed),
                               static_cast<uint32_t>(mask.mixed >> 32)},
                              {static_cast<uint32_t>(mask.seed), static_cast<uint32_t>(mask.seed >> 32)});
    for (int64_t k = 0; k < 4; ++k) bits[4 * b + k] = words[k];
  }
  for (int64_t i = begin; i < end; ++i) y[i - begin] = (bits[i] >> 8) >= mask.threshold ? x[i - begin] * mask.scale : 0.0f;
}

// `count` elements whose global index starts at `first`.
void mask_run(const Mask& mask, int64_t first, const float* x, float* y, int64_t count) {
  for (int64_t done = 0; done < count;) {
    const int64_t begin = (first + done) % 4;
    const int64_t end = std::min(kElements, begin + count - done);
    mask_chunk(mask, (first + done) / 4, x + done, y + done, begin, end);
    done += end - begin;
  }
}

std::unique_ptr<Kernel> bind(const BindContext& context) {
  const OpCall& call = context.call;
  const auto rate = static_cast<float>(call.attrs.real("rate"));
  Mask mask{static_cast<uint64_t>(call.attrs.integer("seed")), 0, static_cast<uint32_t>(std::ceil(rate * 0x1p24f)),
            static_cast<float>(1 / (1 - call.attrs.real("rate")))};
  return make_kernel([mask, runs = GlobalRuns(call), stream = static_cast<uint64_t>(call.attrs.integer("stream"))](const RunArgs& args) {
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
