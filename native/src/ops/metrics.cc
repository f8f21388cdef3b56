// The running totals of an epoch: one op adds a batch to them, so that reading metrics costs nothing within a step.
#include "ops/rules.h"

namespace ff {
namespace {

std::vector<TensorType> metrics_shape(const OpCall& call) {
  expect_float(call, 0);
  expect_rank(call, 0, 1, 8, "(batch, ...)");
  expect_type(call, 2, {call.inputs[0].dtype, {}}, "the loss");
  expect_type(call, 3, {DType::float64, {8}}, "the totals");
  if (call.attrs.flag("sparse")) {
    expect_integer(call, 1);
    Shape positions = call.inputs[0].shape;
    if (positions.size() > 1) positions.back() = 1;
    if (call.inputs[1].numel() != numel(positions))
      bad_value(call.name, ": the prediction has shape ", to_string(call.inputs[0].shape), " and the label ",
                to_string(call.inputs[1].shape), "; expected a class id per position");
  } else {
    expect_equal_dtypes(call, 0, 1);
    expect_equal_shapes(call, 0, 1);
  }
  return {call.inputs[3]};
}

// A position holds its classes whole. A rank of 1 is a batch of single numbers.
Box positions(const OpCall& call) {
  Shape shape = call.inputs[0].shape;
  if (shape.size() > 1) shape.pop_back();
  return indices_over(shape, "b");
}

Rect metrics_region(const OpCall& call, const Box& box, Operand operand) {
  const bool of_samples = !operand.output && operand.index < 2;
  const Shape& shape = operand.output ? call.outputs[0].shape : call.inputs[operand.index].shape;
  Rect rect = whole_of(shape);
  for (size_t d = 0; of_samples && d < box.size() && d < shape.size(); ++d) {
    rect.origin[d] = box[d].origin;
    rect.extent[d] = box[d].extent;
  }
  return rect;
}

OpDef metrics() {
  OpDef op("metrics");
  op.describe(
      "Adds a batch to the totals: inputs (prediction, label, loss, totals), output the new totals [samples, loss * "
      "samples, "
      "correct, categorical and sparse categorical cross-entropy, squared, root squared and absolute error], each a "
      "sum over "
      "samples. A sample is a position of the prediction without its last axis; errors are means over that axis. Of a "
      "split "
      "batch, the first part carries the old totals on.");
  op.inputs(4).no_gradient().inplace(0, 3);
  op.attr("accuracy", false,
          "count the samples whose largest prediction is at their label (one class: both sides of 0.5)");
  op.attr("categorical_crossentropy", false, "add -sum(label * log(prediction)), the log of at least 1e-8");
  op.attr("sparse_categorical_crossentropy", false, "add -log(prediction[label]), the log of at least 1e-8");
  op.attr("mean_squared_error", false, "add the mean of (prediction - label)^2");
  op.attr("root_mean_squared_error", false, "add the root of that mean");
  op.attr("mean_absolute_error", false, "add the mean of |prediction - label|");
  op.attr("sparse", false, "labels are class ids");
  op.indices = positions;
  op.region = metrics_region;
  op.shape = metrics_shape;
  op.flops = flops_per_element(10);
  op.domain = [](const OpCall& call, int input) {
    const Shape& shape = call.inputs[0].shape;
    return input == 1 ? Domain{0, shape.size() > 1 ? shape.back() : 2} : Domain{};
  };
  op.internal = true;
  return op;
}
REGISTER_OP(metrics);

}  // namespace
}  // namespace ff
