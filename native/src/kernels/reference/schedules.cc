// Learning rates that follow the step, in double precision.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/reference/define.h"

namespace ff::reference {
namespace {

double exponential(const Attrs& attrs, double step) {
  const double time = step / static_cast<double>(attrs.integer("decay_steps"));
  return attrs.real("initial") * std::pow(attrs.real("decay_rate"), attrs.flag("staircase") ? std::floor(time) : time);
}

double cosine(const Attrs& attrs, double step) {
  const double time = std::min(step / static_cast<double>(attrs.integer("decay_steps")), 1.0);
  const double share = (1 + std::cos(std::numbers::pi * time)) / 2;
  return attrs.real("initial") * ((1 - attrs.real("alpha")) * share + attrs.real("alpha"));
}

double polynomial(const Attrs& attrs, double step) {
  auto length = static_cast<double>(attrs.integer("decay_steps"));
  if (attrs.flag("cycle")) length *= std::max(1.0, std::ceil(step / length));
  const double left = 1 - std::min(step / length, 1.0);
  return (attrs.real("initial") - attrs.real("end")) * std::pow(left, attrs.real("power")) + attrs.real("end");
}

double piecewise(const Attrs& attrs, double step) {
  const std::vector<int64_t>& boundaries = attrs.ints("boundaries");
  const auto passed = std::lower_bound(boundaries.begin(), boundaries.end(), static_cast<int64_t>(step));
  return attrs.reals("values")[static_cast<size_t>(passed - boundaries.begin())];
}

KernelDef kernel(const std::string& op, double (*rate)(const Attrs&, double)) {
  return define(op, [rate](const BindContext& context) {
    const Attrs& attrs = context.call.attrs;
    const double warmup = static_cast<double>(attrs.integer("warmup_steps")), from = attrs.real("warmup_from");
    return make_kernel([rate, attrs, warmup, from, first = rate(attrs, 0)](const RunArgs& args) {
      const auto step = static_cast<double>(*args.input<int64_t>(0));
      *args.output<double>(0) = step < warmup ? from + (first - from) * (step / warmup) : rate(attrs, step - warmup);
    });
  });
}

std::vector<KernelDef> schedules() {
  return {kernel("exponential_decay", exponential), kernel("cosine_decay", cosine),
          kernel("polynomial_decay", polynomial), kernel("piecewise_constant", piecewise)};
}
REGISTER_KERNELS(schedules);

}  // namespace
}  // namespace ff::reference
