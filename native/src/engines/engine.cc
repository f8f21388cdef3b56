#include "engines/engine.h"

#include <map>

#include "base/error.h"

namespace ff {
namespace {

struct Registered {
  EngineFactory make;
  std::function<bool()> available;
};

std::map<std::string, Registered>& registry() {
  static std::map<std::string, Registered> engines;
  return engines;
}

}  // namespace

EngineRegistration::EngineRegistration(std::string name, EngineFactory factory, std::function<bool()> available) {
  registry()[std::move(name)] = {std::move(factory), std::move(available)};
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const auto& [name, engine] : registry())
    if (engine.available == nullptr || engine.available()) names.push_back(name);
  return names;
}

std::unique_ptr<Engine> make_engine(const std::string& name, const EngineConfig& config) {
  const auto it = registry().find(name);
  if (it == registry().end()) bad_value("engine \"", name, "\" is not there; this build has ", join(engine_names()));
  return it->second.make(config);
}

}  // namespace ff
