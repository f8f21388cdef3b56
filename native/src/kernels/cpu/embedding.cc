#include <algorithm>

#include "base/parallel.h"
#include "kernels/bags.h"
#include "kernels/cpu/simd.h"
#include "kernels/kernel.h"

namespace ff::cpu {
namespace {

FF_SIMD void add_row(float* y, const float* row, float scale, int64_t width) {
#pragma omp simd
  for (int64_t o = 0; o < width; ++o) y[o] += scale * row[o];
}

// One bag: the sum of its rows.
template <class Id>
void sum_bag(const Bags& bags, const Id* ids, const float* table, float* y, int64_t width) {
  const auto row = [&](int64_t k) { return table + (ids[k] - bags.first_entry) * width; };
  if (bags.size == 1 && bags.scale == 1 && bags.holds(ids[0])) {
    std::copy_n(row(0), width, y);
    return;
  }
  std::fill_n(y, width, 0.0f);
  for (int64_t k = 0; k < bags.size; ++k)
    if (bags.holds(ids[k])) add_row(y, row(k), static_cast<float>(bags.scale), width);
}

template <class Id>
void lookup(const OpCall& call, const RunArgs& args) {
  const auto* ids = args.input<Id>(0);
  check_ids(call, ids);
  const Bags bags(call, call.inputs[1]);
  const int64_t width = call.outputs[0].dim(-1);
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, width * bags.size));
  parallel_for(bags.count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t bag = begin; bag < end; ++bag)
      sum_bag(bags, ids + bag * bags.size, args.input<float>(1), args.output<float>(0) + bag * width, width);
  });
}

// Every thread goes through all ids and adds the rows of its own part of the table: no two write one row, and a row's
// sum is taken in the order of the ids.
template <class Id>
void scatter(const OpCall& call, const RunArgs& args) {
  const auto* ids = args.input<Id>(0);
  check_ids(call, ids);
  const Bags bags(call, call.outputs[0]);
  const int64_t width = call.outputs[0].dim(-1);
  const auto scale = static_cast<float>(bags.scale);
  parallel_for(bags.entries, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, width)), [&](int64_t begin, int64_t end) {
    float* table = args.output<float>(0);
    std::fill(table + begin * width, table + end * width, 0.0f);
    for (int64_t i = 0; i < bags.count * bags.size; ++i) {
      const int64_t row = static_cast<int64_t>(ids[i]) - bags.first_entry;
      if (row >= begin && row < end)
        add_row(table + row * width, args.input<float>(1) + i / bags.size * width, scale, width);
    }
  });
}

KernelDef table_kernel(const std::string& op, void (*of_int32)(const OpCall&, const RunArgs&),
                       void (*of_int64)(const OpCall&, const RunArgs&)) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = [](const OpCall& call) { return call.outputs[0].dtype == DType::float32; };
  def.bind = [=](const BindContext& context) {
    return make_kernel([run = context.call.inputs[0].dtype == DType::int32 ? of_int32 : of_int64,
                        call = context.call](const RunArgs& args) { run(call, args); });
  };
  return def;
}

std::vector<KernelDef> embedding_kernels() {
  return {table_kernel("embedding", lookup<int32_t>, lookup<int64_t>),
          table_kernel("embedding_grad", scatter<int32_t>, scatter<int64_t>)};
}

REGISTER_KERNELS(embedding_kernels);

}  // namespace
}  // namespace ff::cpu
