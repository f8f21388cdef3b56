#include "engines/engine.h"

#include <map>

#include "base/error.h"

namespace ff {
namespace {

std::map<std::string, EngineFactory>& registry() {
  static std::map<std::string, EngineFactory> engines;
  return engines;
}

}  // namespace

EngineRegistration::EngineRegistration(std::string name, EngineFactory factory) {
  registry()[std::move(name)] = std::move(factory);
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : registry()) names.push_back(name);
  return names;
}

std::unique_ptr<Engine> make_engine(const std::string& name, const EngineConfig& config) {
  const auto it = registry().find(name);
  if (it == registry().end()) bad_value("engine \"", name, "\" is not there; this build has ", join(engine_names()));
  return it->second(config);
}

}  // namespace ff
