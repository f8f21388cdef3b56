// Sums and means over axes. oneDNN reduces fast along the last axis only; these loops read the input in its order.
#include "kernels/reduce.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/simd.h"
#include "kernels/sum.h"

namespace ff::cpu {
namespace {

constexpr int64_t kColumns = 1024;  // outputs whose sums are kept at a time

FF_SIMD float sum_run(const float* x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

FF_SIMD void add_run(const float* x, double* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i];
}

// Elements [begin, end) of one output, from its first element x; the short runs in float, their sums in double.
double sum_elements(const Walk<1>& elements, const float* x, int64_t begin, int64_t end) {
  constexpr int64_t kRun = 512;
  double total = 0;
  elements.range(begin, end, [&, step = elements.stride()[0]](const auto& offset, int64_t n) {
    const float* run = x + offset[0];
    if (step == 1)
      for (int64_t i = 0; i < n; i += kRun) total += sum_run(run + i, std::min(kRun, n - i));
    else
      for (int64_t i = 0; i < n; ++i) total += run[i * step];
  });
  return total;
}

// Each output on its own: where the last axis is reduced.
void sum_rows(const Reduction& r, const float* x, float* y, double scale) {
  constexpr int64_t kGrain = 16384, kFew = 16;
  const int64_t elements = r.elements.total();
  const auto each = [&](const auto& sum) {
    return [&, step = r.outputs.stride()](const auto& offset, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        y[offset[0] + i * step[0]] = static_cast<float>(scale * sum(x + offset[1] + i * step[1]));
    };
  };
  if (r.outputs.total() < kFew && elements > kGrain) {
    r.outputs.range(0, r.outputs.total(), each([&](const float* first) {
                      return chunked_sum<double>(elements, kGrain, [&](int64_t begin, int64_t end) {
                        return sum_elements(r.elements, first, begin, end);
                      });
                    }));
  } else {
    r.outputs.run(std::max<int64_t>(1, kGrain / std::max<int64_t>(elements, 1)),
                  each([&](const float* first) { return sum_elements(r.elements, first, 0, elements); }));
  }
}

// Neighbouring outputs together, row by row: where the last axis is kept.
void sum_columns(const Reduction& r, const float* x, float* y, double scale) {
  const int64_t elements = r.elements.total();
  r.outputs.run(std::max<int64_t>(16, 16384 / std::max<int64_t>(elements, 1)), [&](const auto& offset, int64_t n) {
    double sums[kColumns];
    for (int64_t at = 0; at < n; at += kColumns) {
      const int64_t width = std::min(kColumns, n - at);
      std::fill_n(sums, width, 0.0);
      r.elements.range(0, elements, [&, step = r.elements.stride()[0]](const auto& element, int64_t rows) {
        for (int64_t row = 0; row < rows; ++row) add_run(x + offset[1] + at + element[0] + row * step, sums, width);
      });
      for (int64_t i = 0; i < width; ++i) y[offset[0] + at + i] = static_cast<float>(scale * sums[i]);
    }
  });
}

KernelDef kernel(const std::string& op, bool mean) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = filled_float32;
  def.bind = [mean](const BindContext& context) {
    const double scale = mean ? 1 / reduced_count(context.call) : 1;
    return make_kernel([scale, r = Reduction(context.call, context.call.inputs[0])](const RunArgs& args) {
      const bool columns = r.outputs.stride()[1] == 1 && r.outputs.total() > 1;
      (columns ? sum_columns : sum_rows)(r, args.input<float>(0), args.output<float>(0), scale);
    });
  };
  return def;
}

std::vector<KernelDef> sum_kernels() { return {kernel("reduce_sum", false), kernel("reduce_mean", true)}; }
REGISTER_KERNELS(sum_kernels);

}  // namespace
}  // namespace ff::cpu
