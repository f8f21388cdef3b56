// flat and reshape. Their dimensions are matched in groups whose extents have equal products: (B, 784) and (B, 28, 28)
// are the groups B = B and 784 = 28 * 28. A batch that changes, and a split, stay within a group.
#include <algorithm>
#include <numeric>

#include "ops/grad.h"
#include "ops/rules.h"

namespace ff {
namespace {

// Dimensions [in_begin, in_end) of the input are dimensions [out_begin, out_end) of the output.
struct Group {
  size_t in_begin, in_end, out_begin, out_end;
};

// The finest groups; trailing ones join the last group. No groups where a zero hides how the rest matches.
std::vector<Group> match(const Shape& in, const Shape& out) {
  std::vector<Group> groups;
  size_t i = 0, k = 0;
  while (i < in.size() && k < out.size()) {
    Group group{i, i + 1, k, k + 1};
    int64_t a = in[i++], b = out[k++];
    while (a != b) {
      if (a < b && i < in.size())
        a *= in[i++];
      else if (a > b && k < out.size())
        b *= out[k++];
      else
        return {};
    }
    group.in_end = i;
    group.out_end = k;
    groups.push_back(group);
  }
  if (!groups.empty()) {
    groups.back().in_end = in.size();
    groups.back().out_end = out.size();
  }
  return groups;
}

// The first dimension that is not 1, or the end.
size_t leading(const Shape& shape, size_t begin, size_t end) {
  while (begin < end && shape[begin] == 1) ++begin;
  return begin;
}

// An index per group. It runs over the largest blocks that are rectangles on both sides: as many as the greatest common
// divisor of the two leading extents.
Box reshape_indices(const OpCall& call) {
  const Shape &in = call.inputs[0].shape, &out = call.outputs[0].shape;
  Box box;
  for (const Group& group : match(in, out)) {
    const size_t i = leading(in, group.in_begin, group.in_end), k = leading(out, group.out_begin, group.out_end);
    const int64_t blocks = i < group.in_end && k < group.out_end ? std::gcd(in[i], out[k]) : 1;
    box.push_back({cat("x", box.size()), 0, blocks, blocks});
  }
  return box;
}

Rect reshape_region(const OpCall& call, const Box& box, Operand operand) {
  const Shape& shape = operand.output ? call.outputs[0].shape : call.inputs[0].shape;
  const std::vector<Group> groups = match(call.inputs[0].shape, call.outputs[0].shape);
  Rect rect = whole_of(shape);
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t end = operand.output ? groups[g].out_end : groups[g].in_end;
    const size_t d = leading(shape, operand.output ? groups[g].out_begin : groups[g].in_begin, end);
    if (d == end || box[g].global == 0) continue;
    const int64_t block = shape[d] / box[g].global;
    rect.origin[d] = box[g].origin * block;
    rect.extent[d] = box[g].extent * block;
  }
  return rect;
}

// The shape attribute with its -1 worked out.
Shape target_shape(const OpCall& call) {
  Shape target = call.attrs.ints("shape");
  const Shape& from = call.inputs[0].shape;
  int64_t known = 1;
  const auto unknown = std::count(target.begin(), target.end(), -1);
  for (const int64_t extent : target) {
    if (extent < -1)
      bad_value(call.name, ": shape is ", to_string(target), "; expected extents of 0 or more, and at most one -1");
    if (extent != -1) known *= extent;
  }
  if (unknown > 1) bad_value(call.name, ": shape is ", to_string(target), "; expected at most one -1");
  if (unknown == 1 && known == 0)
    bad_value(call.name, ": shape is ", to_string(target), "; beside a 0 a -1 can be anything; give its extent");
  if (unknown == 1) std::replace(target.begin(), target.end(), int64_t{-1}, numel(from) / known);
  if (numel(target) != numel(from))
    bad_value(call.name, ": the input has shape ", to_string(from), ", ", numel(from),
              " elements, and cannot take the shape ", to_string(call.attrs.ints("shape")),
              "; expected a shape of as many elements");
  return target;
}

// The leading dimension of the group in which an input dimension changed is scaled as that dimension.
Attrs reshape_rebatch(const OpCall& before, const std::vector<TensorType>& inputs) {
  const Shape &from = before.inputs[0].shape, &now = inputs[0].shape;
  Shape target = target_shape(before);
  for (const Group& group : match(from, target)) {
    int64_t old_size = 1, new_size = 1;
    for (size_t i = group.in_begin; i < group.in_end; ++i) {
      old_size *= from[i];
      new_size *= now[i];
    }
    if (new_size == old_size) continue;
    int64_t& leader = target[group.out_begin];
    if (old_size != 0 && leader * new_size % old_size == 0) leader = leader * new_size / old_size;
  }
  if (numel(target) != numel(now))
    bad_value(before.name, ": the input changed from ", to_string(from), " to ", to_string(now), " and the shape ",
              to_string(before.attrs.ints("shape")), " cannot follow; give -1 for the extent that holds the batch");
  Attrs attrs = before.attrs;
  attrs.set("shape", target);
  return attrs;
}

OpDef regrouped(const std::string& name) {
  OpDef op(name);
  op.inputs(1).linear_in({0});
  op.view = true;
  op.indices = reshape_indices;
  op.region = reshape_region;
  op.flops = flops_per_element(0);
  op.grad = [](GradContext& ctx) {
    ctx.in_grad(0, ctx.emit("reshape", {ctx.dout(0)}, {{"shape", ctx.in_type(0).shape}}));
  };
  return op;
}

std::vector<OpDef> reshapes() {
  OpDef flat = regrouped("flat");
  flat.describe("All dimensions but the first as one: (N, ...) -> (N, rest).");
  flat.shape = [](const OpCall& call) -> std::vector<TensorType> {
    const TensorType& x = call.inputs[0];
    if (x.rank() == 0)
      bad_value(call.name, ": the input is a scalar; expected a tensor of rank 1 or more, batch first");
    return {{x.dtype, {x.shape[0], numel(Shape(x.shape.begin() + 1, x.shape.end()))}}};
  };

  OpDef reshape = regrouped("reshape");
  reshape.describe("The same elements, in row-major order, under another shape.");
  reshape.required("shape", AttrType::integers, "the new extents; one may be -1: what is left");
  reshape.shape = [](const OpCall& call) -> std::vector<TensorType> {
    return {{call.inputs[0].dtype, target_shape(call)}};
  };
  reshape.rebatch = reshape_rebatch;
  return {flat, reshape};
}
REGISTER_OPS(reshapes);

}  // namespace
}  // namespace ff
