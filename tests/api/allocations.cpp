#include "tests/api/allocations.h"

#include <cstdlib>
#include <new>

thread_local long allocations = 0;

// The library's requests for memory come here, too. Not inlined: GCC would see `free` on what `new` returned, and warn.
#define COUNTED __attribute__((noinline))
COUNTED void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
COUNTED void* operator new(size_t bytes, std::align_val_t border) {
  ++allocations;
  const size_t align = static_cast<size_t>(border);
  if (void* memory = std::aligned_alloc(align, (bytes + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}
COUNTED void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes ? bytes : 1);
}
COUNTED void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
COUNTED void operator delete(void* memory) noexcept { std::free(memory); }
COUNTED void operator delete(void* memory, size_t) noexcept { std::free(memory); }
COUNTED void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
COUNTED void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
