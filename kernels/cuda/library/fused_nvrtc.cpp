// `fused` as one kernel made for the call: its program in registers, sizes and broadcasts constant. Compiled by NVRTC when the queue first
// sees the call, and then kept (nvrtc_cache.h).
// Floor: each operand read or written once; the arithmetic hides behind that.
#include <cuda.h>

#include <cstring>

#include "kernels/cuda/elementwise/fused_source.h"
#include "kernels/cuda/library/libraries.h"
#include "kernels/cuda/library/library_cache.h"
#include "kernels/cuda/library/nvrtc_cache.h"
#include "kernels/cuda/runtime/counters.h"
#include "kernels/cuda/runtime/overlap.h"
#include "kernels/ops/fused.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr unsigned kBlock = 256;
constexpr const char* kName = "perigee_fused";

struct Driver {
  Driver() {
    find_function(CudaLibrary::driver, "cuDeviceGet", &device);
    find_function(CudaLibrary::driver, "cuDeviceGetAttribute", &device_attribute);
    find_function(CudaLibrary::driver, "cuModuleLoadData", &load);
    find_function(CudaLibrary::driver, "cuModuleUnload", &unload);
    find_function(CudaLibrary::driver, "cuModuleGetFunction", &function);
    find_function(CudaLibrary::driver, "cuFuncGetAttribute", &function_attribute);
    find_function(CudaLibrary::driver, "cuLaunchKernelEx", &launch);
    find_function(CudaLibrary::driver, "cuGetErrorName", &error_name);
  }
  const char* name_of(CUresult status) const {
    const char* name = "an unknown error";
    if (error_name(status, &name) != CUDA_SUCCESS) return "an unknown error";  // which leaves a null there
    return name;
  }
  decltype(&cuDeviceGet) device;
  decltype(&cuDeviceGetAttribute) device_attribute;
  decltype(&cuModuleLoadData) load;
  decltype(&cuModuleUnload) unload;
  decltype(&cuModuleGetFunction) function;
  decltype(&cuFuncGetAttribute) function_attribute;
  decltype(&cuLaunchKernelEx) launch;
  decltype(&cuGetErrorName) error_name;
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

struct Compiled {
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    if (module != nullptr) driver().unload(module);
  }
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  int64_t threads = 0;
  bool waits = false;   // for the kernels before: begin_kernel() of fused_prelude()
  std::string failure;  // why there is no function
};

struct State : CudaLibraryState {
  LibraryCache<std::string, Compiled> compiled;
};

const View& operand(const KernelCall& call, int i) { return i < call.n_in ? call.in[i] : call.out[i - call.n_in]; }

// All that the source depends on.
std::string key_of(const KernelCall& call) {
  const FusedParams& p = call.as<FusedParams>();
  std::string key;
  const auto add = [&key](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const uint8_t count : {p.n_inputs, p.n_constants, p.n_instructions, p.n_outputs}) add(count);
  for (int i = 0; i < p.n_constants; ++i) add(p.constants[i]);
  for (int i = 0; i < p.n_instructions; ++i) add(p.code[i]);
  for (int i = 0; i < p.n_outputs; ++i) add(p.outputs[i]);
  for (int i = 0; i < call.n_in + call.n_out; ++i) {
    const View& v = operand(call, i);
    add(v.dtype), add(v.rank), add(static_cast<uint8_t>(reinterpret_cast<uintptr_t>(v.data) % 16));
    for (int d = 0; d < v.rank; ++d) add(v.dims[d]), add(v.strides[d]);
  }
  return key;
}

void compile(const KernelCall& call, Compiled* made) {
  int major = 0, minor = 0;
  CUdevice device = 0;
  driver().device(&device, call.queue->device);
  driver().device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  driver().device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  const FusedSource source = fused_source(call, kName);
  made->threads = source.threads;
  const std::string code = compile_cuda(fused_prelude() + source.text, major, minor, &made->failure);
  if (code.empty()) return;
  CUresult status = driver().load(&made->module, code.c_str());
  if (status == CUDA_SUCCESS) status = driver().function(&made->function, made->module, kName);
  int code_of = 0;  // an older NVRTC compiles for an older device
  if (status == CUDA_SUCCESS) status = driver().function_attribute(&code_of, CU_FUNC_ATTRIBUTE_PTX_VERSION, made->function);
  made->waits = status == CUDA_SUCCESS && code_of >= kOverlapsFrom;
  if (status != CUDA_SUCCESS) made->failure = driver().name_of(status);
}

const char* decline(const KernelCall& call) {
  for (const CudaLibrary library : {CudaLibrary::nvrtc, CudaLibrary::driver})
    if (const char* why = cuda_library_missing(library)) return why;
  return fused_source_declines(call);
}

void run(const KernelCall& call) {
  CudaQueue& queue = *call.queue;
  if (queue.status != 0) return;
  auto& state = queue.libraries->state<State>(CudaLibrary::nvrtc);
  bool fresh = false;
  Compiled& made = state.compiled.at(key_of(call), &fresh);
  if (fresh) compile(call, &made);
  if (made.function == nullptr) return report_library(queue, "fused nvrtc", made.failure.c_str());
  void* pointers[kFusedInputs + kFusedOutputs];
  void* arguments[kFusedInputs + kFusedOutputs];
  for (int i = 0; i < call.n_in + call.n_out; ++i) pointers[i] = operand(call, i).data, arguments[i] = &pointers[i];
  count_cuda(&CudaCounts::launches);
  CUlaunchAttribute overlaps = {};
  overlaps.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlaps.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>((made.threads + kBlock - 1) / kBlock), config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = kBlock, config.blockDimY = config.blockDimZ = 1;
  config.hStream = static_cast<CUstream>(queue.stream);
  if (made.waits && follows_own_kernel(queue.stream)) config.attrs = &overlaps, config.numAttrs = 1;
  const CUresult status = driver().launch(&config, made.function, arguments, nullptr);
  if (status == CUDA_SUCCESS) launched_own_kernel(queue.stream);
  if (status != CUDA_SUCCESS) report_library(queue, "fused nvrtc", driver().name_of(status));
}

constexpr Kernel kKernels[] = {{.op = "fused", .name = "nvrtc", .backend = Backend::cuda, .decline = decline, .run = run}};

}  // namespace

extern const KernelList kernels_cuda_fused_nvrtc;
const KernelList kernels_cuda_fused_nvrtc = kernel_list(kKernels);

}  // namespace perigee
