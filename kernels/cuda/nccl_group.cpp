// NCCL as far as it is needed: one communicator for each GPU of this process, made together. Its functions are declared here as nccl.h has
// them (cuda_toolkit_test compares), so that no header is needed to build.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/group.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/nccl_names.h"

namespace perigee {
namespace {

struct Nccl {
  const char* (*GetErrorString)(int) = nullptr;
  const char* (*GetLastError)(void*) = nullptr;  // since 2.13
  int (*GetVersion)(int*) = nullptr;
  int (*CommInitAll)(void**, int, const int*) = nullptr;
  int (*CommDestroy)(void*) = nullptr;
  int (*CommAbort)(void*) = nullptr;
  int (*CommGetAsyncError)(void*, int*) = nullptr;
  int (*GroupStart)() = nullptr;
  int (*GroupEnd)() = nullptr;
  int (*AllReduce)(const void*, void*, size_t, int, int, void*, void*) = nullptr;
  const char* why = nullptr;

  Nccl() : why(cuda_library_missing(CudaLibrary::nccl)) {
    if (why != nullptr) return;
    const auto find = [this](const char* name, auto* function) {
      find_function(CudaLibrary::nccl, name, function);
      if (*function == nullptr) why = "a function is missing in it";
    };
    find("ncclGetErrorString", &GetErrorString);
    find("ncclGetVersion", &GetVersion);
    find("ncclCommInitAll", &CommInitAll);
    find("ncclCommDestroy", &CommDestroy);
    find("ncclCommAbort", &CommAbort);
    find("ncclCommGetAsyncError", &CommGetAsyncError);
    find("ncclGroupStart", &GroupStart);
    find("ncclGroupEnd", &GroupEnd);
    find("ncclAllReduce", &AllReduce);
    find_function(CudaLibrary::nccl, "ncclGetLastError", &GetLastError);
  }
};

const Nccl& nccl() {
  static const Nccl found;
  return found;
}

struct Group {
  std::vector<void*> communicators;
  bool aborted = false;
  ~Group() {
    for (void* communicator : communicators)
      if (!aborted && communicator != nullptr) nccl().CommDestroy(communicator);
  }
};

// The newest text of any group: it is read at once.
const char* said(int status) {
  static thread_local std::string text;
  if (status == kNcclSuccess) return nullptr;
  text = nccl().GetErrorString(status);
  const char* const more = nccl().GetLastError != nullptr ? nccl().GetLastError(nullptr) : nullptr;
  if (more != nullptr && *more != '\0') text += std::string(": ") + more;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.c_str();
}

const char* missing() { return nccl().why; }

bool can_be_captured() {
  constexpr int kFirst = 20900;  // 2.9.0
  int version = 0;
  return nccl().why == nullptr && nccl().GetVersion(&version) == kNcclSuccess && version >= kFirst;
}

const char* open(const int* devices, int count, void** group) {
  auto made = std::make_unique<Group>();
  made->communicators.resize(static_cast<size_t>(count));
  const int status = nccl().CommInitAll(made->communicators.data(), count, devices);
  if (status != kNcclSuccess) {
    made->aborted = true;  // there is nothing to destroy
    return said(status);
  }
  *group = made.release();
  return nullptr;
}

Group& group_of(void* group) { return *static_cast<Group*>(group); }

void close(void* group) { const std::unique_ptr<Group> dropped(static_cast<Group*>(group)); }

void abort(void* group) {
  if (group_of(group).aborted) return;
  group_of(group).aborted = true;
  for (void* communicator : group_of(group).communicators) nccl().CommAbort(communicator);
}

const char* failed(void* group) {
  for (void* communicator : group_of(group).communicators) {
    int status = kNcclSuccess;
    const int asked = nccl().CommGetAsyncError(communicator, &status);
    if (asked != kNcclSuccess) return said(asked);
    if (status != kNcclSuccess && status != kNcclInProgress) return said(status);
  }
  return nullptr;
}

int type_of(Dtype dtype) { return dtype == Dtype::f64 ? kNcclFloat64 : dtype == Dtype::i64 ? kNcclInt64 : kNcclFloat32; }

const char* sum(void* group, const CudaGroupSum* sums, int count, void* const* streams) {
  const std::vector<void*>& communicators = group_of(group).communicators;
  int status = nccl().GroupStart();
  for (int s = 0; s < count; ++s)
    for (size_t i = 0; i < communicators.size() && status == kNcclSuccess; ++i)
      status = nccl().AllReduce(sums[s].at[i], sums[s].at[i], static_cast<size_t>(sums[s].elements), type_of(sums[s].dtype),
                                sums[s].dtype == Dtype::i64 ? kNcclMax : kNcclSum, communicators[i], streams[i]);
  const int ended = nccl().GroupEnd();
  return said(status != kNcclSuccess ? status : ended);
}

}  // namespace

const CudaGroups& cuda_groups() {
  static const CudaGroups groups{
      .missing = missing, .can_be_captured = can_be_captured, .open = open, .close = close, .abort = abort, .failed = failed, .sum = sum};
  return groups;
}

}  // namespace perigee
