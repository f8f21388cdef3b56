#include "engines/legion/legate.h"

#include <dlfcn.h>
#include <link.h>

#include <string>

namespace ff::legion {
namespace {

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// Python loads it for itself alone, so its names are not among those of the program.
void* find_legate() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* path) {
        const std::string name = info->dlpi_name;
        if (name.find("/liblegate.so") == std::string::npos) return 0;
        *static_cast<std::string*>(path) = name;
        return 1;
      },
      &path);
  return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace

bool before_legate_ends(std::function<void()> callback) {
  void* const legate = find_legate();
  if (legate == nullptr) return false;
  // legate::Runtime::get_runtime() and its register_shutdown_callback(), whose headers want CUDA's.
  const auto runtime = symbol<void*()>(legate, "_ZN6legate7Runtime11get_runtimeEv");
  const auto add = symbol<void(void*, std::function<void()>)>(
      legate, "_ZN6legate7Runtime27register_shutdown_callback_ESt8functionIFvvEE");
  if (runtime == nullptr || add == nullptr) return false;
  add(runtime(), std::move(callback));
  return true;
}

}  // namespace ff::legion
