// NCCL as far as it is needed: one communicator for each GPU of this process, made together. Its functions are declared here as nccl.h has
// them (cuda_toolkit_test compares), so that no header is needed to build.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/library/libraries.h"
#include "kernels/cuda/library/nccl_names.h"
#include "kernels/cuda/runtime/group.h"
#include "kernels/cuda/runtime/patience.h"

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
  std::vector<int64_t> met;  // elements of the calls that came to their end before
};

// A function to call, and the operands that it keeps alive.
struct Call {
  std::function<int(Call&)> work;
  std::vector<void*> communicators;
  int status = kNcclSuccess;
  std::atomic<bool> done{false};
};

// NCCL may wait for ever, for a driver or a link, and nothing ends that: it does so on a thread that is left behind then. Null: it is.
std::shared_ptr<Call> ends_in_time(std::vector<void*> communicators, std::function<int(Call&)> work) {
  const auto call = std::make_shared<Call>();
  call->communicators = std::move(communicators), call->work = std::move(work);
  std::thread([call] {
    call->status = call->work(*call);
    call->done = true;
  }).detach();
  const auto begin = std::chrono::steady_clock::now();
  while (!call->done && std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(cuda_patience_s()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return call->done ? call : nullptr;
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
  const auto call =
      ends_in_time(std::vector<void*>(static_cast<size_t>(count)), [of = std::vector<int>(devices, devices + count)](Call& own) {
        return nccl().CommInitAll(own.communicators.data(), static_cast<int>(of.size()), of.data());
      });
  if (!call) return kNoEnd;
  if (call->status != kNcclSuccess) return said(call->status);
  auto made = std::make_unique<Group>();
  made->communicators = call->communicators;
  *group = made.release();
  return nullptr;
}

Group& group_of(void* group) { return *static_cast<Group*>(group); }

bool end_each(const Group& group, int (*end)(void*)) {
  return ends_in_time(group.communicators, [end](Call& own) {
           for (void* communicator : own.communicators) end(communicator);
           return kNcclSuccess;
         }) != nullptr;
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

int queue_sums(const std::vector<void*>& communicators, const CudaGroupSum* sums, int count, void* const* streams) {
  int status = nccl().GroupStart();
  for (int s = 0; s < count; ++s)
    for (size_t i = 0; i < communicators.size() && status == kNcclSuccess; ++i)
      status = nccl().AllReduce(sums[s].at[i], sums[s].at[i], static_cast<size_t>(sums[s].elements), type_of(sums[s].dtype),
                                sums[s].dtype == Dtype::i64 ? kNcclMax : kNcclSum, communicators[i], streams[i]);
  const int ended = nccl().GroupEnd();
  return status != kNcclSuccess ? status : ended;
}

// Links are made by the first sums that need them.
const char* sum(void* group, const CudaGroupSum* sums, int count, void* const* streams) {
  Group& of = group_of(group);
  int64_t elements = 0;
  for (int s = 0; s < count; ++s) elements += sums[s].elements;
  if (std::find(of.met.begin(), of.met.end(), elements) != of.met.end()) return said(queue_sums(of.communicators, sums, count, streams));
  const size_t ranks = of.communicators.size();
  std::vector<void*> buffers;
  for (int s = 0; s < count; ++s) buffers.insert(buffers.end(), sums[s].at, sums[s].at + ranks);
  const auto call = ends_in_time(of.communicators, [ranks, buffers, queued = std::vector<CudaGroupSum>(sums, sums + count),
                                                    on = std::vector<void*>(streams, streams + ranks)](Call& own) mutable {
    for (size_t s = 0; s < queued.size(); ++s) queued[s].at = &buffers[s * ranks];
    return queue_sums(own.communicators, queued.data(), static_cast<int>(queued.size()), on.data());
  });
  of.aborted = of.aborted || !call;  // what hangs in it cannot be ended either
  if (!call) return kNoEnd;
  of.met.push_back(elements);
  return said(call->status);
}

}  // namespace

const CudaGroups& cuda_groups() {
  static const CudaGroups groups{
      .missing = missing, .can_be_captured = can_be_captured, .open = open, .close = close, .abort = abort, .failed = failed, .sum = sum};
  return groups;
}

}  // namespace perigee
