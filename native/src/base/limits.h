// What the machine and the system let this process have.
#pragma once

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace ff {

// Bytes of memory: the machine's, or what the process's control group allows.
inline int64_t memory_limit() {
  int64_t limit = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t group = 0;
    if (std::ifstream(path) >> group && group > 0) limit = std::min(limit, group);
  }
  return limit;
}

// Cores that this process may run on, which taskset or a batch system may have made fewer than the machine has.
inline int usable_cores() { return std::max(1, omp_get_num_procs()); }

}  // namespace ff
