// From a dtype, known at run time, to a C++ type: the function is called with a zero of that type,
//
//   dispatch_float(type.dtype, [&](auto zero) { using T = decltype(zero); ... });
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/half.h"
#include "graph/tensor.h"
#include "kernels/kernel.h"

namespace ff::reference {

template <class F>
decltype(auto) dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    default:
      fail(ErrorKind::type, "no reference kernel for dtype ", name_of(dtype), "; expected float32 or float64");
  }
}

template <class F>
decltype(auto) dispatch_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int32:
      return f(int32_t{});
    case DType::int64:
      return f(int64_t{});
    default:
      return dispatch_float(dtype, f);
  }
}

// Class ids and other integers that address something.
template <class F>
decltype(auto) dispatch_index(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int32:
      return f(int32_t{});
    case DType::int64:
      return f(int64_t{});
    default:
      fail(ErrorKind::type, "an index of dtype ", name_of(dtype), "; expected int32 or int64");
  }
}

template <class F>
decltype(auto) dispatch_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
      return f(bool{});
    case DType::float16:
      return f(float16{});
    case DType::bfloat16:
      return f(bfloat16{});
    default:
      return dispatch_number(dtype, f);
  }
}

// A reference kernel for float32 and float64 (by the first output): body(zero, call, args) is called with a zero of the
// type.
template <class Body>
KernelDef float_kernel(const std::string& op, Body body) {
  KernelDef def;
  def.op = op;
  def.device = "reference";
  def.supported = [](const OpCall& call) {
    return call.outputs[0].dtype == DType::float32 || call.outputs[0].dtype == DType::float64;
  };
  def.bind = [body](const BindContext& context) {
    return make_kernel([body, call = context.call](const RunArgs& args) {
      dispatch_float(call.outputs[0].dtype, [&](auto zero) { body(zero, call, args); });
    });
  };
  return def;
}

}  // namespace ff::reference
