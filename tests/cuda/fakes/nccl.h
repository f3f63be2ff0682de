// The interface of the host's NCCL to the stand-in of CUDA's runtime (tests/cuda/shim/meetings.cpp).
#pragma once

#include <cstddef>

struct FakeNcclHooks {
  void* (*open)(size_t members) = nullptr;
  void (*close)(void* meeting) = nullptr;
  void (*abort)(void* meeting) = nullptr;
  void (*stall)(void* meeting) = nullptr;  // from now on no member leaves, until it is aborted
  // Queues `work(argument)`, done once all members' streams have got there.
  int (*meet)(void* meeting, size_t member, void* stream, void (*work)(void*), void* argument, void (*drop)(void*)) = nullptr;
};

extern "C" void fake_nccl_use(const FakeNcclHooks* hooks);
