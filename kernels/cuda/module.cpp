#include "kernels/cuda/module.h"

#include <cuda_runtime.h>

#include <cstring>

namespace perigee {
namespace {

int device_count(int* count) { return cudaGetDeviceCount(count); }

int device(int index, CudaDevice* device) {
  cudaDeviceProp properties;
  const cudaError_t status = cudaGetDeviceProperties(&properties, index);
  if (status != cudaSuccess) return status;
  static_assert(sizeof device->name == sizeof properties.name);
  std::memcpy(device->name, properties.name, sizeof device->name);
  device->major = properties.major, device->minor = properties.minor;
  device->memory_bytes = properties.totalGlobalMem;
  return cudaSuccess;
}

int allocate(size_t bytes, void** memory) { return cudaMalloc(memory, bytes); }
int release(void* memory) { return cudaFree(memory); }
int upload(void* device, const void* host, size_t bytes) { return cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice); }
int download(void* host, const void* device, size_t bytes) { return cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost); }

const char* message(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

}  // namespace
}  // namespace perigee

const perigee::CudaModule* perigee_cuda_module() {
  using namespace perigee;
  static const CudaModule module{.device_count = device_count,
                                 .device = device,
                                 .message = message,
                                 .allocate = allocate,
                                 .release = release,
                                 .upload = upload,
                                 .download = download,
                                 .codecs = &codec_cuda()};
  return &module;
}
