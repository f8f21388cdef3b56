// The processes that run one program together, as who started them says in the environment.
#pragma once

#include <cstdlib>

#include "base/error.h"

namespace ff {

struct Ranks {
  int rank = 0, count = 1;  // of this process, and how many there are
  bool ours = false;        // started by us, or told in our own variables; else by an mpirun
};

// The value of a variable that is set.
inline int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 0 || value > 1 << 24)
    bad_value(variable, " is \"", text, "\"; expected a whole number");
  return static_cast<int>(value);
}

// FLEXFLOW_RANK and FLEXFLOW_RANKS, or else what the mpirun of Open MPI or MPICH sets. Throws an Error where they make
// no sense: each process would train alone, or wait for others that never come.
inline Ranks ranks() {
  constexpr const char* kNames[][2] = {
      {"FLEXFLOW_RANK", "FLEXFLOW_RANKS"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, count] : kNames) {
    const bool ours = rank == kNames[0][0], has_rank = std::getenv(rank) != nullptr;
    const bool has_count = std::getenv(count) != nullptr;
    if (ours && has_rank != has_count)
      bad_value(has_rank ? rank : count, " is set and ", has_rank ? count : rank, " is not; expected both, or neither");
    if (!has_rank || !has_count) continue;
    const Ranks found{number_in(rank), number_in(count), ours};
    if (found.rank >= found.count)
      bad_value(rank, " is ", found.rank, " and ", count, " is ", found.count,
                "; expected ranks from 0 to one below it");
    return found;
  }
  return {};
}

}  // namespace ff
