#include "graph/attrs.h"

#include <type_traits>

#include "base/error.h"

namespace ff {

const char* name_of(AttrType type) {
  constexpr const char* kNames[] = {"a bool", "an int", "a float", "a string", "a list of int", "a list of float"};
  return kNames[static_cast<size_t>(type)];
}

std::string to_string(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
        if constexpr (std::is_same_v<T, std::string>) return v;
        if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>>)
          return "[" + join(v) + "]";
        if constexpr (std::is_arithmetic_v<T>) return cat(v);
      },
      value);
}

template <class T>
const T& Attrs::get(const std::string& name) const {
  const auto it = items_.find(name);
  FF_CHECK(it != items_.end(), "no attribute \"", name, "\" among ", to_string(*this));
  const T* value = std::get_if<T>(&it->second);
  FF_CHECK(value != nullptr, "attribute \"", name, "\" holds ", name_of(type_of(it->second)));
  return *value;
}

template const bool& Attrs::get(const std::string&) const;
template const int64_t& Attrs::get(const std::string&) const;
template const double& Attrs::get(const std::string&) const;
template const std::string& Attrs::get(const std::string&) const;
template const std::vector<int64_t>& Attrs::get(const std::string&) const;
template const std::vector<double>& Attrs::get(const std::string&) const;

std::string to_string(const Attrs& attrs) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : attrs) parts.push_back(name + "=" + to_string(value));
  return join(parts);
}

}  // namespace ff
