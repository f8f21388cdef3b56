// Options of a call, given as attributes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/attrs.h"
#include "parallel/pcg.h"

namespace ff::c_api {

// Each is taken once; what is left over is a mistake.
class Options {
 public:
  explicit Options(Attrs attrs) : attrs_(std::move(attrs)) {}

  template <class T>
  T take(const std::string& name, T fallback) {
    if (!attrs_.has(name)) return fallback;
    const AttrValue value = find(name);
    attrs_.erase(name);
    if constexpr (std::is_same_v<T, double>)
      if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    if (!std::holds_alternative<T>(value))
      fail(ErrorKind::type, "compile: option \"", name, "\" is ", to_string(value), ", ", name_of(ff::type_of(value)),
           "; expected ", name_of(ff::type_of(AttrValue(fallback))));
    return std::get<T>(value);
  }

  // All that begin with the prefix, without it.
  Attrs take_prefix(const std::string& prefix) {
    Attrs out, rest;
    for (const auto& [name, value] : attrs_) {
      if (name.rfind(prefix, 0) == 0)
        out.set(name.substr(prefix.size()), value);
      else
        rest.set(name, value);
    }
    attrs_ = rest;
    return out;
  }

  void finish() const {
    for (const auto& [name, value] : attrs_)
      bad_value("compile: unknown option \"", name, "\"; see ff_compile in flexflow_c.h");
  }

 private:
  AttrValue find(const std::string& name) const {
    return std::find_if(attrs_.begin(), attrs_.end(), [&](const auto& item) { return item.first == name; })->second;
  }

  Attrs attrs_;
};

// The lines of a text; what follows the last line break is one too, unless it is empty.
std::vector<std::string> lines_of(const std::string& text);

// The engine that a compile takes which names none.
std::string default_engine();

// What place:NAME and share_update:WEIGHT say.
Strategy take_strategy(const Graph& graph, Options& options);

}  // namespace ff::c_api
