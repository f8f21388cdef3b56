// The processes that run one program together, as who started them says in the environment.
#pragma once

#include <cstdlib>

#include "base/error.h"

namespace ff {

struct Ranks {
  int rank = 0, count = 1;  // of this process, and how many there are
  bool ours = false;        // started by us, or told in our own variables; else by an mpirun
};

// Of the environment; nullptr where it is not set, or empty.
inline const char* variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

// What a variable says, which is set; throws an Error when that is no whole number from least to most.
inline int number_in(const char* name, int least, int most) {
  const char* const text = variable(name);
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < least || value > most)
    bad_value(name, " is \"", text, "\"; expected a whole number from ", least, " to ", most);
  return static_cast<int>(value);
}

// FLEXFLOW_RANK and FLEXFLOW_RANKS, or else what the mpirun of Open MPI or MPICH sets.
inline Ranks ranks() {
  constexpr int kMost = 1024;  // Legion's LEGION_MAX_NUM_NODES
  constexpr const char* kNames[][2] = {
      {"FLEXFLOW_RANK", "FLEXFLOW_RANKS"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, count] : kNames) {
    const bool ours = rank == kNames[0][0], has_rank = variable(rank) != nullptr,
               has_count = variable(count) != nullptr;
    if (ours && has_rank != has_count)
      bad_value(has_rank ? rank : count, " is set, and ", has_rank ? count : rank, " is not; set both or none");
    if (!has_rank || !has_count) continue;
    const int all = number_in(count, 1, kMost);
    return {number_in(rank, 0, all - 1), all, ours};
  }
  return {};
}

}  // namespace ff
