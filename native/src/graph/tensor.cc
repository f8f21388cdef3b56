#include "graph/tensor.h"

#include <array>

#include "base/error.h"

namespace ff {
namespace {

struct DTypeInfo {
  const char* name;
  size_t size;
};
constexpr std::array<DTypeInfo, 8> kDTypes = {{{"bool", 1},
                                               {"int32", 4},
                                               {"int64", 8},
                                               {"float16", 2},
                                               {"float32", 4},
                                               {"float64", 8},
                                               {"bfloat16", 2},
                                               {"opaque", 1}}};

}  // namespace

size_t size_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].size; }

const char* name_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

DType dtype_from_name(const std::string& name) {
  for (size_t i = 0; i < kDTypes.size(); ++i)
    if (name == kDTypes[i].name) return static_cast<DType>(i);
  std::vector<std::string> known;
  for (const DTypeInfo& info : kDTypes) known.push_back(info.name);
  bad_value("unknown dtype \"", name, "\"; known: ", join(known));
}

bool is_float(DType dtype) {
  return dtype == DType::float16 || dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16;
}

int64_t numel(const Shape& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

std::string to_string(const Shape& shape) { return "[" + join(shape) + "]"; }

std::string to_string(const TensorType& type) { return name_of(type.dtype) + to_string(type.shape); }

int normal_axis(int64_t axis, size_t rank, const std::string& who) {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n)
    bad_value(who, ": axis ", axis, " is out of range for a tensor of rank ", rank, "; expected ", -n, " to ", n - 1);
  return static_cast<int>(axis < 0 ? axis + n : axis);
}

Shape broadcast(const Shape& a, const Shape& b, const std::string& who) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {  // i counts from the last dimension
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if ((x != y && x != 1 && y != 1) || x < 0 || y < 0)
      bad_value(who, ": shapes ", to_string(a), " and ", to_string(b),
                " do not broadcast; each pair of dimensions, counted from the last, must be equal or have a 1");
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace ff
