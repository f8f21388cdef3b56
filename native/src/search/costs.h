// What a call costs, measured or estimated. The search and the simulator ask; whoever makes them says who answers.
#pragma once

#include "graph/call.h"
#include "graph/kernel_query.h"
#include "search/machine_model.h"

namespace ff {

class Costs {
 public:
  virtual ~Costs() = default;
  // Seconds of one call, its shapes those of its part, on a device that runs nothing else.
  virtual double seconds(const OpCall& call, const Layouts& layouts, int device, int threads) const = 0;
  // The same where no cache holds its operands; for those who know what was touched since.
  virtual double cold_seconds(const OpCall& call, const Layouts& layouts, int device, int threads) const {
    return seconds(call, layouts, device, threads);
  }
};

}  // namespace ff
