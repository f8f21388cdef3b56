// Between the C interface's types and ours.
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "c_api/objects.h"

namespace ff::c_api {
namespace {

template <class F>
void with_storage(DType dtype, F&& body) {
  switch (dtype) {
    case DType::boolean:
      return body(uint8_t{});
    case DType::int32:
      return body(int32_t{});
    case DType::int64:
      return body(int64_t{});
    case DType::float16:
      return body(float16{});
    case DType::bfloat16:
      return body(bfloat16{});
    case DType::float32:
      return body(float{});
    case DType::float64:
      return body(double{});
    case DType::opaque:
      break;
  }
  FF_CHECK(false, "no values of dtype ", name_of(dtype));
}

void check_convertible(DType from, DType to, const std::string& who) {
  if (is_float(from) && !is_float(to))
    fail(ErrorKind::type, who, ": ", name_of(from), " values where ", name_of(to),
         " is expected; convert them first, e.g. with astype");
}

void convert_values(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t n, const std::string& who) {
  if (n == 0) return;  // of an array without elements, which may have no memory either
  if (to_dtype == from_dtype) {
    std::memcpy(to, from, static_cast<size_t>(n) * size_of(to_dtype));
    return;
  }
  check_convertible(from_dtype, to_dtype, who);
  with_storage(from_dtype, [&](auto f) {
    with_storage(to_dtype, [&](auto t) {
      const auto* source = static_cast<const decltype(f)*>(from);
      auto* target = static_cast<decltype(t)*>(to);
      for (int64_t i = 0; i < n; ++i) {
        target[i] = static_cast<decltype(t)>(source[i]);
        if constexpr (std::is_same_v<decltype(f), int64_t> && std::is_same_v<decltype(t), int32_t>)
          if (target[i] != source[i]) bad_value(who, ": value ", source[i], " does not fit into int32");
      }
    });
  });
}

void check_shape(const ff_array& array, const TensorType& type, const std::string& who) {
  const Shape given(array.shape, array.shape + array.rank);
  if (given != type.shape)
    bad_value(who, ": got an array of shape ", to_string(given), "; expected ", to_string(type.shape));
  if (array.data == nullptr && type.numel() > 0) bad_value(who, ": the array has no data");
}

}  // namespace

DType dtype_of(int32_t code) {
  switch (code) {
    case FF_BOOL:
      return DType::boolean;
    case FF_INT32:
      return DType::int32;
    case FF_INT64:
      return DType::int64;
    case FF_FLOAT16:
      return DType::float16;
    case FF_FLOAT32:
      return DType::float32;
    case FF_FLOAT64:
      return DType::float64;
    case FF_BFLOAT16:
      return DType::bfloat16;
    default:
      bad_value("unknown dtype code ", code, "; see ff_dtype");
  }
}

int32_t code_of(DType dtype) {
  constexpr int32_t kCodes[] = {FF_BOOL, FF_INT32, FF_INT64, FF_FLOAT16, FF_FLOAT32, FF_FLOAT64, FF_BFLOAT16, 0};
  return kCodes[static_cast<size_t>(dtype)];
}

Attrs attrs_of(const ff_attr* attrs, size_t n) {
  Attrs out;
  for (size_t i = 0; i < n; ++i) {
    const ff_attr& attr = attrs[i];
    const std::string name(&required(attr.name, "name of an attribute"));
    switch (attr.type) {
      case FF_ATTR_BOOL:
        out.set(name, attr.i != 0);
        break;
      case FF_ATTR_INT:
        out.set(name, attr.i);
        break;
      case FF_ATTR_FLOAT:
        out.set(name, attr.f);
        break;
      case FF_ATTR_STRING:
        out.set(name, std::string(&required(attr.s, "s of a text attribute")));
        break;
      case FF_ATTR_INTS:
        out.set(name, std::vector<int64_t>(attr.ints, attr.ints + attr.n));
        break;
      case FF_ATTR_FLOATS:
        out.set(name, std::vector<double>(attr.floats, attr.floats + attr.n));
        break;
      default:
        bad_value("attribute \"", name, "\" has type code ", attr.type, "; see ff_attr_type");
    }
  }
  return out;
}

TensorType type_of(const ff_array& array) {
  if (array.rank < 0 || (array.rank > 0 && array.shape == nullptr))
    bad_value("an array of rank ", array.rank, " without a shape");
  return {dtype_of(array.dtype), Shape(array.shape, array.shape + array.rank)};
}

// A tensor's number is its node and output in one.
constexpr int64_t kOutputs = 1 << 12;

Value value_of(const Graph& graph, ff_tensor tensor) {
  const Value value{static_cast<NodeId>(tensor / kOutputs), static_cast<int32_t>(tensor % kOutputs)};
  if (tensor < 0 || static_cast<size_t>(value.node) >= graph.size() ||
      static_cast<size_t>(value.index) >= graph.node(value.node).outputs.size())
    bad_value("tensor ", tensor, " is not of this graph");
  return value;
}

ff_tensor tensor_of(Value value) { return value.node * kOutputs + value.index; }

void copy_in(void* to, const TensorType& type, const ff_array& from, const std::string& who) {
  check_shape(from, type, who);
  convert_values(to, type.dtype, from.data, dtype_of(from.dtype), type.numel(), who);
}

void copy_out(const ff_array& to, const void* from, const TensorType& type, const std::string& who) {
  check_shape(to, type, who);
  convert_values(to.data, dtype_of(to.dtype), from, type.dtype, type.numel(), who);
}

void write_entry(State::Entry& entry, const ff_array& from, const std::string& who) {
  if (entry.is_whole()) return copy_in(entry.data(), entry.type, from, who);
  std::vector<char> whole(entry.type.bytes());
  copy_in(whole.data(), entry.type, from, who);
  if (entry.processes != nullptr) take_from_first(*entry.processes, whole.data(), whole.size());
  entry.write(whole.data());
}

void read_entry(const ff_array& to, const State::Entry& entry, const std::string& who) {
  if (entry.is_whole()) return copy_out(to, entry.data(), entry.type, who);
  std::vector<char> whole(entry.type.bytes());
  entry.read(whole.data());
  copy_out(to, whole.data(), entry.type, who);
}

}  // namespace ff::c_api
