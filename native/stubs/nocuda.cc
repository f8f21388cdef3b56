// Stands for the CUDA driver, libcuda.so.1, where a Legion that was built with CUDA is loaded on a machine that has
// none: there is no device. It is loaded by its full path, and only when no driver is found.
#include <cstring>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0, kNoDevice = 100;  // CUresult

int absent() { return kNoDevice; }

}  // namespace

EXPORTED int cuInit(unsigned) { return kNoDevice; }
EXPORTED int cuDeviceGetCount(int*) { return kNoDevice; }
EXPORTED int cuMemFreeHost(void*) { return kNoDevice; }
EXPORTED int cuMemFree_v2(unsigned long long) { return kNoDevice; }

EXPORTED int cuGetErrorName(int, const char** text) {
  *text = "CUDA_ERROR_NO_DEVICE";
  return kSuccess;
}

EXPORTED int cuGetErrorString(int, const char** text) {
  *text = "no CUDA driver is installed";
  return kSuccess;
}

// Every function of the driver is there, and all of them find no device.
EXPORTED int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, void*) {
  *function = reinterpret_cast<void*>(&absent);
  if (std::strcmp(name, "cuGetErrorName") == 0) *function = reinterpret_cast<void*>(&cuGetErrorName);
  if (std::strcmp(name, "cuGetErrorString") == 0) *function = reinterpret_cast<void*>(&cuGetErrorString);
  return kSuccess;
}

EXPORTED int cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
