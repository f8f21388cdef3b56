#include "kernels/bags.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

struct Embedding {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    dispatch_index(call.inputs[0].dtype, [&](auto zero) {
      lookup(args.input<decltype(zero)>(0), args.input<T>(1), call, args.output<T>(0));
    });
  }

  template <class Id, class T>
  static void lookup(const Id* ids, const T* table, const OpCall& call, T* y) {
    check_ids(call, ids);
    const Bags bags(call, call.inputs[1]);
    const int64_t width = call.outputs[0].dim(-1);
    for (int64_t bag = 0; bag < bags.count; ++bag)
      for (int64_t o = 0; o < width; ++o) {
        double sum = 0;
        for (int64_t k = 0; k < bags.size; ++k) {
          const int64_t id = ids[bag * bags.size + k];
          if (bags.holds(id)) sum += table[(id - bags.first_entry) * width + o];
        }
        y[bag * width + o] = static_cast<T>(sum * bags.scale);
      }
  }
};

struct EmbeddingGrad {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    dispatch_index(call.inputs[0].dtype, [&](auto zero) {
      scatter(args.input<decltype(zero)>(0), args.input<T>(1), call, args.output<T>(0));
    });
  }

  template <class Id, class T>
  static void scatter(const Id* ids, const T* dy, const OpCall& call, T* dkernel) {
    check_ids(call, ids);
    const Bags bags(call, call.outputs[0]);
    const int64_t width = call.outputs[0].dim(-1);
    std::vector<double> sums(call.outputs[0].numel());
    for (int64_t i = 0; i < bags.count * bags.size; ++i)
      for (int64_t o = 0; o < width && bags.holds(ids[i]); ++o)
        sums[(ids[i] - bags.first_entry) * width + o] += dy[i / bags.size * width + o] * bags.scale;
    for (size_t k = 0; k < sums.size(); ++k) dkernel[k] = static_cast<T>(sums[k]);
  }
};

std::vector<KernelDef> embedding_kernels() {
  return {float_kernel("embedding", Embedding{}), float_kernel("embedding_grad", EmbeddingGrad{})};
}

REGISTER_KERNELS(embedding_kernels);

}  // namespace
}  // namespace ff::reference
