// The entry of the plug-in, and the machine as Realm sees it.
#include <legion.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/limits.h"
#include "build_info.h"
#include "engines/legion/exchange.h"
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

// An equal part of the machine's cores for each process there, and no more than a batch system lets this one have.
int threads_per_device(int devices, int neighbours) {
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, std::min(usable_cores(), all / neighbours) / devices);
}

uint64_t this_machine() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return std::hash<std::string>()(name);
}

class LegionRuntime : public TaskRuntime {
 public:
  explicit LegionRuntime(const EngineConfig& config) {
    const int processes = exchange_.processes();
    const int devices = config.devices == 0 ? cpu_processors() : config.devices / processes;
    if (devices == 0 || (config.devices != 0 && config.devices % processes != 0))
      bad_value("engine \"legion\" got devices = ", config.devices, " for ", processes,
                " ranks; expected a multiple of that, since each rank has as many");
    const std::vector<uint64_t> machines = exchange_.gather(this_machine());
    const auto neighbours = static_cast<int>(std::count(machines.begin(), machines.end(), machines[exchange_.here()]));
    const int threads = config.threads == 0 ? threads_per_device(devices, neighbours) : config.threads;
    const std::vector<uint64_t> counts = exchange_.gather(std::min(threads, omp_get_thread_limit()));
    const std::vector<uint64_t> memories = exchange_.gather(memory_limit() / (devices * neighbours));
    for (int r = 0; r < processes; ++r)
      for (int d = 0; d < devices; ++d)
        machine_.devices.push_back({.kind = config.device,
                                    .threads = static_cast<int>(counts[r]),
                                    .memory = static_cast<int64_t>(memories[r]),
                                    .node = r,
                                    .space = config.shared_memory ? r : -1});
    machine_.node = exchange_.here();
  }

  void broadcast(int device, void* data, size_t bytes) override {
    exchange_.broadcast(machine_.devices[device].node, data, bytes);
  }
  Machine machine() const override { return machine_; }

  std::string description() const override {
    return cat("runtime: ", Legion::Runtime::get_legion_version(), " (Realm ", REALM_VERSION, "), ",
               Host::get().started() ? "started" : "joined",
               "\nnodes: ", Legion::Machine::get_machine().get_address_space_count(),
               "\nprocessors: ", processors_text(), "\nmemories: ", memories_text(), "\n");
  }

  std::unique_ptr<LoadedTasks> load(TaskProgram program) override {
    return std::make_unique<LegionTasks>(std::move(program), machine_);
  }

 private:
  Exchange exchange_;
  Machine machine_;
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
