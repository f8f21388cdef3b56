#include "engines/legion/copies.h"

#include <legion.h>

#include <utility>

#include "base/error.h"

namespace ff::legion {
namespace {

std::map<int, size_t> reserved;  // by process, of all programs

size_t capacity(int process) {
  Legion::Machine::MemoryQuery memories(Legion::Machine::get_machine());
  size_t bytes = 0;
  for (const Legion::Memory memory : memories.only_kind(Legion::Memory::SYSTEM_MEM))
    if (static_cast<int>(memory.address_space()) == process) bytes += memory.capacity();
  return bytes;
}

}  // namespace

Copies::Copies(std::map<int, size_t> bytes) : bytes_(std::move(bytes)) {
  for (const auto& [process, needed] : bytes_) {
    const size_t all = capacity(process);
    // A part is lost between pieces.
    if (needed + reserved[process] > all - all / 8)
      fail(ErrorKind::memory, "rank ", process, " needs ", (needed + reserved[process]) >> 20,
           " MiB of Legion's memory for what it reads of other ranks, and has ", all >> 20,
           "; start with a larger -ll:csize (MiB), split the model otherwise, or take a smaller batch");
  }
  for (const auto& [process, needed] : bytes_) reserved[process] += needed;
}

Copies::~Copies() {
  for (const auto& [process, needed] : bytes_) reserved[process] -= needed;
}

}  // namespace ff::legion
