// NCCL for the GPUs of one process: sums in the order of ranks. It refuses what NCCL would hang on or leave undefined: calls of several
// ranks outside a group, buffers that do not fit together.
#include "tests/cuda/fakes/nccl.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/library/nccl_names.h"
#include "tests/cuda/fakes/numbers.h"

using namespace perigee;

namespace {

constexpr int kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6;
const FakeNcclHooks* hooks = nullptr;
std::string last_error;
thread_local int group_depth = 0;

struct Clique {
  void* meeting = nullptr;
  int open = 0, ranks = 0;
};
struct Communicator {
  Clique* clique = nullptr;
  int rank = 0;
};
struct Call {
  const void* in;
  void* out;
  size_t count;
  int type, op;
  Communicator* communicator;
  void* stream;
};
thread_local std::vector<Call> grouped;

int refuse(int status, const char* why) { return last_error = why, status; }

template <class T>
void all_reduce(const std::vector<Call>& calls) {
  std::vector<T> sum(calls[0].count);
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = static_cast<const T*>(calls[0].in)[i];
    for (size_t r = 1; r < calls.size(); ++r) {
      const T value = static_cast<const T*>(calls[r].in)[i];
      sum[i] = calls[0].op == kNcclMax ? std::max(sum[i], value) : sum[i] + value;
    }
  }
  for (const Call& call : calls) std::copy(sum.begin(), sum.end(), static_cast<T*>(call.out));
}

// FAKE_NCCL_FAULT="hang:5": nothing comes of any sum after the fifth from now; "error:5": and the communicators say so.
// "init", "sum" and "destroy": that call never comes back.
bool broken = false;
void hang_if(const char* fault) {
  const char* const text = std::getenv("FAKE_NCCL_FAULT");
  while (text != nullptr && std::string(text) == fault) std::this_thread::sleep_for(std::chrono::hours(1));
}
bool breaks() {
  static std::string known;
  static long left = 0;
  const char* const text = std::getenv("FAKE_NCCL_FAULT");
  const std::string fault = text != nullptr ? text : "";
  if (fault != known) known = fault, left = std::atol(fault.substr(fault.find(':') + 1).c_str()), broken = false;
  if (fault.empty() || --left != 0) return false;
  broken = fault.starts_with("error");
  return true;
}

void run(void* argument) {
  const auto& calls = **static_cast<std::shared_ptr<std::vector<Call>>*>(argument);
  if (calls[0].type == kNcclFloat32) all_reduce<float>(calls);
  else if (calls[0].type == kNcclFloat64) all_reduce<double>(calls);
  else all_reduce<int64_t>(calls);
  if (breaks()) hooks->stall(calls[0].communicator->clique->meeting);
}

void drop(void* argument) { drop_handle(static_cast<std::shared_ptr<std::vector<Call>>*>(argument)); }

// Calls come rank by rank or sum by sum; the first of each rank belong together.
int end_group() {
  std::vector<Call> left = std::move(grouped);
  grouped.clear();
  while (!left.empty()) {
    Clique& clique = *left.front().communicator->clique;
    auto calls = std::make_shared<std::vector<Call>>();
    for (int rank = 0; rank < clique.ranks; ++rank) {
      const auto found = std::find_if(left.begin(), left.end(), [&](const Call& call) {
        return call.communicator->clique == &clique && call.communicator->rank == rank;
      });
      if (found == left.end()) return refuse(kInvalidUsage, "fake: a rank does not take part in the group");
      calls->push_back(*found);
      left.erase(found);
    }
    for (const Call& call : *calls)
      if (call.count != calls->front().count || call.type != calls->front().type || call.op != calls->front().op)
        return refuse(kInvalidArgument, "fake: the ranks' calls differ");
    for (const Call& call : *calls)
      if (hooks->meet(clique.meeting, static_cast<size_t>(call.communicator->rank), call.stream, run,
                      make_handle<std::shared_ptr<std::vector<Call>>>(calls), drop) != 0)
        return refuse(1, "fake: the stream takes no work");
  }
  return kNcclSuccess;
}

}  // namespace

extern "C" {

void fake_nccl_use(const FakeNcclHooks* given) { hooks = given; }

int ncclGetVersion(int* version) { return *version = 22807, kNcclSuccess; }
const char* ncclGetErrorString(int status) {
  return status == kInvalidUsage  ? "invalid usage"
         : status == kRemoteError ? "remote process exited or there was a network error"
                                  : "invalid argument";
}
const char* ncclGetLastError(void*) { return last_error.c_str(); }

int ncclCommInitAll(void** communicators, int count, const int*) {
  hang_if("init");
  if (hooks == nullptr) return refuse(kInvalidUsage, "fake: there is no runtime to work with");
  auto* const clique = make_handle<Clique>(hooks->open(static_cast<size_t>(count)), count, count);
  for (int rank = 0; rank < count; ++rank) communicators[rank] = make_handle<Communicator>(clique, rank);
  return kNcclSuccess;
}

int ncclCommDestroy(void* communicator) {
  hang_if("destroy");
  auto* const own = static_cast<Communicator*>(communicator);
  if (--own->clique->open == 0) {
    hooks->close(own->clique->meeting);
    drop_handle(own->clique);
  }
  drop_handle(own);
  return kNcclSuccess;
}

int ncclCommAbort(void* communicator) {
  hooks->abort(static_cast<Communicator*>(communicator)->clique->meeting);
  return ncclCommDestroy(communicator);
}

int ncclCommGetAsyncError(void*, int* status) {
  *status = broken ? refuse(kRemoteError, "fake: a link broke") : kNcclSuccess;
  return kNcclSuccess;
}

int ncclGroupStart() { return ++group_depth, kNcclSuccess; }
int ncclGroupEnd() {
  hang_if("sum");
  return --group_depth == 0 ? end_group() : kNcclSuccess;
}

int ncclAllReduce(const void* in, void* out, size_t count, int type, int op, void* communicator, void* stream) {
  auto* const own = static_cast<Communicator*>(communicator);
  if (group_depth == 0 && own->clique->ranks > 1) return refuse(kInvalidUsage, "fake: one thread calls for several ranks outside a group");
  if (type != kNcclFloat32 && type != kNcclFloat64 && type != kNcclInt64) return refuse(kInvalidArgument, "fake: a type that is not used");
  grouped.push_back({in, out, count, type, op, own, stream});
  return group_depth == 0 ? end_group() : kNcclSuccess;
}

}  // extern "C"
