#include <cmath>

#include "graph/rect.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

// x, or some rows of it, seen as (rows, channels, positions).
struct Channels {
  Range rows;
  int64_t channels, positions;

  explicit Channels(const Shape& x) : Channels(x, {0, x[0]}) {}
  Channels(const Shape& x, Range rows) : rows(rows), channels(x[1]), positions(numel(Shape(x.begin() + 2, x.end()))) {}
  int64_t count() const { return rows.extent * positions; }
  // Call body(index) for every element of a channel.
  template <class Body>
  void each(int64_t channel, Body body) const {
    for (int64_t n = rows.origin; n < rows.origin + rows.extent; ++n)
      for (int64_t s = 0; s < positions; ++s) body((n * channels + channel) * positions + s);
  }
};

// What has a value per channel and group: how many groups, and the rows of x that each of them has.
int64_t groups_of(const TensorType& statistics) { return statistics.rank() == 2 ? statistics.dim(0) : 1; }

Channels group(const Shape& x, int64_t which, int64_t groups) {
  return {x, part_of(x[0], static_cast<int>(which), static_cast<int>(groups))};
}

struct Moments {
  double mean = 0, var = 0;
};

// One channel normalised, and what it was normalised with.
template <class T>
Moments normalise(const Channels& n, int64_t c, const OpCall& call, const RunArgs& args) {
  const T *x = args.input<T>(0), *gamma = args.input<T>(1), *beta = args.input<T>(2);
  const auto count = static_cast<double>(n.count());
  Moments moments;
  n.each(c, [&](int64_t i) { moments.mean += x[i] / count; });
  n.each(c, [&](int64_t i) { moments.var += (x[i] - moments.mean) * (x[i] - moments.mean) / count; });
  const double scale = gamma[c] / std::sqrt(moments.var + call.attrs.real("eps"));
  n.each(c, [&](int64_t i) { args.output<T>(0)[i] = static_cast<T>((x[i] - moments.mean) * scale + beta[c]); });
  return moments;
}

// An empty batch has no statistics: it leaves the running ones as they are.
struct BatchNorm {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Channels n(call.inputs[0].shape);
    const auto count = static_cast<double>(n.count());
    const double momentum = n.count() == 0 ? 1.0 : call.attrs.real("momentum");
    const double correction = call.attrs.flag("unbiased") && n.count() > 1 ? count / (count - 1) : 1.0;
    for (int64_t c = 0; c < n.channels; ++c) {
      const auto [mean, var] = normalise<T>(n, c, call, args);
      args.output<T>(1)[c] = static_cast<T>(momentum * args.input<T>(3)[c] + (1 - momentum) * mean);
      args.output<T>(2)[c] = static_cast<T>(momentum * args.input<T>(4)[c] + (1 - momentum) * var * correction);
      args.output<T>(3)[c] = static_cast<T>(mean);
      args.output<T>(4)[c] = static_cast<T>(var);
    }
  }
};

struct BatchNormGroups {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const int64_t groups = groups_of(call.outputs[1]), channels = call.inputs[0].dim(1);
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t c = 0; c < channels; ++c) {
        const auto [mean, var] = normalise<T>(group(call.inputs[0].shape, g, groups), c, call, args);
        args.output<T>(1)[g * channels + c] = static_cast<T>(mean);
        args.output<T>(2)[g * channels + c] = static_cast<T>(var);
      }
  }
};

struct RunningStatistics {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const int64_t groups = call.inputs[1].dim(0), channels = call.inputs[1].dim(1);
    const double momentum = call.attrs.real("momentum");
    const std::vector<int64_t>& counts = call.attrs.ints("counts");
    for (int64_t c = 0; c < channels; ++c) {
      double running = args.input<T>(0)[c];
      for (int64_t g = 0; g < groups; ++g) {
        const auto n = static_cast<double>(counts.empty() ? 0 : counts[static_cast<size_t>(g)]);
        const double statistic = args.input<T>(1)[g * channels + c] * (n > 1 ? n / (n - 1) : 1.0);
        running = momentum * running + (1 - momentum) * statistic;
      }
      args.output<T>(0)[c] = static_cast<T>(running);
    }
  }
};

struct BatchNormGrad {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const int64_t groups = groups_of(call.inputs[3]), channels = call.inputs[0].dim(1);
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t c = 0; c < channels; ++c)
        one(T{}, group(call.inputs[0].shape, g, groups), c, g * channels + c, call, args);
  }

  // One channel of a group; its statistics and sums are the at-th ones.
  template <class T>
  static void one(T, const Channels& n, int64_t c, int64_t at, const OpCall& call, const RunArgs& args) {
    const T *x = args.input<T>(0), *dy = args.input<T>(1);
    const auto count = static_cast<double>(n.count());
    const double gamma = args.input<T>(2)[c], mean = args.input<T>(3)[at];
    const double rstd = 1 / std::sqrt(args.input<T>(4)[at] + call.attrs.real("eps"));
    double dbeta = 0, dgamma = 0;
    n.each(c, [&](int64_t i) { dbeta += dy[i]; });
    n.each(c, [&](int64_t i) { dgamma += dy[i] * (x[i] - mean) * rstd; });
    n.each(c, [&](int64_t i) {
      args.output<T>(0)[i] =
          static_cast<T>(gamma * rstd * (dy[i] - dbeta / count - (x[i] - mean) * rstd * dgamma / count));
    });
    args.output<T>(1)[at] = static_cast<T>(dgamma);
    args.output<T>(2)[at] = static_cast<T>(dbeta);
  }
};

struct BatchNormInference {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Channels n(call.inputs[0].shape);
    for (int64_t c = 0; c < n.channels; ++c) {
      const double scale = args.input<T>(1)[c] / std::sqrt(args.input<T>(4)[c] + call.attrs.real("eps"));
      const double mean = args.input<T>(3)[c], beta = args.input<T>(2)[c];
      n.each(c, [&](int64_t i) { args.output<T>(0)[i] = static_cast<T>((args.input<T>(0)[i] - mean) * scale + beta); });
    }
  }
};

std::vector<KernelDef> batch_norm_kernels() {
  std::vector<KernelDef> defs = {
      float_kernel("batch_norm", BatchNorm{}), float_kernel("batch_norm_groups", BatchNormGroups{}),
      float_kernel("running_statistics", RunningStatistics{}), float_kernel("batch_norm_grad", BatchNormGrad{}),
      float_kernel("batch_norm_inference", BatchNormInference{})};
  // Groups are left to the expansion, which can be split over them.
  defs[0].supported = [any = defs[0].supported](const OpCall& call) {
    return any(call) && call.attrs.integer("groups") == 1;
  };
  return defs;
}

REGISTER_KERNELS(batch_norm_kernels);

}  // namespace
}  // namespace ff::reference
