// NCCL as far as it is needed: one communicator for each GPU of this process, made together. Its functions are declared here as nccl.h has
// them (cuda_toolkit_test compares), so that no header is needed to build.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/group.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/nccl_names.h"
#include "kernels/cuda/patience.h"

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
};

// A call of each communicator, or, without one, what makes them.
struct Call {
  std::vector<void*> communicators;
  std::vector<int> devices;
  int (*each)(void*) = nullptr;
  int status = kNcclSuccess;
  std::atomic<bool> done{false};

  void run() {
    if (each == nullptr) status = nccl().CommInitAll(communicators.data(), static_cast<int>(devices.size()), devices.data());
    else
      for (void* communicator : communicators) each(communicator);
    done = true;
  }
};

// NCCL may wait for ever, for a driver or a link, and nothing ends that: it does so on a thread that is left behind then. False: it is.
bool ends_in_time(const std::shared_ptr<Call>& call) {
  std::thread([call] { call->run(); }).detach();
  const auto begin = std::chrono::steady_clock::now();
  while (!call->done && std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(cuda_patience_s()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return call->done;
}

constexpr const char* kNoEnd = "it came to no end in PERIGEE_CUDA_TIMEOUT seconds";

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
  const auto call = std::make_shared<Call>();
  call->communicators.resize(static_cast<size_t>(count));
  call->devices.assign(devices, devices + count);
  if (!ends_in_time(call)) return kNoEnd;
  if (call->status != kNcclSuccess) return said(call->status);
  auto made = std::make_unique<Group>();
  made->communicators = call->communicators;
  *group = made.release();
  return nullptr;
}

Group& group_of(void* group) { return *static_cast<Group*>(group); }

bool end_each(const Group& group, int (*end)(void*)) {
  const auto call = std::make_shared<Call>();
  call->communicators = group.communicators, call->each = end;
  return ends_in_time(call);
}

const char* close(void* group) {
  const std::unique_ptr<Group> dropped(static_cast<Group*>(group));
  return dropped->aborted || end_each(*dropped, nccl().CommDestroy) ? nullptr : kNoEnd;
}

void abort(void* group) {
  if (std::exchange(group_of(group).aborted, true)) return;
  end_each(group_of(group), nccl().CommAbort);
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
