// swapcontext asks the kernel for the signal mask at every switch, which is most of a test's time: where the instruction set is known the
// switch is the dozen instructions that it needs. Under address sanitizers it stays swapcontext, which they know.
#include "tests/cuda/shim/fiber.h"

#ifdef SHIM_OWN_SWITCH
#include <cstdint>

// Saves the registers that a call preserves on the stack that it leaves, and takes them from the one that it enters.
extern "C" void shim_switch(void** left, void* entered);
asm(R"(
  .text
  .type shim_switch, @function
shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size shim_switch, .-shim_switch
)");
#endif

namespace shim {

#ifdef SHIM_OWN_SWITCH

Fiber::Fiber(size_t stack_bytes, void (*main)()) : stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)) {
  auto** top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack_.get() + stack_bytes) / 16 * 16);
  *--top = nullptr;  // where `main` would return to; it leaves the border on which calls expect the stack
  *--top = reinterpret_cast<void*>(main);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  top_ = top;
}

void Fiber::go(Fiber& from, Fiber& to) { shim_switch(&from.top_, to.top_); }

#else

Fiber::Fiber(size_t stack_bytes, void (*main)()) : stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = stack_bytes;
  makecontext(&context_, main, 0);
}

void Fiber::go(Fiber& from, Fiber& to) { swapcontext(&from.context_, &to.context_); }

#endif

}  // namespace shim
