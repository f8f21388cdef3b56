// Learning rates that follow the step: each op takes the number of steps done so far and gives the rate of the next.
#include "ops/rules.h"

namespace ff {
namespace {

void expect_positive(const OpCall& call, const char* attr) {
  if (call.attrs.integer(attr) < 1)
    bad_value(call.name, ": ", attr, " is ", call.attrs.integer(attr), "; expected at least 1");
}

OpDef schedule(const std::string& name, const std::string& doc) {
  OpDef op(name);
  op.describe(doc + " It begins after warmup_steps steps, in which the rate rises in a line from warmup_from.");
  op.inputs(1).space("x* -> x*").no_gradient();
  op.attr("warmup_steps", int64_t{0}, "steps before the schedule begins");
  op.attr("warmup_from", 0.0, "the rate of the first of these steps");
  op.shape = [](const OpCall& call) -> std::vector<TensorType> {
    expect_type(call, 0, {DType::int64, {}}, "the step");
    if (call.attrs.has("decay_steps")) expect_positive(call, "decay_steps");
    if (call.attrs.has("values") && call.attrs.reals("values").size() != call.attrs.ints("boundaries").size() + 1)
      bad_value(call.name, ": got ", call.attrs.reals("values").size(), " values for ",
                call.attrs.ints("boundaries").size(), " boundaries; expected one more");
    return {{DType::float64, {}}};
  };
  op.flops = flops_per_element(20);
  op.internal = true;
  return op;
}

OpDef decay(const std::string& name, const std::string& doc) {
  OpDef op = schedule(name, doc);
  op.attr("initial", 0.01, "the rate at first");
  op.required("decay_steps", AttrType::integer, "the unit of time");
  return op;
}

std::vector<OpDef> schedules() {
  OpDef exponential = decay("exponential_decay", "initial * decay_rate ^ (step / decay_steps).");
  exponential.required("decay_rate", AttrType::real, "the factor of decay_steps steps");
  exponential.attr("staircase", false, "the quotient without its fraction");

  OpDef cosine =
      decay("cosine_decay", "initial * ((1 - alpha) * (1 + cos(pi * t)) / 2 + alpha), t = min(step / decay_steps, 1).");
  cosine.attr("alpha", 0.0, "the share of the rate that is left at the end");

  OpDef polynomial =
      decay("polynomial_decay", "(initial - end) * (1 - t) ^ power + end, t = min(step / decay_steps, 1).");
  polynomial.attr("end", 0.0001, "the rate at the end");
  polynomial.attr("power", 1.0, "1: a line");
  polynomial.attr("cycle", false, "decay again, over a whole multiple of decay_steps that grows");

  OpDef piecewise = schedule("piecewise_constant", "values[i] where i boundaries are less than the step.");
  piecewise.required("boundaries", AttrType::integers, "steps, in ascending order");
  piecewise.required("values", AttrType::reals, "rates, one more than boundaries");
  return {exponential, cosine, polynomial, piecewise};
}
REGISTER_OPS(schedules);

}  // namespace
}  // namespace ff
