// Kernels: bound once to a call, then run many times on pointers. They meet operators by name, in a registry keyed by
// (op, kind of device).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/call.h"
#include "graph/kernel_query.h"
#include "graph/layout.h"

namespace ff {

// All that is known when a call is bound.
struct BindContext {
  const OpCall& call;
  const Layouts& layouts;
  int threads = 1;
};

// The memory of one run. Scratch is aligned to 64 bytes and as large as the kernel asked for.
struct RunArgs {
  const void* const* in = nullptr;
  void* const* out = nullptr;
  void* scratch = nullptr;

  template <class T>
  const T* input(int i) const {
    return static_cast<const T*>(in[i]);
  }
  template <class T>
  T* output(int i) const {
    return static_cast<T*>(out[i]);
  }
};

// Bound to one call: descriptors, algorithm and sizes are settled; run takes pointers only. One kernel object is run by
// one thread at a time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const RunArgs& args) = 0;
};

// Most kernels are a function over the call.
using RunFn = std::function<void(const RunArgs&)>;
std::unique_ptr<Kernel> make_kernel(RunFn run);

struct KernelDef {
  std::string op;
  std::string device;
  std::function<std::unique_ptr<Kernel>(const BindContext&)> bind;
  // Does the kernel take this call (dtypes, attributes)? Absent: always.
  std::function<bool(const OpCall&)> supported;
  // Preferred layouts, given those in which the inputs could be had. Absent: all dense.
  std::function<Layouts(const OpCall&, const std::vector<Layout>& inputs)> layouts;
  std::function<size_t(const OpCall&, const Layouts&)> scratch;  // bytes; absent: none
  std::function<size_t(const OpCall&, int output)> residual;     // bytes of an opaque output; absent: one byte
};

struct KernelRegistration {
  explicit KernelRegistration(std::vector<KernelDef> defs);
};
// Register what a function returns: a vector of KernelDef.
#define REGISTER_KERNELS(function) static const ::ff::KernelRegistration function##_registration(function())

// The kernel for a call on a kind of device: the device's own where it takes the call; on a CPU the plain reference
// kernel else (float64, rare attributes). nullptr when there is none.
const KernelDef* find_kernel(const OpCall& call, const std::string& device);
// Bind it; throws an Error that names the op, its types and the device when there is none.
std::unique_ptr<Kernel> bind_kernel(const BindContext& context, const std::string& device);

// The kinds of device that have a kernel of their own for an op.
std::vector<std::string> kernel_devices(const std::string& op);

// The registry behind the interface that lowering and search ask.
const KernelQuery& kernel_query();

}  // namespace ff
