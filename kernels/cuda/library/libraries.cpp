#include "kernels/cuda/library/libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/cuda/library/library_cache.h"

namespace perigee {
namespace {

thread_local int captures = 0;
thread_local HeldByGraph held;

// Newer generations of a library keep what is used here, and carry another number in their file's name.
struct Wanted {
  const char* name;
  const char* serves;
  std::array<const char*, 2> files;
  const char* version_function;
  int least_major;
};

constexpr Wanted kWanted[] = {
    {"cuBLASLt", "matrix products", {"libcublasLt.so.13", "libcublasLt.so.12"}, "cublasLtGetVersion", 12},
    {"cuDNN", "convolutions", {"libcudnn.so.9", nullptr}, "cudnnGetVersion", 9},
    {"NVRTC", "fused element-wise chains", {"libnvrtc.so.13", "libnvrtc.so.12"}, "nvrtcVersion", 12},
    {"CUDA driver", "everything on a GPU", {"libcuda.so.1", nullptr}, "cuDriverGetVersion", 12},
    {"NCCL", "sums over several GPUs of a machine", {"libnccl.so.2", nullptr}, "ncclGetVersion", 2},
};
static_assert(std::size(kWanted) == std::size(kCudaLibraries));

struct Version {
  int major = 0, minor = 0, patch = 0;
};

Version version_of(CudaLibrary library, void* function) {
  if (library == CudaLibrary::nvrtc) {
    Version version;
    reinterpret_cast<int (*)(int*, int*)>(function)(&version.major, &version.minor);
    return version;
  }
  if (library == CudaLibrary::driver) {
    int number = 0;
    reinterpret_cast<int (*)(int*)>(function)(&number);
    return {number / 1000, number % 1000 / 10, 0};
  }
  if (library == CudaLibrary::nccl) {
    int number = 0;
    reinterpret_cast<int (*)(int*)>(function)(&number);
    return number < 10000 ? Version{number / 1000, number / 100 % 10, number % 100}
                          : Version{number / 10000, number / 100 % 100, number % 100};
  }
  const auto number = static_cast<int>(reinterpret_cast<size_t (*)()>(function)());
  return {number / 10000, number / 100 % 100, number % 100};
}

class Loaded {
 public:
  explicit Loaded(CudaLibrary library) : wanted_(kWanted[static_cast<size_t>(library)]) {
    info.name = wanted_.name, info.serves = wanted_.serves;
    if (open()) check_version(library);
    if (!why_.empty()) info.why = why_.c_str();
  }

  void* function(const char* name) const { return handle_ != nullptr ? ::dlsym(handle_, name) : nullptr; }

  CudaLibraryInfo info;

 private:
  bool open() {
    const char* folders = std::getenv("PERIGEE_CUDA_LIBRARIES");
    for (const char* file : wanted_.files) {
      if (file == nullptr) continue;
      if (folders != nullptr && open_in(folders, file)) return true;
      if (try_open(file)) return true;
    }
    return false;
  }

  bool open_in(const std::string& folders, const char* file) {
    for (size_t begin = 0; begin <= folders.size();) {
      const size_t end = std::min(folders.find(':', begin), folders.size());
      const std::string path = folders.substr(begin, end - begin) + "/" + file;
      if (end > begin && try_open(path.c_str())) return true;
      begin = end + 1;
    }
    return false;
  }

  // cuDNN's engines are opened by name later, and looked for beside the file itself.
  bool try_open(const char* path) {
    handle_ = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      if (const char* said = ::dlerror()) keep_reason(path, said);
      return false;
    }
    why_.clear();
    return true;
  }

  // Keeps the reason why the first existing file cannot be used; if there is none, that the loader does not find the newest.
  void keep_reason(const std::string& path, const std::string& said) {
    const bool absent = said.starts_with(path + ": cannot open shared object file: No such");
    if (absent ? why_.empty() && path.find('/') == path.npos : !of_no_use_) why_ = said;
    of_no_use_ = of_no_use_ || !absent;
  }

