// The entry of the plug-in, and the machine as Realm sees it.
#include <legion.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/limits.h"
#include "build_info.h"
#include "engines/legion/host.h"
#include "engines/legion/program.h"
#include "engines/tasks.h"

namespace ff::legion {
namespace {

const std::map<Legion::Processor::Kind, const char*> kProcessors = {
    {Legion::Processor::LOC_PROC, "cpu"},    {Legion::Processor::TOC_PROC, "gpu"},
    {Legion::Processor::UTIL_PROC, "util"},  {Legion::Processor::IO_PROC, "io"},
    {Legion::Processor::OMP_PROC, "openmp"}, {Legion::Processor::PY_PROC, "python"},
};

const std::map<Legion::Memory::Kind, const char*> kMemories = {
    {Legion::Memory::SYSTEM_MEM, "system"}, {Legion::Memory::REGDMA_MEM, "registered"},
    {Legion::Memory::GPU_FB_MEM, "gpu"},    {Legion::Memory::Z_COPY_MEM, "zero-copy"},
    {Legion::Memory::SOCKET_MEM, "socket"}, {Legion::Memory::GLOBAL_MEM, "global"},
};

int cpu_processors() {
  return static_cast<int>(Legion::Machine::ProcessorQuery(Legion::Machine::get_machine())
                              .only_kind(Legion::Processor::LOC_PROC)
                              .local_address_space()
                              .count());
}

std::string processors_text() {
  std::vector<std::string> parts;
  for (const auto& [kind, name] : kProcessors)
    if (const size_t n = Legion::Machine::ProcessorQuery(Legion::Machine::get_machine()).only_kind(kind).count(); n > 0)
      parts.push_back(cat(n, " ", name));
  return join(parts);
}

std::string memories_text() {
  std::vector<std::string> parts;
  for (const auto& [kind, name] : kMemories) {
    Legion::Machine::MemoryQuery memories(Legion::Machine::get_machine());
    memories.only_kind(kind);
    size_t bytes = 0;
    for (const Legion::Memory memory : memories) bytes += memory.capacity();
    if (bytes > 0) parts.push_back(cat(name, " ", bytes >> 20, " MiB"));
  }
  return join(parts);
}

class LegionRuntime : public TaskRuntime {
 public:
  explicit LegionRuntime(EngineConfig config) : config_(std::move(config)) {
    if (config_.devices == 0) config_.devices = cpu_processors();
    if (config_.threads == 0)
      config_.threads =
          std::max(1, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())) / config_.devices);
    config_.threads = std::min(config_.threads, omp_get_thread_limit());
  }

  void broadcast(int, void*, size_t) override {}
  Machine machine() const override {
    const Device device{.kind = config_.device,
                        .threads = config_.threads,
                        .memory = memory_limit() / config_.devices,
                        .node = 0,
                        .space = config_.shared_memory ? 0 : -1};
    return {std::vector<Device>(static_cast<size_t>(config_.devices), device)};
  }

  std::string description() const override {
    return cat("runtime: ", Legion::Runtime::get_legion_version(), " (Realm ", REALM_VERSION, "), ",
               Host::get().started() ? "started" : "joined",
               "\nnodes: ", Legion::Machine::get_machine().get_address_space_count(),
               "\nprocessors: ", processors_text(), "\nmemories: ", memories_text(), "\n");
  }

  std::unique_ptr<LoadedTasks> load(TaskProgram program) override {
    return std::make_unique<LegionTasks>(std::move(program));
  }

 private:
  EngineConfig config_;
};

void check(const EngineConfig& config) {
  constexpr int kMostDevices = 256, kMostThreads = 1024;
  if (config.device != "cpu" && config.device != "reference")
    bad_value("engine \"legion\" has no devices of kind \"", config.device, "\"; expected \"cpu\" or \"reference\"");
  if (config.devices < 0 || config.devices > kMostDevices)
    bad_value("engine \"legion\" got devices = ", config.devices, "; expected 0 (one for each CPU processor) to ",
              kMostDevices);
  if (config.threads < 0 || config.threads > kMostThreads)
    bad_value("engine \"legion\" got threads = ", config.threads, "; expected 0 (all cores) to ", kMostThreads);
}

std::shared_ptr<TaskRuntime> open(const EngineConfig& config) {
  if (const std::string found = Legion::Runtime::get_legion_version(); found != LEGION_VERSION)
    fail(ErrorKind::state, "libflexflow_legion.so was built for Legion ", LEGION_VERSION, ", and the one found is ",
         found, "; install the one it was built for, or build flexflow again with this one");
  check(config);
  Host::get().open(config);
  return std::make_shared<LegionRuntime>(config);
}

void close() { Host::get().close(); }

// Read from the file by who loads it.
[[gnu::used]] const char kBuiltFor[] = "FF_BUILT_FOR=" LEGION_VERSION;

}  // namespace
}  // namespace ff::legion

extern "C" __attribute__((visibility("default"))) const ff::TaskPlugin* ff_plugin() {
  static const ff::TaskPlugin plugin{FF_BUILD_ID, ff::legion::open, ff::legion::close};
  return &plugin;
}
