// ff_describe: texts about the library and its operators.
#include "build_info.h"
#include "c_api/objects.h"
#include "engines/engine.h"
#include "kernels/device_info.h"
#include "kernels/kernel.h"
#include "ops/op.h"

using namespace ff;
using namespace ff::c_api;

namespace {

std::string devices_text() {
  std::ostringstream out;
  for (const std::string& name : engine_names()) {
    const Machine machine = make_engine(name, {})->machine();
    for (size_t d = 0; d < machine.devices.size(); ++d)
      out << name << ": device " << d << ", " << machine.devices[d].kind << ", " << machine.devices[d].threads
          << " threads, " << (machine.devices[d].memory >> 20) << " MiB\n";
  }
  return out.str();
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
  if (what == "devices") return devices_text();
  if (what == "cpu") return describe_cpu();
  if (what == "ops") {
    std::vector<std::string> names;
    for (const OpDef* def : all_ops()) names.push_back(def->name);
    return join(names, "\n");
  }
  if (what.rfind("op:", 0) == 0)
    return op_text(op_def(what.substr(3))) + "kernels: " + join(kernel_devices(what.substr(3))) + "\n";
  bad_value("cannot describe \"", what,
            "\"; expected version, build, abi, options, engines, devices, cpu, ops or op:NAME");
}

}  // namespace

extern "C" ff_status ff_describe(const char* what, const char** text) {
  return guarded([&] {
    required(text, "text");
    *text = lend(describe(&required(what, "what")));
  });
}