  void check_version(CudaLibrary library) {
    void* const function = ::dlsym(handle_, wanted_.version_function);
    Dl_info where = {};
    if (function == nullptr) {
      why_ = std::string(wanted_.version_function) + " is not in it";
      return;
    }
    if (::dladdr(function, &where) != 0 && where.dli_fname != nullptr) path_ = where.dli_fname;
    info.path = path_.c_str();
    const Version version = version_of(library, function);
    std::snprintf(version_.data(), version_.size(), library == CudaLibrary::nvrtc || library == CudaLibrary::driver ? "%d.%d" : "%d.%d.%d",
                  version.major, version.minor, version.patch);
    info.version = version_.data();
    if (library == CudaLibrary::nvrtc) open_builtins(version);
    // These open NVRTC by name when they first compile, and do without what they would where the loader knows none.
    if (library == CudaLibrary::cublas_lt || library == CudaLibrary::cudnn) cuda_library(CudaLibrary::nvrtc);
    if (library == CudaLibrary::cudnn) open_cublas_for_cudnn();
    if (version.major < wanted_.least_major)
      why_ = path_ + " is version " + version_.data() + "; " + std::to_string(wanted_.least_major) + " or later is needed";
  }

  // NVRTC asks the loader for them by name, which does not look beside NVRTC; but what is open already it finds.
  void open_builtins(const Version& version) const {
    const std::string folder = path_.substr(0, path_.rfind('/') + 1);
    const std::string name = "libnvrtc-builtins.so." + std::to_string(version.major) + "." + std::to_string(version.minor);
    ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  }

  // cuDNN opens cuBLASLt by name when it first wants it, and ends the process where the loader knows none of the CUDA that it was built
  // for. What is open already it finds.
  void open_cublas_for_cudnn() {
    auto* const built_for = reinterpret_cast<size_t (*)()>(::dlsym(handle_, "cudnnGetCudartVersion"));
    if (built_for == nullptr) return;
    cuda_library(CudaLibrary::cublas_lt);  // where there are two, cuDNN's is ours
    const std::string file = "libcublasLt.so." + std::to_string(built_for() / 1000);
    if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
    for (const char* beside : {"", "../../cu13/lib/", "../../cublas/lib/"}) {
      std::string path = path_;
      path.replace(path.rfind('/') + 1, path.npos, beside) += file;
      if (::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
    }
    (why_ = path_).append(" wants ").append(file).append(", which is not found");
  }

  const Wanted& wanted_;
  void* handle_ = nullptr;  // stays open until the process ends
  bool of_no_use_ = false;  // why_ is about a file that is there
  std::string why_, path_;
  std::array<char, 32> version_{};
};

const Loaded& loaded(CudaLibrary library) {
  switch (library) {
    case CudaLibrary::cublas_lt: {
      static const Loaded found(CudaLibrary::cublas_lt);
      return found;
    }
    case CudaLibrary::cudnn: {
      static const Loaded found(CudaLibrary::cudnn);
      return found;
    }
    case CudaLibrary::nvrtc: {
      static const Loaded found(CudaLibrary::nvrtc);
      return found;
    }
    case CudaLibrary::nccl: {
      static const Loaded found(CudaLibrary::nccl);
      return found;
    }
    case CudaLibrary::driver: break;
  }
  static const Loaded found(CudaLibrary::driver);
  return found;
}

}  // namespace

const CudaLibraryInfo& cuda_library(CudaLibrary library) { return loaded(library).info; }
void* cuda_library_function(CudaLibrary library, const char* name) { return loaded(library).function(name); }

void report_library(CudaQueue& queue, const char* kernel, const char* said) {
  if (queue.status != 0) return;
  queue.libraries->failure = std::string(kernel) + ": " + said;
  queue.failed = queue.libraries->failure.c_str();
  queue.status = kLibraryFailed;
}

void begin_holding() { ++captures; }

HeldByGraph end_holding() {
  HeldByGraph all = held;
  if (captures == 0 || --captures == 0) held.clear();
  return all;
}

void hold_for_capture(const std::shared_ptr<const void>& used) {
  if (captures > 0) held.insert(used);
}

CudaLibraries* make_cuda_libraries() { return std::make_unique<CudaLibraries>().release(); }
void drop_cuda_libraries(CudaLibraries* libraries) { const std::unique_ptr<CudaLibraries> dropped(libraries); }

}  // namespace perigee
