// A driver without a device, by the driver's own name: what cuDNN compiles when it is first run it plans only where it finds one. It can do
// nothing, and says so.
namespace {
constexpr int kSuccess = 0, kNoDevice = 100;
}

extern "C" {

int cuInit(unsigned) { return kNoDevice; }
int cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
int cuDeviceGetCount(int* count) { return *count = 0, kSuccess; }
int cuGetErrorName(int, const char** name) { return *name = "of no device", kSuccess; }
int cuGetErrorString(int, const char** text) { return *text = "of no device", kSuccess; }
int cuCtxGetCurrent(void** context) { return *context = nullptr, kSuccess; }

#define PERIGEE_NO_DEVICE(name) \
  int name() { return kNoDevice; }
PERIGEE_NO_DEVICE(cuCtxGetDevice)
PERIGEE_NO_DEVICE(cuCtxGetLimit)
PERIGEE_NO_DEVICE(cuCtxPopCurrent)
PERIGEE_NO_DEVICE(cuCtxPushCurrent)
PERIGEE_NO_DEVICE(cuDeviceGet)
PERIGEE_NO_DEVICE(cuDeviceGetAttribute)
PERIGEE_NO_DEVICE(cuDevicePrimaryCtxRelease)
PERIGEE_NO_DEVICE(cuDevicePrimaryCtxReset)
PERIGEE_NO_DEVICE(cuDevicePrimaryCtxRetain)
PERIGEE_NO_DEVICE(cuFuncGetAttribute)
PERIGEE_NO_DEVICE(cuFuncSetAttribute)
PERIGEE_NO_DEVICE(cuKernelGetAttribute)
PERIGEE_NO_DEVICE(cuKernelSetAttribute)
PERIGEE_NO_DEVICE(cuLaunchCooperativeKernel)
PERIGEE_NO_DEVICE(cuLaunchKernel)
PERIGEE_NO_DEVICE(cuLaunchKernelEx)
PERIGEE_NO_DEVICE(cuLibraryGetKernel)
PERIGEE_NO_DEVICE(cuLibraryLoadData)
PERIGEE_NO_DEVICE(cuLibraryLoadFromFile)
PERIGEE_NO_DEVICE(cuLibraryUnload)
PERIGEE_NO_DEVICE(cuLinkAddData)
PERIGEE_NO_DEVICE(cuLinkAddData_v2)
PERIGEE_NO_DEVICE(cuLinkAddFile_v2)
PERIGEE_NO_DEVICE(cuLinkComplete)
PERIGEE_NO_DEVICE(cuLinkCreate)
PERIGEE_NO_DEVICE(cuLinkCreate_v2)
PERIGEE_NO_DEVICE(cuLinkDestroy)
PERIGEE_NO_DEVICE(cuMemcpyDtoH_v2)
PERIGEE_NO_DEVICE(cuModuleGetFunction)
PERIGEE_NO_DEVICE(cuModuleGetGlobal_v2)
PERIGEE_NO_DEVICE(cuModuleLoadData)
PERIGEE_NO_DEVICE(cuModuleLoadDataEx)
PERIGEE_NO_DEVICE(cuModuleLoadFatBinary)
PERIGEE_NO_DEVICE(cuModuleUnload)
PERIGEE_NO_DEVICE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
PERIGEE_NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
PERIGEE_NO_DEVICE(cuStreamGetCtx)
PERIGEE_NO_DEVICE(cuStreamSynchronize)
PERIGEE_NO_DEVICE(cuTensorMapEncodeTiled)

}  // extern "C"
