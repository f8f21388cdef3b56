#include "engines/plugins.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/ranks.h"
#include "build_info.h"

namespace ff {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp =
    "install the one that it was built for (pip install --no-deps -r tools/requirements/legion.txt), or build flexflow "
    "again with FF_LEGION=ON and LEGION_HOME naming yours";

std::mutex mutex;
std::map<std::string, const TaskPlugin*> loaded;
bool started_here = false;

fs::path own_folder() {
  Dl_info info;
  FF_CHECK(dladdr(reinterpret_cast<void*>(&has_plugin), &info) != 0);
  return fs::weakly_canonical(info.dli_fname).parent_path();
}

// The path of a file that belongs to this library; empty when it is not there.
std::string beside(const std::string& file) {
  for (const fs::path& folder : {own_folder(), own_folder() / "flexflow"})
    if (fs::exists(folder / file)) return (folder / file).string();
  return "";
}

std::string plugin_file(const std::string& name) { return "libflexflow_" + name + ".so"; }

// A library of this soname satisfies what is loaded after it, so no LD_LIBRARY_PATH is needed.
void provide_driver() {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
  if (const std::string stub = beside("libflexflow_nocuda.so"); !stub.empty())
    (void)dlopen(stub.c_str(), RTLD_NOW | RTLD_LOCAL);
}

// A variable of the environment for as long as this lives, unless the user has set it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(std::getenv(name) == nullptr ? name : nullptr) {
    if (name_ != nullptr) setenv(name_, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (name_ != nullptr) unsetenv(name_);
  }

 private:
  const char* name_;
};

// The Legion that a plug-in was built for, which it holds as text, so that it can be known before it is loaded.
std::string built_for(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string mark = cat("FF_BUILT", "_FOR=");  // in two, or this library would hold it as well
  const size_t at = bytes.find(mark);
  return at == std::string::npos ? "" : bytes.c_str() + at + mark.size();
}

struct Legion {
  std::string path, version;
};

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// Fills in a Legion when it is in this library, or in the program itself (RTLD_DEFAULT), and its runtime is up.
bool find_runtime(void* library, Legion& found) {
  const auto is_up = symbol<bool()>(library, "legion_runtime_has_runtime");
  if (is_up == nullptr || !is_up()) return false;
  Dl_info info;
  found.path = dladdr(reinterpret_cast<void*>(is_up), &info) != 0 ? info.dli_fname : "the program";
  const auto version = symbol<const char*()>(library, "_ZN6Legion7Runtime18get_legion_versionEv");
  found.version = version == nullptr ? "unknown" : version();
  return true;
}

// Legion's libraries that are loaded, under whichever name.
std::vector<std::string> legion_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        const std::string path = info->dlpi_name;
        if (fs::path(path).filename().string().rfind("liblegion", 0) == 0)
          static_cast<std::vector<std::string>*>(found)->push_back(path);
        return 0;
      },
      &paths);
  return paths;
}

// The Legion whose runtime is up in this process; no path: there is none.
Legion running_legion() {
  Legion found;
  if (find_runtime(RTLD_DEFAULT, found)) return found;
  for (const std::string& path : legion_libraries()) {
    void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    const bool up = library != nullptr && find_runtime(library, found);
    if (library != nullptr) dlclose(library);
    if (up) break;
  }
  return found;
}

// A forked child has the memory of its parent's runtime and none of its threads.
bool up_at_fork = false, inherited = false;
const int fork_guard =
    pthread_atfork([] { up_at_fork = !running_legion().path.empty(); }, nullptr, [] { inherited = up_at_fork; });

const TaskPlugin& find_plugin(const std::string& name) {
  if (inherited)
    fail(ErrorKind::state,
         "this process was forked from one whose Legion runtime was running, and has none: use engine ",
         "\"local\", or start the process anew (multiprocessing: method \"spawn\")");
  if (const auto it = loaded.find(name); it != loaded.end()) return *it->second;
  const std::string path = beside(plugin_file(name));
  if (path.empty())
    fail(ErrorKind::state, "engine \"", name, "\" needs ", plugin_file(name), ", and there is none in ",
         own_folder().string(), ": this flexflow was built without it. Build it where Legion is installed, with ",
         "FF_LEGION=ON, or use engine \"local\"");
  const Legion running = running_legion();
  if (const std::string version = built_for(path); !running.path.empty() && running.version != version)
    fail(ErrorKind::state, "this process runs Legion ", running.version, " (", running.path, "), and ", path,
         " was built for Legion ", version, "; ", kHelp);
  provide_driver();
  // Libraries of a network read it while they are loaded; warnings about their own versions help nobody.
  if (ranks().count > 1) setenv("UCX_LOG_LEVEL", "error", 0);
  started_here = running.path.empty();
  return *(loaded[name] = &load_plugin(path));
}

}  // namespace

bool has_plugin(const std::string& name) { return !beside(plugin_file(name)).empty(); }

const TaskPlugin& checked_plugin(const TaskPlugin& plugin, const std::string& path) {
  if (plugin.build != std::string(FF_BUILD_ID))
    fail(ErrorKind::state, path, " is of build ", plugin.build, ", and the library that loads it of build ",
         FF_BUILD_ID, "; build or install both together");
  return plugin;
}

const TaskPlugin& load_plugin(const std::string& path) {
  // UCX takes over signals as it is loaded, which are the program's.
  const Variable errors("UCX_HANDLE_ERRORS", "none"), debugging("UCX_DEBUG_SIGNO", "0");
  // Local: another library of this process may bring a Legion of its own.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string why = dlerror(), version = built_for(path);
    fail(ErrorKind::state, "cannot load ", path, ": ", why, ". It was built for Legion ",
         version.empty() ? "unknown" : version, "; ", kHelp);
  }
  const auto entry = symbol<const TaskPlugin*()>(library, "ff_plugin");
  if (entry == nullptr) fail(ErrorKind::state, path, " is no plug-in of flexflow: it has no ff_plugin()");
  return checked_plugin(*entry(), path);
}

std::shared_ptr<TaskRuntime> open_runtime(const std::string& name, const EngineConfig& config) {
  const std::lock_guard lock(mutex);
  return find_plugin(name).open(config);
}

bool runtime_is_up() {
  const std::lock_guard lock(mutex);
  return !inherited && !started_here && !running_legion().path.empty();
}

bool runtime_is_ours() {
  const std::lock_guard lock(mutex);
  return !inherited && started_here && !running_legion().path.empty();
}

void close_runtimes() {
  const std::lock_guard lock(mutex);
  for (const auto& [name, plugin] : loaded) plugin->close();
}

}  // namespace ff
