// Attributes of an operator: a small ordered map from names to values of six types.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace ff {

using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

enum class AttrType { boolean, integer, real, text, integers, reals };  // in the order of AttrValue

const char* name_of(AttrType type);
inline AttrType type_of(const AttrValue& value) { return static_cast<AttrType>(value.index()); }
std::string to_string(const AttrValue& value);

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, AttrValue>> items) : items_(items) {}

  bool has(const std::string& name) const { return items_.count(name) != 0; }
  void set(const std::string& name, AttrValue value) { items_[name] = std::move(value); }
  void erase(const std::string& name) { items_.erase(name); }

  // The value of an attribute that the schema of the op guarantees.
  bool flag(const std::string& name) const { return get<bool>(name); }
  int64_t integer(const std::string& name) const { return get<int64_t>(name); }
  double real(const std::string& name) const { return get<double>(name); }
  const std::string& text(const std::string& name) const { return get<std::string>(name); }
  const std::vector<int64_t>& ints(const std::string& name) const { return get<std::vector<int64_t>>(name); }
  const std::vector<double>& reals(const std::string& name) const { return get<std::vector<double>>(name); }

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  bool operator==(const Attrs&) const = default;

 private:
  template <class T>
  const T& get(const std::string& name) const;

  std::map<std::string, AttrValue> items_;
};

std::string to_string(const Attrs& attrs);  // "axis=1, ceil_mode=false"

}  // namespace ff
