#include "engines/legion/network.h"

#include <dlfcn.h>
#include <legion.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/ranks.h"
#include "engines/legion/rendezvous.h"

namespace ff::legion {
namespace {

void unless_set(const char* name, const std::string& value) { setenv(name, value.c_str(), 0); }

std::string file_of(void* function) {
  Dl_info info;
  FF_CHECK(dladdr(function, &info) != 0);
  return std::filesystem::weakly_canonical(info.dli_fname);
}

std::string text_of(const char* name) {
  const char* text = variable(name);
  return text == nullptr ? "" : text;
}

// Realm would end the process where it cannot load it.
void check_wrapper(const std::string& path) {
  if (dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr)
    fail(ErrorKind::state, "this process was started as one of several by MPI, and ", dlerror(),
         "; put the folder of that MPI's libraries into LD_LIBRARY_PATH, or start with python -m flexflow launch");
}

bool on_one_machine(const Ranks& ranks) {
  if (!ranks.ours) return text_of("OMPI_COMM_WORLD_LOCAL_SIZE") == std::to_string(ranks.count);
  const std::string root = text_of("FLEXFLOW_ROOT");
  return root.rfind("127.", 0) == 0 || root.rfind("localhost:", 0) == 0;
}

}  // namespace

const char* network_of(int processes) {
#if defined(REALM_USE_UCX)
  return processes > 1 ? "ucx" : "none";
#elif defined(REALM_USE_GASNET1) || defined(REALM_USE_GASNETEX) || defined(REALM_USE_MPI)
  return nullptr;
#else
  if (processes > 1)
    fail(ErrorKind::state, processes, " ranks were started, and this Legion (", LEGION_VERSION,
         ") was built without a network; use one with UCX or GASNet, such as that of legate 26.1.0");
  return "none";
#endif
}

void set_up_network() {
  const Ranks ranks = ff::ranks();
  if (ranks.count <= 1) return;
  // Without the wrappers of a wheel, Realm finds its own plug-in for MPI.
  const std::filesystem::path wrappers =
      std::filesystem::path(file_of(reinterpret_cast<void*>(&Realm::Processor::get_current_finish_event)))
          .parent_path() /
      "legate/wrapper";
  const std::filesystem::path wrapper =
      wrappers / (text_of("OMPI_COMM_WORLD_RANK").empty() ? "librealm_ucp_bootstrap_mpi_mpich.so"
                                                          : "librealm_ucp_bootstrap_mpi_ompi.so");
  const std::string own = file_of(reinterpret_cast<void*>(&set_up_network));
  unless_set("REALM_UCP_BOOTSTRAP_MODE", ranks.ours ? "plugin" : "mpi");
  if (ranks.ours)
    unless_set("REALM_UCP_BOOTSTRAP_PLUGIN", own);
  else if (std::filesystem::exists(wrapper))
    unless_set("REALM_UCP_BOOTSTRAP_PLUGIN", wrapper);
  if (on_one_machine(ranks)) {
    // Realm copies through shared memory there; what remains are small messages.
    unless_set("UCX_TLS", "tcp,self");
    unless_set("UCX_NET_DEVICES", "lo");
  }
#ifdef REALM_USE_UCX
  if (text_of("REALM_UCP_BOOTSTRAP_MODE") == "mpi") check_wrapper(text_of("REALM_UCP_BOOTSTRAP_PLUGIN"));
  if (text_of("REALM_UCP_BOOTSTRAP_PLUGIN") == own) meet();
#endif
}

}  // namespace ff::legion
