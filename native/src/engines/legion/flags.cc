#include "engines/legion/flags.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/limits.h"
#include "base/ranks.h"
#include "engines/legion/network.h"

namespace ff::legion {
namespace {

using Words = std::vector<std::string>;

// A flag whose value Legion reads as a number, and the values that it can live with.
struct Number {
  const char* flag;
  int64_t least, most;
  const char* means;
};

constexpr int64_t kProcessors = 64;  // Legion's LEGION_MAX_NUM_PROCS, of all kinds together
constexpr int64_t kAny = int64_t{1} << 40;

const Number kNumbers[] = {
    {"-ll:cpu", 1, kProcessors - 1, "CPU processors; the tasks of FlexFlow need one at least"},
    {"-ll:util", 0, kProcessors - 1, "utility processors"},
    {"-ll:io", 0, kProcessors - 1, "processors for input and output"},
    {"-ll:ocpu", 0, kProcessors - 1, "OpenMP processors"},
    {"-ll:gpu", 0, kProcessors - 1, "GPUs"},
    {"-ll:py", 0, 1, "Python processors"},
    {"-ll:bgwork", 1, kAny, "background threads"},
    {"-ll:stacksize", 1, 1024, "MiB of stack of a task"},
    {"-lg:window", 1, kAny, "tasks under way"},
};

int64_t parse(const std::string& flag, const std::string& text, const char* means) {
  size_t used = 0;
  int64_t value = -1;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size())
    bad_value("flag ", flag, " got \"", text, "\"; expected a whole number (", means, ")");
  return value;
}

int64_t visible_gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int gpus = 0;
  return init != nullptr && count != nullptr && init(0) == 0 && count(&gpus) == 0 ? gpus : 0;
}

// MiB, or with a unit behind it: 512, 512m, 4g.
void check_memory(const std::string& flag, std::string text) {
  const std::string units = "kmgt";
  const size_t unit = text.empty() ? std::string::npos : units.find(static_cast<char>(std::tolower(text.back())));
  if (unit != std::string::npos) text.pop_back();
  const double megabytes = static_cast<double>(parse(flag, text, "MiB of memory")) *
                           (unit == std::string::npos ? 1 : std::pow(1024, static_cast<double>(unit) - 1));
  const int64_t most = memory_limit() >> 20;
  if (megabytes < 0 || megabytes > static_cast<double>(most))
    bad_value("flag ", flag, " asks for ", megabytes, " MiB of memory; this machine has ", most, " MiB");
}

// Realm ends the process where it has no such network, and without one each process would compute alone.
void check_network(const std::string& value) {
  const int count = ranks().count;
  const char* const network = network_of(count);
  if (network == nullptr || value == network) return;
  bad_value("flag -ll:networks got \"", value, "\" for ", count, " ranks; expected ", network, ", or leave it out");
}

void check(const std::string& flag, const std::string& value) {
  if (flag == "-ll:networks") check_network(value);
  if (flag == "-ll:csize" || flag == "-ll:rsize" || flag == "-ll:zsize") check_memory(flag, value);
  for (const Number& number : kNumbers) {
    if (flag != number.flag) continue;
    const int64_t given = parse(flag, value, number.means);
    if (given < number.least || given > number.most)
      bad_value("flag ", flag, " got ", given, "; expected ", number.least, " to ", number.most, " (", number.means,
                ")");
    if (flag == "-ll:gpu" && given > visible_gpus())
      bad_value("flag -ll:gpu asks for ", given, " GPUs; the CUDA driver of this machine shows ", visible_gpus());
    if (flag == "-ll:py" && given > 0)
      bad_value(
          "flag -ll:py asks for a Python processor, and in this process Python runs already. Leave the flag out, ",
          "or start the script with legion_python, whose Python processor runs it");
  }
}

bool has_value(const std::string& flag) {
  return flag == "-ll:networks" || flag == "-ll:csize" || flag == "-ll:rsize" || flag == "-ll:zsize" ||
         std::any_of(std::begin(kNumbers), std::end(kNumbers), [&](const Number& n) { return flag == n.flag; });
}

void check(const Words& words) {
  for (size_t w = 0; w < words.size(); ++w) {
    if (!has_value(words[w])) continue;
    if (w + 1 == words.size()) bad_value("flag ", words[w], " is the last word; expected a number after it");
    check(words[w], words[w + 1]);
    ++w;
  }
}

Words words_of(const char* variable) {
  std::istringstream text(std::getenv(variable) != nullptr ? std::getenv(variable) : "");
  Words words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::vector<std::string> command_line(const EngineConfig& config) {
  Words said = config.flags;
  for (const char* variable : {"REALM_DEFAULT_ARGS", "LEGION_DEFAULT_ARGS"})
    for (const std::string& word : words_of(variable)) said.push_back(word);
  check(said);

  Words line{"flexflow"};
  const auto unless_said = [&](const char* flag, const std::string& value) {
    if (std::find(said.begin(), said.end(), flag) != said.end()) return;
    line.push_back(flag);
    if (!value.empty()) line.push_back(value);
  };
  unless_said("-ll:cpu", std::to_string(std::clamp<int64_t>(config.devices / ranks().count, 1, kProcessors / 2)));
  unless_said("-ll:util", "1");
  unless_said("-ll:csize", std::to_string(std::min<int64_t>(512, memory_limit() >> 21)));
  // Kernels, and what oneDNN compiles, run on the stacks of tasks.
  unless_said("-ll:stacksize", "8");
  if (const char* network = network_of(ranks().count)) unless_said("-ll:networks", network);
  // Not what Realm says about a driver that is not there, nor Legion's hints to its own developers.
  unless_said("-level", "gpu=6,legion=5");
  // Legion's automatic traces beside explicit ones give wrong numbers, and long traces are slow without the other.
  unless_said("-lg:no_auto_tracing", "");
  unless_said("-lg:inline_transitive_reduction", "");
  line.insert(line.end(), config.flags.begin(), config.flags.end());
  return line;
}

}  // namespace ff::legion
