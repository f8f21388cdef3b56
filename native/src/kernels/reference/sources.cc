// Values that come from nowhere: constants, and the first values of weights.
#include <cmath>
#include <functional>

#include "base/parallel.h"
#include "base/random.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"
#include "kernels/walk.h"

namespace ff::reference {
namespace {

template <class T>
T from_double(double value) {
  if constexpr (std::is_constructible_v<T, float> && sizeof(T) == 2)
    return T(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, bool>)
    return value != 0;
  else
    return static_cast<T>(value);
}

std::unique_ptr<Kernel> bind_constant(const BindContext& context) {
  const int64_t n = context.call.outputs[0].numel();
  const double number = context.call.attrs.real("value");
  return dispatch_any(context.call.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return make_kernel([n, value = from_double<T>(number)](const RunArgs& args) {
      constexpr int64_t kGrain = 16384;
      T* y = args.output<T>(0);
      parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
    });
  });
}

// The value of an element, from the numbers of its stream.
using Draw = std::function<double(RandomStream&, uint64_t element)>;

Draw uniform(double low, double high) {
  return [=](RandomStream& random, uint64_t element) {
    return low + (high - low) * static_cast<double>(random.uniform(element));
  };
}

Draw normal(double mean, double stddev) {
  return [=](RandomStream& random, uint64_t element) { return mean + stddev * random.normal(element); };
}

// Draws again, from counters far from those of all elements, until the number lies within two standard deviations.
Draw truncated_normal(double mean, double stddev) {
  return [=](RandomStream& random, uint64_t element) {
    constexpr uint64_t kRetry = uint64_t{1} << 48;
    double z = random.normal(element);
    while (std::abs(z) > 2) z = random.normal(element += kRetry);
    return mean + stddev * z;
  };
}

// Of the whole weight, of which the call may hold a part.
Shape global_shape(const OpCall& call) {
  Shape shape;
  for (const IndexRange& range : call.box) shape.push_back(range.global);
  return call.box.empty() ? call.outputs[0].shape : shape;
}

struct Fans {
  double in, out;
};

// A shape is read as (out, in, window...); a vector is a unit with as many inputs as outputs.
Fans fans(const OpCall& call) {
  const Shape shape = global_shape(call);
  int64_t out = shape.empty() ? 1 : shape[0], in = shape.size() < 2 ? out : shape[1];
  for (size_t d = 2; d < shape.size(); ++d) {
    in *= shape[d];
    out *= shape[d];
  }
  if (const int64_t given = call.attrs.integer("fan_in"); given > 0) in = given;
  if (const int64_t given = call.attrs.integer("fan_out"); given > 0) out = given;
  return {static_cast<double>(std::max<int64_t>(in, 1)), static_cast<double>(std::max<int64_t>(out, 1))};
}

// Glorot and Bengio (2010), He et al. (2015), LeCun et al. (1998): a variance from the fans.
Draw scaled(const OpCall& call, const std::string& name) {
  const Fans fan = fans(call);
  const double variance = name.starts_with("glorot") ? 2 / (fan.in + fan.out)
                          : name.starts_with("he")   ? 2 / fan.in
                                                     : 1 / fan.in;
  if (name.ends_with("uniform")) return uniform(-std::sqrt(3 * variance), std::sqrt(3 * variance));
  // The standard deviation of a standard normal that is cut at 2: the wider curve has the wanted one after the cut.
  constexpr double kCutDeviation = 0.8796256610342398;
  return truncated_normal(0, std::sqrt(variance) / kCutDeviation);
}

Draw draw_of(const OpCall& call) {
  const Attrs& attrs = call.attrs;
  const std::string& name = attrs.text("initializer");
  const auto fixed = [](double value) -> Draw { return [value](RandomStream&, uint64_t) { return value; }; };
  if (name == "zeros") return fixed(0);
  if (name == "ones") return fixed(1);
  if (name == "constant") return fixed(attrs.real("value"));
  if (name == "uniform") return uniform(attrs.real("low"), attrs.real("high"));
  if (name == "normal") return normal(attrs.real("mean"), attrs.real("stddev"));
  if (name == "truncated_normal") return truncated_normal(attrs.real("mean"), attrs.real("stddev"));
  return scaled(call, name);
}

// Weights take numbers apart from those that an op with the same seed draws in a step.
uint64_t mixed(int64_t seed) {
  constexpr std::array<uint32_t, 2> kKey = {0x57656967, 0x68747321};
  const auto words = philox({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0}, kKey);
  return words[0] | static_cast<uint64_t>(words[1]) << 32;
}

std::unique_ptr<Kernel> bind_initialize(const BindContext& context) {
  const OpCall& call = context.call;
  const Shape& shape = call.outputs[0].shape;
  const Shape global = dense_strides(global_shape(call));
  int64_t origin = 0;
  for (size_t d = 0; d < call.box.size(); ++d) origin += call.box[d].origin * global[d];
  const Walk<2> walk(shape, {dense_strides(shape), global});
  const RandomStream stream(mixed(call.attrs.integer("seed")), static_cast<uint64_t>(call.attrs.integer("stream")), 0);
  return dispatch_any(call.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return make_kernel([walk, origin, stream, draw = draw_of(call)](const RunArgs& args) {
      constexpr int64_t kGrain = 4096;
      walk.run(kGrain, [&, step = walk.stride()[1]](const auto& offset, int64_t n) {
        RandomStream random = stream;
        T* y = args.output<T>(0) + offset[0];
        for (int64_t i = 0; i < n; ++i)
          y[i] = from_double<T>(draw(random, static_cast<uint64_t>(origin + offset[1] + i * step)));
      });
    });
  });
}

std::vector<KernelDef> source_kernels() {
  return {define("constant", bind_constant), define("initialize", bind_initialize)};
}
REGISTER_KERNELS(source_kernels);

}  // namespace
}  // namespace ff::reference
