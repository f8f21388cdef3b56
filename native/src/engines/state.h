// What outlives plans: weights, optimizer state, running statistics, counters, and the inputs that were last written.
// Entries are found by name; plans resolve them to memory when they are loaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "graph/tensor.h"

namespace ff {

// Zeroed memory, aligned for any vector unit.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  void* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* pointer) const;
  };
  std::unique_ptr<void, Free> data_;
  size_t size_ = 0;
};

class State {
 public:
  struct Entry {
    TensorType type;
    Memory memory;
    uint64_t version = 0;  // changes whenever the value does
    bool ready = false;    // has a value: drawn, written or computed
    bool touched = false;  // written from outside or trained: not to be drawn anew
  };

  Entry* find(const std::string& name);
  // The entry of that name and type, made when there is none. An entry may shrink and grow (inputs at another batch
  // size); growing moves it and changes generation().
  Entry& entry(const std::string& name, const TensorType& type);
  void erase(const std::string& name);
  // Changes when memory moved: loaded plans then look their pointers up again.
  uint64_t generation() const { return generation_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
  uint64_t generation_ = 1;
};

}  // namespace ff
