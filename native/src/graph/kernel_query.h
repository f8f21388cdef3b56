// What lowering and search may ask about kernels, without knowing any. Kernels implement it; the composition root
// passes it down.
#pragma once

#include <vector>

#include "graph/call.h"
#include "graph/layout.h"

namespace ff {

// One layout per operand of a call.
struct Layouts {
  std::vector<Layout> inputs, outputs;
};

class KernelQuery {
 public:
  virtual ~KernelQuery() = default;

  // Is there a kernel for this call on this kind of device?
  virtual bool supported(const OpCall& call, const std::string& device) const = 0;
  // The layouts in which the kernel wants its inputs and gives its outputs, when its inputs could be had in these.
  virtual Layouts layouts(const OpCall& call, const std::string& device, const std::vector<Layout>& inputs) const = 0;
  // Scratch memory of one run, in bytes.
  virtual size_t scratch(const OpCall& call, const std::string& device, const Layouts& layouts) const = 0;
  // Size in bytes of an opaque output (a workspace that only the kernel of the gradient reads).
  virtual size_t residual(const OpCall& call, const std::string& device, int output) const = 0;
};

}  // namespace ff
