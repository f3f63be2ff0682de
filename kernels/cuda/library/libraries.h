// NVIDIA's libraries as this machine has them: found with dlopen when they are first asked for, so that the module loads without any of
// them. Looked for in the folders of $PERIGEE_CUDA_LIBRARIES (separated by ':'), then by the loader. No CUDA header is needed to include
// this.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/runtime/queue.h"

namespace perigee {

enum class CudaLibrary : uint8_t { cublas_lt, cudnn, nvrtc, driver, nccl };
inline constexpr CudaLibrary kCudaLibraries[] = {CudaLibrary::cublas_lt, CudaLibrary::cudnn, CudaLibrary::nvrtc, CudaLibrary::driver,
                                                 CudaLibrary::nccl};

struct CudaLibraryInfo {
  const char* name = "";      // "cuBLASLt"
  const char* version = "";   // "13.0.2"
  const char* path = "";      // of the file that was loaded
  const char* why = nullptr;  // it cannot be used; null: it can
  const char* serves = "";    // what is slower or missing without it
};

// Loads the library on the first call; any thread may call.
const CudaLibraryInfo& cuda_library(CudaLibrary library);
// For a kernel's `decline`: null where the library can be used.
inline const char* cuda_library_missing(CudaLibrary library) { return cuda_library(library).why; }
// A function of the library, null when it has none of that name.
void* cuda_library_function(CudaLibrary library, const char* name);

template <class Function>
void find_function(CudaLibrary library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(cuda_library_function(library, name));
}

// State that the kernels of one library keep for one queue: its handle, and descriptions of earlier calls.
class CudaLibraryState {
 public:
  virtual ~CudaLibraryState() = default;
};

// The libraries' state for one queue; it lives as long as the queue. A kernel creates a state on first use.
struct CudaLibraries {
  std::array<std::unique_ptr<CudaLibraryState>, std::size(kCudaLibraries)> states;
  std::string failure;  // what the queue's `failed` points to

  template <class State>
  State& state(CudaLibrary library) {
    auto& slot = states[static_cast<size_t>(library)];
    if (!slot) slot = std::make_unique<State>();
    return static_cast<State&>(*slot);
  }
};

// The queue's first failure becomes "`kernel`: `said`".
void report_library(CudaQueue& queue, const char* kernel, const char* said);

CudaLibraries* make_cuda_libraries();
void drop_cuda_libraries(CudaLibraries* libraries);

}  // namespace perigee
