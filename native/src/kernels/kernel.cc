#include "kernels/kernel.h"

#include <map>

#include "base/error.h"

namespace ff {
namespace {

std::multimap<std::pair<std::string, std::string>, KernelDef>& registry() {
  static std::multimap<std::pair<std::string, std::string>, KernelDef> kernels;
  return kernels;
}

const KernelDef* find_own(const OpCall& call, const std::string& device) {
  const auto [begin, end] = registry().equal_range({call.op, device});
  for (auto it = begin; it != end; ++it)
    if (!it->second.supported || it->second.supported(call)) return &it->second;
  return nullptr;
}

class FunctionKernel : public Kernel {
 public:
  explicit FunctionKernel(RunFn run) : run_(std::move(run)) {}
  void run(const RunArgs& args) override { run_(args); }

 private:
  RunFn run_;
};

class RegistryQuery : public KernelQuery {
 public:
  bool supported(const OpCall& call, const std::string& device) const override {
    return find_kernel(call, device) != nullptr;
  }

  Layouts layouts(const OpCall& call, const std::string& device, const std::vector<Layout>& inputs) const override {
    const KernelDef* kernel = find_kernel(call, device);
    if (kernel != nullptr && kernel->layouts) return kernel->layouts(call, inputs);
    return {std::vector<Layout>(call.inputs.size()), std::vector<Layout>(call.outputs.size())};
  }

  size_t scratch(const OpCall& call, const std::string& device, const Layouts& layouts) const override {
    const KernelDef* kernel = find_kernel(call, device);
    return kernel != nullptr && kernel->scratch ? kernel->scratch(call, layouts) : 0;
  }

  size_t residual(const OpCall& call, const std::string& device, int output) const override {
    const KernelDef* kernel = find_kernel(call, device);
    return kernel != nullptr && kernel->residual ? kernel->residual(call, output) : 1;
  }
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(RunFn run) { return std::make_unique<FunctionKernel>(std::move(run)); }

KernelRegistration::KernelRegistration(std::vector<KernelDef> defs) {
  for (KernelDef& def : defs) {
    std::pair<std::string, std::string> key(def.op, def.device);
    registry().emplace(std::move(key), std::move(def));
  }
}

const KernelDef* find_kernel(const OpCall& call, const std::string& device) {
  const KernelDef* kernel = find_own(call, device);
  return kernel == nullptr && device == "cpu" ? find_own(call, "reference") : kernel;
}

std::unique_ptr<Kernel> bind_kernel(const BindContext& context, const std::string& device) {
  const KernelDef* kernel = find_kernel(context.call, device);
  if (kernel == nullptr)
    bad_value(context.call.name, ": no kernel on device kind \"", device, "\" for ", to_string(context.call));
  return kernel->bind(context);
}

std::vector<std::string> kernel_devices(const std::string& op) {
  std::vector<std::string> devices;
  for (const auto& [key, def] : registry())
    if (key.first == op && (devices.empty() || devices.back() != key.second)) devices.push_back(key.second);
  return devices;
}

const KernelQuery& kernel_query() {
  static const RegistryQuery query;
  return query;
}

}  // namespace ff
