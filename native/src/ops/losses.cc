// Losses: (prediction, label) -> a scalar, the mean over the samples of the whole batch, and their gradients with
// respect to the prediction. A split batch gives parts of the mean, which add up.
#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

enum class Label {
  same,   // like the prediction
  dense,  // like the prediction, whose last axis holds the classes
  ids,    // a class for each position of the prediction
  any,    // not looked at, may be absent
};

struct Loss {
  std::string name, doc;
  Label label;
  double flops;  // per element of the prediction
  std::vector<AttrSpec> attrs;
};

const std::vector<Loss>& table() {
  const AttrSpec logits{"from_logits", AttrType::boolean, false, "predictions are scores, not probabilities", {}};
  const std::vector<std::string> reductions = {"mean", "sum"};
  static const std::vector<Loss> losses = {
      {"categorical_crossentropy",
       "Minus the sum over the last axis of label * log(p); labels are distributions.",
       Label::dense,
       12,
       {logits, {"label_smoothing", AttrType::real, 0.0, "share of the label spread evenly over the classes", {}}}},
      {"sparse_categorical_crossentropy", "Minus log(p) of the class that the label names.", Label::ids, 10, {logits}},
      {"binary_crossentropy",
       "-(label * log(p) + (1 - label) * log(1 - p)), mean over all elements.",
       Label::same,
       15,
       {logits}},
      {"mean_squared_error",
       "(prediction - label)^2.",
       Label::same,
       3,
       {{"reduction", AttrType::text, std::string("mean"), "over the elements of one sample", reductions}}},
      {"mean_absolute_error", "|prediction - label|, mean over all elements.", Label::same, 2, {}},
      {"identity_loss",
       "The sum of the prediction's elements over the number of samples: the prediction is the loss.",
       Label::any,
       1,
       {}},
  };
  return losses;
}

void expect_ids(const OpCall& call) {
  expect_integer(call, 1);
  const Shape& label = call.inputs[1].shape;
  Shape ids = call.inputs[0].shape;
  const int64_t classes = ids.back();
  ids.back() = 1;
  const Shape flat(ids.begin(), ids.end() - 1);
  if (label != ids && label != flat)
    bad_value(call.name, ": the prediction has shape ", to_string(call.inputs[0].shape), ", ", classes,
              " classes, and the label ", to_string(label), "; expected a class id per position: ", to_string(flat),
              " or ", to_string(ids));
}

void expect_operands(const OpCall& call, Label label) {
  expect_float(call, 0);
  const TensorType& prediction = call.inputs[0];
  const bool classes = label == Label::dense || label == Label::ids;
  expect_rank(call, 0, classes ? 2 : 1, 8, classes ? "(batch, ..., classes)" : "(batch, ...)");
  if (classes && prediction.shape.back() < 1)
    bad_value(call.name, ": the prediction has shape ", to_string(prediction.shape),
              "; expected one class or more on its last axis");
  if (label == Label::ids) expect_ids(call);
  if (label != Label::same && label != Label::dense) return;
  expect_equal_dtypes(call, 0, 1);
  expect_equal_shapes(call, 0, 1);
}

// Cross-entropies need whole rows of classes: their indices are the positions only.
Box positions(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  return indices_over(Shape(shape.begin(), shape.end() - 1), "b");
}

Rect position_region(const OpCall& call, const Box& box, Operand operand) {
  const TensorType& type = operand.output ? call.outputs[operand.index] : call.inputs[operand.index];
  Rect rect = whole_of(type.shape);
  for (size_t d = 0; d < box.size() && d < type.rank(); ++d) {
    rect.origin[d] = box[d].origin;
    rect.extent[d] = box[d].extent;
  }
  return rect;
}

// A label that need not have anything in common with the prediction goes whole to every part.
Rect unlabelled_region(const OpCall& call, const Box& box, Operand operand) {
  if (!operand.output && operand.index == 1) return whole_of(call.inputs[1].shape);
  return operand.output ? Rect{} : position_region(call, box, operand);
}

void set_space(OpDef& op, Label label, bool backward) {
  if (label == Label::same) {
    op.space(backward ? "x*, x*, -> x*" : "x*, x* -> ");
  } else if (label == Label::any && backward) {
    op.space("x*, -> x*");
  } else if (label == Label::any) {
    op.indices = [](const OpCall& call) { return indices_over(call.inputs[0].shape, "x"); };
    op.region = unlabelled_region;
  } else {
    op.indices = positions;
    op.region = position_region;
  }
}

Domain class_domain(const OpCall& call, int input) {
  return input == 1 ? Domain{0, call.inputs[0].shape.back()} : Domain{};
}

OpDef forward_of(const Loss& loss) {
  OpDef op(loss.name);
  op.describe(loss.doc + " The mean over the samples, a scalar.");
  op.inputs(loss.label == Label::any ? 1 : 2, 2);
  op.attrs = loss.attrs;
  set_space(op, loss.label, false);
  if (loss.label == Label::any) op.linear_in({0});
  if (loss.label == Label::ids) op.domain = class_domain;
  op.shape = [label = loss.label](const OpCall& call) -> std::vector<TensorType> {
    expect_operands(call, label);
    return {{call.inputs[0].dtype, {}}};
  };
  op.flops = flops_per_element(loss.flops);
  op.grad = [label = loss.label](GradContext& ctx) {
    std::vector<Value> inputs = {ctx.in(0)};
    if (label != Label::any) inputs.push_back(ctx.in(1));
    inputs.push_back(ctx.dout(0));
    ctx.in_grad(0, ctx.emit(ctx.node().op + "_grad", inputs, ctx.attrs()));
  };
  return op;
}

OpDef backward_of(const Loss& loss) {
  OpDef op(loss.name + "_grad");
  const bool labelled = loss.label != Label::any;
  op.describe(cat("Gradient of ", loss.name, ": inputs (prediction, ", labelled ? "label, " : "",
                  "dloss), output dprediction."));
  op.inputs(labelled ? 3 : 2).linear_in({labelled ? 2 : 1}).no_gradient();
  op.attrs = loss.attrs;
  set_space(op, loss.label, true);
  if (loss.label == Label::ids) op.domain = class_domain;
  op.shape = like_first;
  op.flops = flops_per_element(loss.flops);
  op.internal = true;
  return op;
}

std::vector<OpDef> losses() {
  std::vector<OpDef> ops;
  for (const Loss& loss : table()) {
    ops.push_back(forward_of(loss));
    ops.push_back(backward_of(loss));
  }
  return ops;
}
REGISTER_OPS(losses);

}  // namespace
}  // namespace ff
