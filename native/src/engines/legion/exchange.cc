#include "engines/legion/exchange.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace ff::legion {

Exchange::Exchange() {
  const Legion::Machine machine = Legion::Machine::get_machine();
  for (size_t r = 0; r < machine.get_address_space_count(); ++r)
    machine_.devices.push_back(Device{.kind = "", .node = static_cast<int>(r), .space = -1});
  machine_.node =
      static_cast<int>(Legion::Machine::ProcessorQuery(machine).local_address_space().first().address_space());
}

Exchange::Channel& Exchange::channel(int from, size_t bytes) {
  constexpr size_t kSizes[] = {64, 64 << 10, 4 << 20};
  size_t size = 0;
  for (const size_t s : kSizes)
    if (size < bytes) size = s;
  Channel& channel = channels_[{from, size}];
  if (channel.tasks != nullptr) return channel;
  if (from == here()) channel.memory.resize(size);
  TaskProgram program;
  program.memories.push_back(
      {cat("what rank ", from, " sends"), from, from == here() ? channel.memory.data() : nullptr, size});
  program.tasks.push_back({from, {{0, 0, size, true}}});
  for (int r = 0; r < processes(); ++r)
    if (r != from) program.tasks.push_back({r, {{0, 0, size, false}}});
  program.body = [&channel](int task, const std::vector<char*>& addresses) {
    if (task == 0)
      std::memcpy(addresses[0], channel.data, channel.bytes);
    else
      std::memcpy(channel.data, addresses[0], channel.bytes);
  };
  channel.tasks = std::make_unique<LegionTasks>(std::move(program), machine_);
  return channel;
}

void Exchange::broadcast(int from, void* data, size_t bytes) {
  for (size_t done = 0; done < bytes && processes() > 1;) {
    Channel& channel = this->channel(from, bytes - done);
    constexpr size_t kMost = 4 << 20;
    channel.data = static_cast<char*>(data) + done;
    channel.bytes = std::min(bytes - done, kMost);
    channel.tasks->run();
    done += channel.bytes;
  }
}

std::vector<uint64_t> Exchange::gather(uint64_t value) {
  std::vector<uint64_t> values(machine_.devices.size(), value);
  for (int r = 0; r < processes(); ++r) broadcast(r, &values[r], sizeof(value));
  return values;
}

}  // namespace ff::legion
