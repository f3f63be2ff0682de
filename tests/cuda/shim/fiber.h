// A stack and where on it a thread of a kernel goes on.
#pragma once

#include <cstddef>
#include <memory>

#include "src/core/sanitizers.h"

#if defined(__x86_64__) && !defined(PERIGEE_ASAN)
#define SHIM_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif

namespace shim {

class Fiber {
 public:
  Fiber() = default;  // the stack that runs already
  // `main` is called at the first switch and never returns.
  Fiber(size_t stack_bytes, void (*main)());
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Continues there; returns when another fiber switches back to `from`.
  static void go(Fiber& from, Fiber& to);

 private:
  std::unique_ptr<std::byte[]> stack_;
#ifdef SHIM_OWN_SWITCH
  void* top_ = nullptr;
#else
  ucontext_t context_ = {};
#endif
};

}  // namespace shim
