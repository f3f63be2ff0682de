// A driver of one device of compute capability 9.0. A module is its text; what a launch does is the test's business.
#include <cuda.h>

#include <string>

#include "tests/cuda/fakes/numbers.h"

#undef cuModuleGetFunction

using namespace perigee;

namespace {
constexpr CUdevice kFirstDevice = 16;  // a device is no ordinal

int64_t overlaps = 0;  // launches that may overlap the kernel before
void (*launched)(const char* text, unsigned blocks, unsigned threads, void** arguments) = nullptr;
}  // namespace

extern "C" {

int64_t fake_live_handles() { return live_handles; }

int64_t fake_driver_overlaps() { return overlaps; }

void fake_driver_on_launch(void (*hook)(const char* text, unsigned blocks, unsigned threads, void** arguments)) { launched = hook; }

CUresult cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) { return *device = kFirstDevice + ordinal, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (device < kFirstDevice) return CUDA_ERROR_INVALID_DEVICE;
  return *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0, CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return *module = reinterpret_cast<CUmodule>(make_handle<std::string>(static_cast<const char*>(image))), CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) { return drop_handle(reinterpret_cast<std::string*>(module)), CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  *function = reinterpret_cast<CUfunction>(module);
  return reinterpret_cast<std::string*>(module)->find(name) != std::string::npos ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
  return *value = which == CU_FUNC_ATTRIBUTE_PTX_VERSION ? 90 : 0, CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void**) {
  if (launched == nullptr) return CUDA_ERROR_LAUNCH_FAILED;
  overlaps += config->numAttrs == 1 && config->attrs->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
              config->attrs->value.programmaticStreamSerializationAllowed == 1;
  return launched(reinterpret_cast<std::string*>(function)->c_str(), config->gridDimX, config->blockDimX, arguments), CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** name) { return *name = "CUDA_ERROR_OF_THE_FAKE", CUDA_SUCCESS; }

}  // extern "C"
