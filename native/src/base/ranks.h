// The processes that run one program together, as who started them says in the environment.
#pragma once

#include <cstdlib>

namespace ff {

struct Ranks {
  int rank = 0, count = 1;  // of this process, and how many there are
  bool ours = false;        // started by us, or told in our own variables; else by an mpirun
};

// FLEXFLOW_RANK and FLEXFLOW_RANKS, or else what the mpirun of Open MPI or MPICH sets.
inline Ranks ranks() {
  constexpr const char* kNames[][2] = {
      {"FLEXFLOW_RANK", "FLEXFLOW_RANKS"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, count] : kNames)
    if (std::getenv(rank) != nullptr && std::getenv(count) != nullptr)
      return {std::atoi(std::getenv(rank)), std::atoi(std::getenv(count)), rank == kNames[0][0]};
  return {};
}

}  // namespace ff
