// The runtime's services for the NCCL of tests/cuda/fakes. Meetings live until the program ends: graphs that hold on to one may be dropped
// after it was closed.
#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "kernels/cuda/library/libraries.h"
#include "tests/cuda/fakes/nccl.h"

namespace {

std::vector<std::unique_ptr<shim::Meeting>> meetings;

int meet(void* meeting, size_t member, void* stream, void (*work)(void*), void* argument, void (*drop)(void*)) {
  return shim::enqueue_meeting(static_cast<cudaStream_t>(stream), *static_cast<shim::Meeting*>(meeting), member,
                               [work, held = std::shared_ptr<void>(argument, drop)] { work(held.get()); });
}

const FakeNcclHooks hooks{.open =
                              [](size_t members) {
                                meetings.push_back(std::make_unique<shim::Meeting>(members));
                                meetings.back()->members.reserve(members + 1);  // the staller may be a member
                                return static_cast<void*>(meetings.back().get());
                              },
                          .close = [](void*) {},
                          .abort = [](void* meeting) { static_cast<shim::Meeting*>(meeting)->aborted = true; },
                          .stall = [](void* meeting) { static_cast<shim::Meeting*>(meeting)->members.emplace_back(); },
                          .meet = meet};

}  // namespace

// Called when the module is asked for its tables: by then a test that wants the fake has named it.
void use_fake_nccl() {
  auto* const use = reinterpret_cast<decltype(&fake_nccl_use)>(perigee::cuda_library_function(perigee::CudaLibrary::nccl, "fake_nccl_use"));
  if (use != nullptr) use(&hooks);
}
