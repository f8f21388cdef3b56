#include "search/measured.h"

#include <set>

#include "base/error.h"

namespace ff {
namespace {

constexpr size_t kLongest = 160;  // text of an attribute that is kept as it is

// FNV-1a, 64 bits: the same in all processes, which std::hash need not be.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

std::string shortened(const std::string& text) { return text.size() <= kLongest ? text : cat("#", hash_of(text)); }

void add_tensors(std::ostringstream& out, const std::vector<TensorType>& types, const std::vector<Layout>& layouts) {
  for (size_t i = 0; i < types.size(); ++i) {
    out << (i > 0 ? " " : "") << to_string(types[i]);
    if (i < layouts.size() && !layouts[i].dense()) out << "@" << layouts[i].name();
  }
}

}  // namespace

std::optional<double> CostTable::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = seconds_.find(key);
  return it == seconds_.end() ? std::nullopt : std::optional(it->second);
}

void CostTable::set(const std::string& key, double seconds) {
  const std::lock_guard lock(mutex_);
  seconds_[key] = seconds;
}

std::map<std::string, double> CostTable::all() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

std::string cost_key(const OpCall& call, const Layouts& layouts, const std::string& device, int threads, bool cold) {
  static const std::set<std::string> kIdle = {"stream", "seed"};
  std::ostringstream out;
  out << call.op << "(";
  add_tensors(out, call.inputs, layouts.inputs);
  out << ") -> ";
  add_tensors(out, call.outputs, layouts.outputs);
  for (const auto& [name, value] : call.attrs)
    if (kIdle.count(name) == 0) out << "; " << name << "=" << shortened(to_string(value));
  for (const IndexRange& range : call.box)
    if (!range.whole()) out << "; " << range.name << " " << range.extent << " of " << range.global;
  out << "; " << device << " x" << threads << (cold ? "; cold" : "");
  return out.str();
}

double Measured::find(const OpCall& call, const Layouts& layouts, int device, int threads, bool cold) const {
  const std::string& kind = machine_.devices[device].kind;
  const std::string key = cost_key(call, layouts, kind, threads, cold);
  if (const auto known = table_.find(key)) return *known;
  const std::optional<double> seconds = timer_(call, layouts, kind, threads, cold);
  if (seconds)
    table_.set(key, *seconds);
  else
    ++unknown_;
  return seconds.value_or(0);
}

}  // namespace ff
