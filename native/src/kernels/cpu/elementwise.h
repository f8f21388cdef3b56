// Kernels that work element by element and so in any layout, as long as it is one for all operands.
#pragma once

#include "kernels/cpu/primitive.h"

namespace ff::cpu {

// All operands in the first layout among the inputs' that is not dense. Blocked layouts pad channels with zeros, which
// an op that does not keep zeros would spoil: it gets such tensors dense.
Layouts shared_layout(const OpCall& call, const std::vector<Layout>& inputs, bool keeps_zero);

// The kernel of an op whose operands are all of one type.
KernelDef elementwise_kernel(const std::string& op, bool keeps_zero, Describe describe);

}  // namespace ff::cpu
