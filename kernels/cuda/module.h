// What the program knows of the CUDA module, a shared object that holds every kernel and CUDA's runtime: it is loaded on first use
// (src/io/cuda_module.h), so that one program starts on machines with and without a driver.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/codec.h"

namespace perigee {

struct CudaDevice {
  char name[256] = {};
  int major = 0, minor = 0;  // compute capability
  size_t memory_bytes = 0;
};

struct CudaModule {
  // Grows with every change of what is below: a module of another build is refused.
  static constexpr uint32_t kVersion = 1;
  uint32_t version = kVersion;
  // 0, or a code for message(): where there is no driver, no device, ...
  int (*device_count)(int* count) = nullptr;
  int (*device)(int index, CudaDevice* device) = nullptr;
  const char* (*message)(int code) = nullptr;
  // Memory of the current device, and copies that wait for what was queued before them on the default stream.
  int (*allocate)(size_t bytes, void** memory) = nullptr;
  int (*release)(void* memory) = nullptr;
  int (*upload)(void* device, const void* host, size_t bytes) = nullptr;
  int (*download)(void* host, const void* device, size_t bytes) = nullptr;
  const CudaCodecs* codecs = nullptr;
};

}  // namespace perigee

// The module's one symbol.
extern "C" [[gnu::visibility("default")]] const perigee::CudaModule* perigee_cuda_module();
