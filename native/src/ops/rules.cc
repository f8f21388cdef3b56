#include "ops/rules.h"

#include <algorithm>

namespace ff {

void expect_number(const OpCall& call, int input) {
  const DType dtype = call.inputs[input].dtype;
  if (dtype == DType::boolean || dtype == DType::opaque)
    fail(ErrorKind::type, call.name, ": input ", input, " is ", name_of(dtype),
         "; expected numbers; cast it first, for example to int32 or float32");
}

void expect_equal_dtypes(const OpCall& call, int a, int b) {
  const DType first = call.inputs[a].dtype, second = call.inputs[b].dtype;
  if (first != second)
    fail(ErrorKind::type, call.name, ": inputs ", a, " and ", b, " are ", name_of(first), " and ", name_of(second),
         "; expected one dtype; cast one of them");
}

void expect_equal_shapes(const OpCall& call, int a, int b) {
  const Shape &first = call.inputs[a].shape, &second = call.inputs[b].shape;
  if (first != second)
    bad_value(call.name, ": inputs ", a, " and ", b, " have shapes ", to_string(first), " and ", to_string(second),
              "; expected equal shapes; reshape one of them");
}

std::vector<TensorType> like_first(const OpCall& call) { return {call.inputs[0]}; }

std::function<double(const OpCall&)> flops_per_element(double each) {
  return [each](const OpCall& call) {
    const int64_t in = call.inputs.empty() ? 0 : call.inputs[0].numel();
    return each * static_cast<double>(std::max(in, call.outputs[0].numel()));
  };
}

Box indices_over(const Shape& shape, const std::string& letter) {
  Box box;
  for (size_t d = 0; d < shape.size(); ++d) box.push_back({cat(letter, d), 0, shape[d], shape[d]});
  return box;
}

Interval intersect(const IndexRange& range, int64_t begin, int64_t length) {
  const int64_t from = std::clamp(range.origin - begin, int64_t{0}, length);
  const int64_t to = std::clamp(range.origin + range.extent - begin, int64_t{0}, length);
  return {from, to - from};
}

}  // namespace ff
