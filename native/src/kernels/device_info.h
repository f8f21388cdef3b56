// What the kernels of this build know of the devices at hand, for people.
#pragma once

#include <string>

namespace ff {

// "oneDNN 3.2.0, avx2, ..."; the instruction set is the one that kernels really use here, chosen at run time.
std::string describe_cpu();

}  // namespace ff
