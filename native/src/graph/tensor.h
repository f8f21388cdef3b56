// What a tensor is to the compiler: an element type and a shape. Row-major, batch first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ff {

enum class DType : uint8_t { boolean, int32, int64, float16, float32, float64, bfloat16, opaque };

size_t size_of(DType dtype);
const char* name_of(DType dtype);
DType dtype_from_name(const std::string& name);
bool is_float(DType dtype);

using Shape = std::vector<int64_t>;

int64_t numel(const Shape& shape);
std::string to_string(const Shape& shape);
// The axis counted from the front; throws naming `who` when it is out of [-rank, rank).
int normal_axis(int64_t axis, size_t rank, const std::string& who);
// The shape that NumPy broadcasting gives; throws naming `who` when the shapes do not agree.
Shape broadcast(const Shape& a, const Shape& b, const std::string& who);

struct TensorType {
  DType dtype = DType::float32;
  Shape shape;

  int64_t numel() const { return ff::numel(shape); }
  size_t bytes() const { return static_cast<size_t>(numel()) * size_of(dtype); }
  size_t rank() const { return shape.size(); }
  int64_t dim(int axis) const { return shape[axis < 0 ? axis + shape.size() : axis]; }
  bool operator==(const TensorType&) const = default;
};

std::string to_string(const TensorType& type);  // "float32[64, 10]"

}  // namespace ff
