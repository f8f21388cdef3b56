#include "engines/state.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace ff {

Memory::Memory(size_t bytes) : size_(bytes) {
  constexpr size_t kAlignment = 64;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  data_.reset(std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded));
  if (data_ == nullptr) fail(ErrorKind::memory, "out of memory: ", bytes, " bytes were asked for");
  std::memset(data_.get(), 0, rounded);
}

void Memory::Free::operator()(void* pointer) const { std::free(pointer); }

State::Entry* State::find(const std::string& name) {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

State::Entry& State::entry(const std::string& name, const TensorType& type) {
  Entry& entry = entries_[name];
  if (entry.memory.size() < type.bytes() || entry.memory.data() == nullptr) {
    entry.memory = Memory(type.bytes());
    ++generation_;
  }
  entry.type = type;
  return entry;
}

void State::erase(const std::string& name) {
  if (entries_.erase(name) != 0) ++generation_;
}

}  // namespace ff
