#include "ops/check.h"

#include "base/error.h"

namespace ff {

void expect_inputs(const OpCall& call, size_t count, const std::string& what) {
  if (call.inputs.size() != count)
    bad_value(call.name, ": got ", call.inputs.size(), " inputs; expected ", count, " (", what,
              "); give all of them or ", "leave the weights to the op");
}

void expect_float(const OpCall& call, int index) {
  if (!is_float(call.inputs[index].dtype))
    fail(ErrorKind::type, call.name, ": input ", index, " is ", to_string(call.inputs[index]),
         "; expected a floating-point dtype; cast it first");
}

void expect_integer(const OpCall& call, int index) {
  const DType dtype = call.inputs[index].dtype;
  if (dtype != DType::int32 && dtype != DType::int64)
    fail(ErrorKind::type, call.name, ": input ", index, " is ", to_string(call.inputs[index]),
         "; expected int32 or int64; cast it first");
}

void expect_rank(const OpCall& call, int index, size_t least, size_t most, const std::string& layout) {
  const TensorType& type = call.inputs[index];
  if (type.rank() < least || type.rank() > most)
    bad_value(call.name, ": input ", index, " is ", to_string(type), " of rank ", type.rank(), "; expected ", layout,
              "; reshape it first");
}

void expect_type(const OpCall& call, int index, const TensorType& expected, const std::string& what) {
  const TensorType& type = call.inputs[index];
  if (type != expected)
    fail(type.dtype == expected.dtype ? ErrorKind::value : ErrorKind::type, call.name, ": ", what, " is ",
         to_string(type), "; expected ", to_string(expected));
}

void expect_list(const OpCall& call, const std::string& attr, size_t count, int64_t least) {
  constexpr int64_t kMost = 1 << 30;  // sums of a few stay within what kernels count with
  const auto& values = call.attrs.ints(attr);
  bool good = values.size() == count;
  for (const int64_t value : values) good = good && value >= least && value <= kMost;
  if (!good)
    bad_value(call.name, ": attribute \"", attr, "\" is ", to_string(Shape(values)), "; expected ", count,
              " integers, each from ", least, " to ", kMost);
}

void expect_least(const OpCall& call, const std::string& attr, int64_t least) {
  const int64_t value = call.attrs.integer(attr);
  if (value < least) bad_value(call.name, ": attribute \"", attr, "\" is ", value, "; expected at least ", least);
}

}  // namespace ff
