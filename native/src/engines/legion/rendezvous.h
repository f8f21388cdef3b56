// How the processes of a program find each other without MPI: rank 0 listens at FLEXFLOW_ROOT, and all others come.
#pragma once

#include <map>

namespace ff::legion {

// Once, before Legion starts; throws an Error that says who did not come, or what is wrong with FLEXFLOW_ROOT.
void meet();

// Connections of rank 0 to each other rank, and of the others to rank 0, by rank, over which processes tell each other
// of their end; none where others brought the processes together.
const std::map<int, int>& connections();

}  // namespace ff::legion
