// Whether the devices of a plan wait for each other as they must.
#pragma once

#include "lowering/plan.h"

namespace ff {

// Throws where two steps of different devices may run at one time and one of them writes what the other uses, and where
// a step waits for a later one, which would be for ever.
void check_order(const Plan& plan);

}  // namespace ff
