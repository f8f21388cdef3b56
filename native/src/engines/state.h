// What outlives plans: weights, optimizer state, running statistics, counters, and the inputs that were last written.
// Entries are found by name; plans resolve them to memory when they are loaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/machine.h"
#include "graph/rect.h"

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

// Several processes that each hold what lies on the devices of their node.
class Processes {
 public:
  virtual ~Processes() = default;
  virtual Machine machine() const = 0;
  // From the process of a device into the same memory of all others. All processes make the same calls in one order.
  virtual void broadcast(int device, void* data, size_t bytes) = 0;
};
// Throws an Error, in all processes, unless they have the same value.
void require_same(Processes& processes, uint64_t value, const std::string& what);
// What each process has got by itself, such as weights that were drawn: where it differs, all take that of the first.
void take_from_first(Processes& processes, void* data, size_t bytes);

class State {
 public:
  // What a device holds of a tensor.
  struct Piece {
    Shard shard;
    Memory memory;  // none: of a device of another process
  };

  struct Entry {
    TensorType type;  // of the whole
    std::vector<Piece> pieces;
    uint64_t version = 0;                            // changes whenever the value does
    bool ready = false;                              // has a value: drawn, written or computed
    bool touched = false;                            // written from outside or trained: not to be drawn anew
    std::shared_ptr<Processes> processes = nullptr;  // that share the pieces; none: all pieces are in this one

    // The memory of a tensor that lies whole in one place.
    void* data() const;
    bool is_whole() const { return processes == nullptr && pieces.size() == 1; }
    void* piece(const Shard& shard) const;  // nullptr: there is none here
    // The whole value, from the pieces and into all copies of them.
    void read(void* to) const;
    void write(const void* from);
    void clear();
    // Pieces that some process lacks; one of each rectangle.
    std::vector<const Piece*> scattered() const;
  };

  // From now on pieces are shared out among these processes; the ones of before.
  std::shared_ptr<Processes> share(std::shared_ptr<Processes> processes) {
    return std::exchange(processes_, std::move(processes));
  }
  Entry* find(const std::string& name);
  // The entry of that name and type, whole on the first device, made when there is none. It may shrink and grow (inputs
  // at another batch size); growing moves it and changes generation().
  Entry& entry(const std::string& name, const TensorType& type);
  // The entry in these pieces; what it held before is kept.
  Entry& entry(const std::string& name, const TensorType& type, const std::vector<Shard>& shards);
  // take_from_first of those that no process has shared out yet.
  void take_from_first(const std::vector<std::string>& names);
  void erase(const std::string& name);
  // Changes when memory moved: loaded plans then look their pointers up again.
  uint64_t generation() const { return generation_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::shared_ptr<Processes> processes_;
  std::map<std::string, Entry> entries_;
  uint64_t generation_ = 1;
};

}  // namespace ff
