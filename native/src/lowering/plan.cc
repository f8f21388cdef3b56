#include "lowering/plan.h"

#include <algorithm>
#include <iomanip>

#include "base/error.h"

namespace ff {
namespace {

std::string buffer_text(const Plan& plan, BufferId id) {
  if (id < 0) return "_";
  const Buffer& buffer = plan.buffers[id];
  std::string text = cat("%", id, ":", to_string(buffer.type));
  if (plan.machine.devices.size() > 1) text += cat("@", buffer.device);
  if (!buffer.layout.dense()) text += "{" + buffer.layout.name() + "}";
  if (buffer.alias >= 0) text += cat("=%", buffer.alias);
  return text;
}

std::string size_text(size_t bytes) {
  std::ostringstream out;
  if (bytes < 10000)
    out << bytes << " B";
  else
    out << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return out.str();
}

}  // namespace

const char* name_of(Storage storage) {
  constexpr const char* kNames[] = {"state", "input", "pinned", "temporary"};
  return kNames[static_cast<size_t>(storage)];
}

std::map<std::string, StateLayout> states_of(const Plan& plan) {
  std::map<std::string, StateLayout> states;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.storage != Storage::state || buffer.alias >= 0) continue;
    StateLayout& state = states[buffer.name];
    state.type = {buffer.type.dtype, buffer.whole};
    state.initializer = buffer.initializer;
    state.shards.push_back({buffer.piece, buffer.device});
  }
  return states;
}

std::string to_string(const Plan& plan) {
  std::ostringstream out;
  for (size_t d = 0; d < plan.machine.devices.size(); ++d)
    out << "device " << d << ": " << plan.machine.devices[d].kind << ", arena " << plan.arena[d] << " B, scratch "
        << plan.scratch[d] << " B\n";
  for (size_t id = 0; id < plan.buffers.size(); ++id) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.alias >= 0 || buffer.storage == Storage::temporary) continue;
    out << name_of(buffer.storage) << " " << buffer_text(plan, static_cast<BufferId>(id)) << " \"" << buffer.name
        << "\"";
    if (buffer.type.shape != buffer.whole && buffer.storage == Storage::state)
      out << " " << to_string(buffer.piece) << " of " << to_string(buffer.whole);
    out << "\n";
  }
  Section section{};
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    if (s == 0 || step.section != section) out << name_of(section = step.section) << ":\n";
    std::vector<std::string> in, made;
    for (const BufferId id : step.inputs) in.push_back(cat("%", id));
    for (const BufferId id : step.outputs) made.push_back(buffer_text(plan, id));
    const std::string attrs = to_string(step.call.attrs);
    if (plan.machine.devices.size() > 1) out << "  " << s << " @" << step.device;
    out << "  " << join(made) << " = " << step.call.op << "(" << join(in) << ")" << (attrs.empty() ? "" : " ") << attrs;
    if (step.fresh_with >= 0) out << " unless %" << step.fresh_with << " is unchanged";
    for (const Wait& wait : step.waits) out << " after " << wait.step << "@" << wait.device;
    out << "  # " << step.call.name << "\n";
  }
  for (const auto& [name, id] : plan.results) out << "result \"" << name << "\" = %" << id << "\n";
  return out.str();
}

namespace {

// What a plan needs on one device.
struct Needs {
  size_t by_kind[4] = {0, 0, 0, 0};
  size_t scratch = 0;
  std::vector<const Buffer*> largest;

  Needs(const Plan& plan, int device) : scratch(plan.scratch[device]) {
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.alias >= 0 || buffer.device != device) continue;
      largest.push_back(&buffer);
      if (buffer.storage != Storage::temporary) by_kind[static_cast<size_t>(buffer.storage)] += buffer.bytes;
    }
    by_kind[static_cast<size_t>(Storage::temporary)] = plan.arena[device];
    std::stable_sort(largest.begin(), largest.end(),
                     [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
    if (largest.size() > 5) largest.resize(5);
  }

  size_t total() const { return by_kind[0] + by_kind[1] + by_kind[2] + by_kind[3] + scratch; }
};

std::string line_of(const Buffer& buffer) {
  return cat(size_text(buffer.bytes), "  ", buffer.name, " ", to_string(buffer.type), " (", name_of(buffer.storage),
             ")");
}

}  // namespace

size_t bytes_needed(const Plan& plan, int device) { return Needs(plan, device).total(); }

std::string memory_report(const Plan& plan) {
  std::ostringstream out;
  for (size_t d = 0; d < plan.machine.devices.size(); ++d) {
    const Needs needs(plan, static_cast<int>(d));
    out << "device " << d << " (" << plan.machine.devices[d].kind << ")\n";
    out << "  state " << size_text(needs.by_kind[0]) << ", inputs " << size_text(needs.by_kind[1]) << ", pinned "
        << size_text(needs.by_kind[2]) << ", arena " << size_text(needs.by_kind[3]) << ", scratch "
        << size_text(needs.scratch) << ", total " << size_text(needs.total()) << "\n";
    for (const Buffer* buffer : needs.largest) out << "  " << line_of(*buffer) << "\n";
  }
  return out.str();
}

void check_memory(const Plan& plan) {
  for (size_t d = 0; d < plan.machine.devices.size(); ++d) {
    const Needs needs(plan, static_cast<int>(d));
    const auto memory = static_cast<size_t>(plan.machine.devices[d].memory);
    if (memory == 0 || needs.total() <= memory) continue;
    std::vector<std::string> lines;
    for (const Buffer* buffer : needs.largest) lines.push_back(line_of(*buffer));
    fail(ErrorKind::memory, "a step needs ", size_text(needs.total()), " on device ", d, ", which has ",
         size_text(memory), "; a smaller batch or model may fit. The largest tensors:\n  ", join(lines, "\n  "));
  }
}

}  // namespace ff
