// How reference kernels that need more than float_kernel (dispatch.h) are put into the registry.
#pragma once

#include <utility>

#include "kernels/kernel.h"

namespace ff::reference {

using Bind = std::function<std::unique_ptr<Kernel>(const BindContext&)>;
using Supported = std::function<bool(const OpCall&)>;

inline KernelDef define(const std::string& op, Bind bind, Supported supported = {}) {
  KernelDef def;
  def.op = op;
  def.device = "reference";
  def.bind = std::move(bind);
  def.supported = std::move(supported);
  return def;
}

// Predicates: the dtype of the first output.
inline bool float_output(const OpCall& call) {
  const DType dtype = call.outputs[0].dtype;
  return dtype == DType::float32 || dtype == DType::float64;
}

inline bool number_output(const OpCall& call) {
  const DType dtype = call.outputs[0].dtype;
  return float_output(call) || dtype == DType::int32 || dtype == DType::int64;
}

}  // namespace ff::reference
