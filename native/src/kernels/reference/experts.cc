#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

IndexRange range_of(const OpCall& call, const std::string& name, int64_t extent) {
  for (const IndexRange& range : call.box)
    if (range.name == name) return range;
  return {name, 0, extent, extent};
}

int64_t row_size(const TensorType& type) { return numel(Shape(type.shape.begin() + 1, type.shape.end())); }

// The choices of the whole batch, and which of them are served here.
struct Choices {
  int64_t samples, count, experts;  // count: of each sample
  IndexRange mine, served, places;  // samples, experts and places of this part
  std::vector<int64_t> expert, place;

  Choices(const OpCall& call, int assign, const RunArgs& args, int64_t any_places)
      : samples(call.inputs[assign].dim(0)),
        count(call.inputs[assign].dim(1)),
        experts(call.attrs.integer("n")),
        mine(range_of(call, "b0", samples)),
        served(range_of(call, "e", experts)),
        places(range_of(call, "c", any_places)) {
    dispatch_index(call.inputs[assign].dtype, [&](auto zero) { number(call, args.input<decltype(zero)>(assign)); });
  }

  template <class Id>
  void number(const OpCall& call, const Id* ids) {
    std::vector<int64_t> taken(static_cast<size_t>(experts), 0);
    for (int64_t i = 0; i < samples * count; ++i) {
      if (ids[i] < 0 || ids[i] >= experts)
        bad_value(call.name, ": expert ", ids[i], " at position ", i, " is out of range; expected 0 <= expert < ",
                  experts);
      expert.push_back(ids[i]);
      place.push_back(taken[static_cast<size_t>(ids[i])]++);
    }
  }

  // body(sample, choice, expert, place) for the choices of the samples of this part that are served here, with the
  // first and the last counted from this part's beginning. Samples are shared among the cores.
  template <class Body>
  void run(int64_t width, Body body) const {
    constexpr int64_t kGrain = 8192;
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width * count));
    parallel_for(mine.extent, grain, [&](int64_t begin, int64_t end) {
      for (int64_t sample = begin; sample < end; ++sample)
        for (int64_t j = 0; j < count; ++j) {
          const auto at = static_cast<size_t>((mine.origin + sample) * count + j);
          const int64_t to = place[at] - places.origin;
          const bool here = expert[at] >= served.origin && expert[at] < served.origin + served.extent;
          if (here && to >= 0 && to < places.extent) body(sample, j, expert[at], to);
        }
    });
  }
};

// Rows of samples (input 0) to their places, weighed by gates (input 2) if there are any.
struct Scatter {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Choices choices(call, 1, args, call.outputs[0].dim(0));
    const int64_t width = row_size(call.inputs[0]);
    for (size_t e = 0; e < call.outputs.size(); ++e)
      std::fill_n(args.output<T>(static_cast<int>(e)), call.outputs[e].numel(), T{0});
    const T *x = args.input<T>(0), *gates = call.inputs.size() > 2 ? args.input<T>(2) : nullptr;
    choices.run(width, [&](int64_t sample, int64_t j, int64_t expert, int64_t place) {
      const T gate = gates == nullptr ? T{1} : gates[sample * choices.count + j];
      T* y = args.output<T>(static_cast<int>(expert)) + place * width;
      for (int64_t k = 0; k < width; ++k) y[k] = gate * x[sample * width + k];
    });
  }
};

// Rows of places back to their samples, as a sum.
template <class T>
void collect(const OpCall& call, const RunArgs& args, const Choices& choices, int first, const T* gates) {
  const int64_t width = row_size(call.outputs[0]);
  T* y = args.output<T>(0);
  std::fill_n(y, call.outputs[0].numel(), T{0});
  choices.run(width, [&](int64_t sample, int64_t j, int64_t expert, int64_t place) {
    const T gate = gates == nullptr ? T{1} : gates[sample * choices.count + j];
    const T* x = args.input<T>(first + static_cast<int>(expert)) + place * width;
    for (int64_t k = 0; k < width; ++k) y[sample * width + k] += gate * x[k];
  });
}

struct GroupByGrad {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    collect<T>(call, args, Choices(call, 0, args, call.inputs[1].dim(0)), 1, nullptr);
  }
};

struct Aggregate {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    collect<T>(call, args, Choices(call, 1, args, call.inputs[4].dim(0)), 4, args.input<T>(0));
  }
};

struct AggregateGradGate {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Choices choices(call, 0, args, call.inputs[3].dim(0)), wanted(call, 1, args, call.inputs[3].dim(0));
    const int64_t width = row_size(call.inputs[2]);
    const T* dy = args.input<T>(2);
    T* dgate = args.output<T>(0);
    std::fill_n(dgate, call.outputs[0].numel(), T{0});
    choices.run(width, [&](int64_t sample, int64_t j, int64_t expert, int64_t place) {
      if (wanted.expert[static_cast<size_t>((choices.mine.origin + sample) * choices.count + j)] != expert) return;
      const T* x = args.input<T>(3 + static_cast<int>(expert)) + place * width;
      double sum = 0;
      for (int64_t k = 0; k < width; ++k) sum += static_cast<double>(dy[sample * width + k]) * x[k];
      dgate[sample * choices.count + j] = static_cast<T>(sum);
    });
  }
};

struct ExpertBalance {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Choices choices(call, 0, args, 0);
    std::vector<double> chosen(static_cast<size_t>(choices.experts), 0);
    for (const int64_t expert : choices.expert) ++chosen[static_cast<size_t>(expert)];
    const auto experts = static_cast<double>(choices.experts), samples = static_cast<double>(choices.samples);
    const double mean = samples * static_cast<double>(choices.count) / experts;
    const double scale = call.attrs.real("lambda_bal") * experts / samples;
    for (int64_t i = 0; i < choices.mine.extent; ++i)
      for (int64_t e = 0; e < choices.served.extent; ++e)
        args.output<T>(0)[i * choices.served.extent + e] =
            static_cast<T>(scale * (chosen[static_cast<size_t>(choices.served.origin + e)] - mean));
  }
};

std::vector<KernelDef> expert_kernels() {
  return {float_kernel("group_by", Scatter{}),
          float_kernel("aggregate_grad_experts", Scatter{}),
          float_kernel("group_by_grad", GroupByGrad{}),
          float_kernel("aggregate", Aggregate{}),
          float_kernel("aggregate_grad_gate", AggregateGradGate{}),
          float_kernel("expert_balance", ExpertBalance{})};
}

REGISTER_KERNELS(expert_kernels);

}  // namespace
}  // namespace ff::reference
