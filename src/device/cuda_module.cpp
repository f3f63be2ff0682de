#include "src/device/cuda_module.h"

#include <dlfcn.h>

#include <cstdlib>

namespace perigee {
namespace {

constexpr const char* kName = "libperigee_cuda.so";

std::string path_of_module() {
  if (const char* given = std::getenv("PERIGEE_CUDA_MODULE")) return given;
  Dl_info here = {};
  if (::dladdr(reinterpret_cast<const void*>(&cuda_module), &here) == 0 || here.dli_fname == nullptr) return kName;
  const std::string self = here.dli_fname;
  const size_t slash = self.rfind('/');
  return (slash == std::string::npos ? "./" : self.substr(0, slash + 1)) + kName;
}

struct Loaded {
  Loaded() {
    const std::string path = path_of_module();
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded, as Module does
    if (handle == nullptr) {
      why = ::dlerror();  // names the path
      return;
    }
    auto* const entry = reinterpret_cast<decltype(&perigee_cuda_module)>(::dlsym(handle, "perigee_cuda_module"));
    const CudaModule* const found = entry != nullptr ? entry() : nullptr;
    if (found == nullptr || found->version != CudaModule::kVersion) why = path + " is of another build";
    else module = found;
  }
  const CudaModule* module = nullptr;
  std::string why;
};

}  // namespace

const CudaModule* cuda_module(std::string* why) {
  static const Loaded loaded;
  *why = loaded.why;
  return loaded.module;
}

}  // namespace perigee
