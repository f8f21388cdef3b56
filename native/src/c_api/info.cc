// ff_describe: texts about the library and its operators.
#include <algorithm>
#include <set>

#include "base/ranks.h"
#include "build_info.h"
#include "c_api/objects.h"
#include "c_api/options.h"
#include "engines/engine.h"
#include "engines/plugins.h"
#include "kernels/device_info.h"
#include "kernels/kernel.h"
#include "ops/op.h"

using namespace ff;
using namespace ff::c_api;

namespace {

std::string device_text(const Machine& machine, size_t d) {
  const Device& device = machine.devices[d];
  return cat("device ", d, ", ", device.kind, ", ", device.threads, device.threads == 1 ? " thread, " : " threads, ",
             device.memory >> 20, " MiB");
}

std::string devices_text() {
  std::ostringstream out;
  for (const std::string& name : engine_names()) {
    if (name == "legion") {  // its machine is known once its runtime runs, which a list must not start
      out << name << ": those of its runtime, which `flexflow info --engine " << name << "` starts or joins\n";
      continue;
    }
    const Machine machine = make_engine(name, {})->machine();
    for (size_t d = 0; d < machine.devices.size(); ++d) out << name << ": " << device_text(machine, d) << "\n";
  }
  return out.str();
}

// The machine of an engine. Lines after its name are flags of its runtime.
std::string machine_text(const std::string& what) {
  std::vector<std::string> flags = lines_of(what);
  const std::string name = flags.empty() ? "" : flags.front();
  if (!flags.empty()) flags.erase(flags.begin());
  EngineConfig config{.devices = ranks().count, .flags = flags};
  for (size_t i = 0; i + 1 < flags.size(); ++i)
    if (flags[i] == "-ll:cpu") config.devices = std::max(1, std::atoi(flags[i + 1].c_str())) * ranks().count;
  const auto engine = make_engine(name, config);
  const Machine machine = engine->machine();
  std::set<int> nodes;
  for (const Device& device : machine.devices) nodes.insert(device.node);
  std::ostringstream out;
  out << "nodes: " << nodes.size() << "\ndevices: " << machine.devices.size() << "\n";
  for (size_t d = 0; d < machine.devices.size(); ++d)
    out << device_text(machine, d) << ", node " << machine.devices[d].node << "\n";
  return out.str() + engine->description();
}

std::string sharding_text(const OpDef& def) {
  if (!def.unsplittable_reason.empty()) return "unsplittable: " + def.unsplittable_reason;
  if (def.indices && def.region) return "function";
  return def.iteration ? def.iteration->line : "";
}

std::string op_text(const OpDef& def) {
  std::ostringstream out;
  out << "name: " << def.name << "\ndoc: " << def.doc << "\ninternal: " << def.internal << "\n";
  for (const AttrSpec& spec : def.attrs)
    out << "attr: " << spec.name << ": " << name_of(spec.type)
        << (spec.fallback ? " = " + to_string(*spec.fallback) : ", required") << ": " << spec.doc
        << (spec.choices.empty() ? "" : " One of " + join(spec.choices) + ".") << "\n";
  out << "shape: " << (def.shape ? "yes" : "no") << "\nsharding: " << sharding_text(def)
      << "\nflops: " << (def.flops ? "yes" : "no") << "\ngradient: "
      << (def.gradient_free           ? "none"
          : def.grad || def.composite ? "yes"
                                      : "no")
      << "\nexpansion: " << (def.expand ? "yes" : "no") << "\ndomain: " << (def.domain ? "yes" : "no")
      << "\nrandom: " << def.random << "\nview: " << def.view << "\n";
  return out.str();
}

std::string describe(const std::string& what) {
  if (what == "version") return FF_VERSION;
  if (what == "build") return FF_BUILD_ID;
  if (what == "abi") return FF_ABI_DIGEST;
  if (what == "options")
    return cat(FF_BUILD_TYPE, ", ", FF_BUILD_COMPILER, ", ", FF_BUILD_FLAGS, ", oneDNN ", FF_ONEDNN_VERSION);
  if (what == "engines") return join(engine_names());
  if (what == "engine") return default_engine();
  if (what == "runtime") return runtime_is_ours() ? "started" : runtime_is_up() ? "found" : "none";
  if (what == "ranks") return cat(ranks().rank, " ", ranks().count);
  if (what == "devices") return devices_text();
  if (what.rfind("machine:", 0) == 0) return machine_text(what.substr(8));
  if (what == "cpu") return describe_cpu();
  if (what == "ops") {
    std::vector<std::string> names;
    for (const OpDef* def : all_ops()) names.push_back(def->name);
    return join(names, "\n");
  }
  if (what.rfind("op:", 0) == 0)
    return op_text(op_def(what.substr(3))) + "kernels: " + join(kernel_devices(what.substr(3))) + "\n";
  bad_value("cannot describe \"", what,
            "\"; expected version, build, abi, options, engines, engine, runtime, ranks, devices, machine:ENGINE, cpu, "
            "ops or op:NAME");
}

}  // namespace

extern "C" ff_status ff_close_runtimes(void) {
  return guarded([] { close_runtimes(); });
}

extern "C" ff_status ff_describe(const char* what, const char** text) {
  return guarded([&] {
    required(text, "text");
    *text = lend(describe(&required(what, "what")));
  });
}
