// Operators without inputs: what a user feeds, fixed values, and weights with the rule that draws their first value.
#include "ops/rules.h"

namespace ff {
namespace {

std::vector<TensorType> declared(const OpCall& call) {
  for (const int64_t extent : call.attrs.ints("shape"))
    if (extent < 0)
      bad_value(call.name, ": shape is ", to_string(call.attrs.ints("shape")), "; expected extents of 0 or more");
  return {{dtype_from_name(call.attrs.text("dtype")), call.attrs.ints("shape")}};
}

OpDef source(const std::string& name) {
  OpDef op(name);
  op.inputs(0).space("-> x*").no_gradient();
  op.required("shape", AttrType::integers, "extents, batch first");
  op.attr("dtype", std::string("float32"), "element type");
  op.shape = declared;
  op.flops = [](const OpCall&) { return 0.0; };
  return op;
}

// A weight and the op that computes its first value say the same things.
OpDef drawn(const std::string& name) {
  OpDef op = source(name);
  op.attr("initializer", std::string("glorot_uniform"),
          "how the first value is drawn; glorot, he and lecun scale with 2 / (fan_in + fan_out), 2 / fan_in and 1 / "
          "fan_in, "
          "their normal forms are cut at two standard deviations, as truncated_normal is",
          {"zeros", "ones", "constant", "uniform", "normal", "truncated_normal", "glorot_uniform", "glorot_normal",
           "he_uniform", "he_normal", "lecun_uniform", "lecun_normal"});
  op.attr("value", 0.0, "of constant");
  op.attr("low", -0.05, "lower limit of uniform");
  op.attr("high", 0.05, "upper limit of uniform, itself not drawn");
  op.attr("mean", 0.0, "of normal and truncated_normal");
  op.attr("stddev", 0.05, "standard deviation of normal and truncated_normal, before the cut");
  op.attr("seed", int64_t{-1}, "seed of the draw; -1: the model's seed");
  op.attr("fan_in", int64_t{0}, "inputs of one unit; 0: from the shape, read as (out, in, window...)");
  op.attr("fan_out", int64_t{0}, "units that one input reaches; 0: from the shape");
  op.attr("l1", 0.0, "factor of the L1 penalty: l1 * sign(w) is added to the gradient");
  op.attr("l2", 0.0, "factor of the L2 penalty: l2 * w is added to the gradient");
  op.attr("stream", int64_t{0}, "number of the random stream; 0: a stream of its own");
  return op;
}

std::vector<OpDef> sources() {
  OpDef input = source("input");
  input.describe("A tensor that is written from outside before each run: a batch of data or of labels.");

  OpDef constant = source("constant");
  constant.describe("A tensor of one value.");
  constant.attr("value", 0.0, "the value of every element, converted to the dtype");

  OpDef weight = drawn("weight");
  weight.describe("A state that outlives the step and that the optimizer trains, unless it is marked not trainable.");
  weight.random = true;

  OpDef initialize = drawn("initialize");
  initialize.describe(
      "The first value of a weight. An element depends on seed, stream and its index in the whole weight only.");
  initialize.internal = true;
  initialize.flops = flops_per_element(20);
  return {input, constant, weight, initialize};
}
REGISTER_OPS(sources);

}  // namespace
}  // namespace ff
