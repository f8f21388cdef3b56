// What operators with NumPy's broadcasting share: their sharding rule and the way back for gradients.
#pragma once

#include "ops/grad.h"

namespace ff {

// One index per dimension of the output.
Box broadcast_indices(const OpCall& call);
// Outputs have the box itself, inputs what of it they do not repeat.
Rect broadcast_region(const OpCall& call, const Box& box, Operand operand);
// The gradient of a tensor of `shape` from the gradient of its broadcast form: the sum over its copies.
Value sum_to(Emitter& emitter, Value grad, const Shape& shape);

}  // namespace ff
