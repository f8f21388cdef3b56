// Programs of tasks on Legion, where its plug-in was built: they compute what they compute task after task.
#include <chrono>
#include <future>
#include <thread>

#include "check.h"
#include "engines/plugins.h"
#include "programs.h"

namespace {

constexpr int kDevices = 4;

std::shared_ptr<ff::TaskRuntime> legion() {
  ff::EngineConfig config;
  config.devices = kDevices;
  return ff::open_runtime("legion", config);
}

bool absent() { return !ff::has_plugin("legion"); }

void expect_order(unsigned seed, int tasks, int runs) {
  programs::Drawn drawn(seed, kDevices, tasks);
  std::vector<std::vector<char>> expected = drawn.bytes();
  const auto loaded = legion()->load(drawn.program());
  for (int run = 0; run < runs; ++run) {
    loaded->run();
    drawn.run_in_order(expected);
    CHECK(drawn.bytes() == expected, "seed ", seed, ", run ", run);
    // Between two runs the memory belongs to the caller.
    drawn.bytes()[0][0] = expected[0][0] = static_cast<char>(run);
  }
}

// First of all: these are said before Legion starts.
TEST(legion_refuses_what_would_end_the_process) {
  if (absent()) return;
  const auto open = [](std::vector<std::string> flags) {
    ff::EngineConfig config;
    config.flags = std::move(flags);
    ff::open_runtime("legion", config);
  };
  CHECK_THROWS(open({"-ll:cpu", "0"}), "flag -ll:cpu got 0; expected 1 to 63");
  CHECK_THROWS(open({"-ll:cpu", "two"}), "flag -ll:cpu got \"two\"; expected a whole number");
  CHECK_THROWS(open({"-lg:no_tracing", "-ll:cpu"}), "flag -ll:cpu is the last word");
  CHECK_THROWS(open({"-ll:csize", "999999999"}), "asks for 1e+09 MiB of memory; this machine has");
  CHECK_THROWS(open({"-ll:csize", "1000t"}), "asks for 1.04858e+09 MiB of memory; this machine has");
  CHECK_THROWS(open({"-ll:py", "1"}), "flag -ll:py asks for a Python processor");
  CHECK_THROWS(open({"-ll:gpu", "63"}), "flag -ll:gpu asks for 63 GPUs");
  ff::EngineConfig config;
  config.device = "cuda";
  CHECK_THROWS(ff::open_runtime("legion", config), "no devices of kind \"cuda\"");
  config.device = "cpu";
  config.devices = -1;
  CHECK_THROWS(ff::open_runtime("legion", config), "devices = -1");
  CHECK(!ff::runtime_is_up());
}

TEST(legion_random_programs) {
  if (absent()) return;
  for (unsigned seed = 0; seed < 12; ++seed) expect_order(seed, 1 + static_cast<int>(seed) * 4, 100);
}

TEST(legion_programs_take_turns) {
  if (absent()) return;
  programs::Drawn one(100, kDevices, 20), other(101, kDevices, 30);
  auto expected = one.bytes(), expected_other = other.bytes();
  const auto loaded = legion()->load(one.program()), loaded_other = legion()->load(other.program());
  for (int run = 0; run < 60; ++run) {
    loaded->run();
    one.run_in_order(expected);
    if (run % 3 == 1) continue;
    loaded_other->run();
    other.run_in_order(expected_other);
    CHECK(one.bytes() == expected && other.bytes() == expected_other, "run ", run);
  }
}

TEST(legion_is_called_from_any_thread) {
  if (absent()) return;
  std::vector<std::future<void>> threads;
  for (unsigned seed = 200; seed < 204; ++seed)
    threads.push_back(std::async(std::launch::async, [seed] { expect_order(seed, 15, 30); }));
  for (auto& thread : threads) thread.get();
}

TEST(legion_starts_once) {
  if (absent()) return;
  (void)legion();
  ff::EngineConfig config;
  config.flags = {"-ll:cpu", "3"};
  CHECK_THROWS(ff::open_runtime("legion", config), "\"-ll:cpu 3\" come too late");
}

TEST(legion_tells_its_machine) {
  if (absent()) return;
  const auto runtime = legion();
  CHECK(runtime->machine().devices.size() == kDevices);
  CHECK(runtime->machine().share_memory(0, kDevices - 1));
  CHECK(runtime->description().find("4 cpu") != std::string::npos, runtime->description());
  CHECK(runtime->description().find("started") != std::string::npos, runtime->description());
}

// Tasks that do nothing, each with a range that it reads and one that it writes.
double microseconds_per_task(int devices, int tasks) {
  std::vector<char> bytes(64 * 1024);
  ff::TaskProgram program{{{"bytes", 0, bytes.data(), bytes.size()}}, {}, [](int, const std::vector<char*>&) {}};
  for (int t = 0; t < tasks; ++t) {
    const size_t begin = static_cast<size_t>(t % 128) * 256;
    program.tasks.push_back({t % devices, {{0, begin, begin + 256, false}, {0, begin + 32768, begin + 33024, true}}});
  }
  const auto loaded = legion()->load(std::move(program));
  for (int run = 0; run < 10; ++run) loaded->run();
  constexpr int kRuns = 50;
  const auto start = std::chrono::steady_clock::now();
  for (int run = 0; run < kRuns; ++run) loaded->run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / kRuns / tasks;
}

TEST(legion_launches) {
  if (absent()) return;
  for (const int tasks : {1, 10, 100, 400})
    for (const int devices : {1, 2})
      std::cout << "  " << tasks << " tasks on " << devices << " devices: " << microseconds_per_task(devices, tasks)
                << " us per task\n";
}

}  // namespace
