#include "engines/state.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>

#include "base/error.h"

namespace ff {

namespace {

// The first process that has another value than process 0, in all of them; -1: there is none.
int first_other(Processes& processes, uint64_t value) {
  const Machine machine = processes.machine();
  std::map<int, uint64_t> values;  // by node
  for (size_t d = 0; d < machine.devices.size(); ++d) {
    const auto [it, first] = values.try_emplace(machine.devices[d].node, value);
    if (first) processes.broadcast(static_cast<int>(d), &it->second, sizeof(value));
  }
  for (const auto& [node, theirs] : values)
    if (theirs != values.begin()->second) return node;
  return -1;
}

uint64_t digest(const void* data, size_t bytes) {
  return std::hash<std::string_view>()({static_cast<const char*>(data), bytes});
}

}  // namespace

void require_same(Processes& processes, uint64_t value, const std::string& what) {
  if (const int node = first_other(processes, value); node >= 0)
    fail(ErrorKind::state, "rank ", node, " has another ", what, " than rank 0; all ranks must run the same script ",
         "with the same models, options, seeds and data, and make the same calls in one order");
}

void take_from_first(Processes& processes, void* data, size_t bytes) {
  if (first_other(processes, digest(data, bytes)) >= 0) processes.broadcast(0, data, bytes);
}

Memory::Memory(size_t bytes) : size_(bytes) {
  constexpr size_t kAlignment = 64, kHugePage = 2 << 20;
  const bool huge = bytes >= 2 * kHugePage;
  const size_t alignment = huge ? kHugePage : kAlignment;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  data_.reset(std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded));
  if (data_ == nullptr) fail(ErrorKind::memory, "out of memory: ", bytes, " bytes were asked for");
  // Kernels walk through large memory in strides, and pay for each small page.
  if (huge) madvise(data_.get(), rounded, MADV_HUGEPAGE);
  std::memset(data_.get(), 0, rounded);
}

void Memory::Free::operator()(void* pointer) const { std::free(pointer); }

void* State::Entry::data() const {
  FF_CHECK(pieces.size() == 1 && volume(pieces[0].shard.rect) == type.numel(), "a tensor in ", pieces.size(),
           " pieces");
  return pieces[0].memory.data();
}

void* State::Entry::piece(const Shard& shard) const {
  for (const Piece& piece : pieces)
    if (piece.shard == shard) return piece.memory.data();
  return nullptr;
}

std::vector<const State::Piece*> State::Entry::scattered() const {
  if (processes == nullptr) return {};
  const Machine machine = processes->machine();
  std::set<int> nodes;
  for (const Device& device : machine.devices) nodes.insert(device.node);
  std::vector<std::pair<const Piece*, std::set<int>>> holders;  // the first piece of each rectangle, and where it is
  for (const Piece& piece : pieces) {
    auto it = std::find_if(holders.begin(), holders.end(),
                           [&](const auto& holder) { return holder.first->shard.rect == piece.shard.rect; });
    if (it == holders.end()) it = holders.insert(it, {&piece, {}});
    it->second.insert(machine.devices[piece.shard.device].node);
  }
  std::vector<const Piece*> found;
  for (const auto& [piece, where] : holders)
    if (where != nodes) found.push_back(piece);
  return found;
}

void State::Entry::read(void* to) const {
  const auto take = [&](const Rect& rect, const void* from) {
    copy_rect(rect, size_of(type.dtype), from, rect, to, whole_of(type.shape));
  };
  for (const Piece& piece : pieces)
    if (piece.memory.data() != nullptr) take(piece.shard.rect, piece.memory.data());
  for (const Piece* piece : scattered()) {
    Memory sent(static_cast<size_t>(volume(piece->shard.rect)) * size_of(type.dtype));
    if (piece->memory.data() != nullptr) std::memcpy(sent.data(), piece->memory.data(), sent.size());
    processes->broadcast(piece->shard.device, sent.data(), sent.size());
    take(piece->shard.rect, sent.data());
  }
}

void State::Entry::write(const void* from) {
  for (const Piece& piece : pieces)
    if (piece.memory.data() != nullptr)
      copy_rect(piece.shard.rect, size_of(type.dtype), from, whole_of(type.shape), piece.memory.data(),
                piece.shard.rect);
}

void State::Entry::clear() {
  for (const Piece& piece : pieces)
    if (piece.memory.data() != nullptr) std::memset(piece.memory.data(), 0, piece.memory.size());
}

State::Entry* State::find(const std::string& name) {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

State::Entry& State::entry(const std::string& name, const TensorType& type) {
  Entry& entry = entries_[name];
  if ((entry.pieces.size() > 1 || entry.processes != nullptr) && entry.type == type) return entry;
  entry.processes = nullptr;
  if (entry.pieces.size() != 1) entry.pieces.resize(1);
  Piece& piece = entry.pieces.front();
  if (piece.memory.size() < type.bytes() || piece.memory.data() == nullptr) {
    piece.memory = Memory(type.bytes());
    ++generation_;
  }
  piece.shard = {whole_of(type.shape), piece.shard.device};
  entry.type = type;
  return entry;
}

State::Entry& State::entry(const std::string& name, const TensorType& type, const std::vector<Shard>& shards) {
  Entry& entry = entries_[name];
  const bool as_wanted = entry.type == type && entry.processes == processes_ &&
                         std::equal(entry.pieces.begin(), entry.pieces.end(), shards.begin(), shards.end(),
                                    [](const Piece& piece, const Shard& shard) { return piece.shard == shard; });
  if (as_wanted) return entry;
  std::vector<Piece> pieces;
  for (const Shard& shard : shards) {
    const size_t bytes = static_cast<size_t>(volume(shard.rect)) * size_of(type.dtype);
    const bool here = processes_ == nullptr || processes_->machine().is_here(shard.device);
    pieces.push_back({shard, here ? Memory(bytes) : Memory()});
  }
  std::vector<char> value;
  if (!entry.pieces.empty() && entry.type == type) {
    value.resize(type.bytes());
    entry.read(value.data());
  }
  entry.pieces = std::move(pieces);
  entry.type = type;
  entry.processes = processes_;
  if (!value.empty()) entry.write(value.data());
  ++generation_;
  return entry;
}

void State::take_from_first(const std::vector<std::string>& names) {
  std::vector<Entry*> own;
  std::vector<uint64_t> digests;
  std::vector<char> value;
  const auto read = [&](const Entry& entry) {
    value.resize(entry.type.bytes());
    entry.read(value.data());
  };
  for (const std::string& name : names) {
    Entry* const entry = find(name);
    if (entry == nullptr || entry->processes != nullptr) continue;
    read(*entry);
    own.push_back(entry);
    digests.push_back(digest(value.data(), value.size()));
  }
  if (first_other(*processes_, digest(digests.data(), digests.size() * sizeof(uint64_t))) < 0) return;
  for (Entry* const entry : own) {
    read(*entry);
    processes_->broadcast(0, value.data(), value.size());
    entry->write(value.data());
  }
}

void State::erase(const std::string& name) {
  if (entries_.erase(name) != 0) ++generation_;
}

}  // namespace ff
