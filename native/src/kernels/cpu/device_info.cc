#include "kernels/device_info.h"

#include <dnnl.hpp>
#include <fstream>

#include "base/error.h"
#include "base/parallel.h"

namespace ff {
namespace {

const char* isa_name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2 with VNNI";
    case dnnl::cpu_isa::avx2_vnni_2:
      return "AVX2 with VNNI, bfloat16 and float16 conversion";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512 with VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512 with bfloat16";
    case dnnl::cpu_isa::avx512_core_fp16:
      return "AVX-512 with float16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AVX-512 with AMX";
    case dnnl::cpu_isa::avx512_core_amx_fp16:
      return "AVX-512 with AMX and float16";
    default:
      return "unknown";
  }
}

std::string model_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

// Our own loops are compiled in three versions and picked by the processor.
const char* own_isa() {
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  return __builtin_cpu_supports("avx2") ? "AVX2" : "baseline";
}

}  // namespace

std::string describe_cpu() {
  const dnnl_version_t* version = dnnl_version();
  return cat(model_name(), "; oneDNN ", version->major, ".", version->minor, ".", version->patch, " uses ",
             isa_name(dnnl::get_effective_cpu_isa()), ", own kernels use ", own_isa(), "; ", thread_count(),
             " threads");
}

}  // namespace ff
