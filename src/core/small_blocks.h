// Free blocks in lists by size, for memory that comes and goes at every turn: handing one out is a few instructions where the system's
// allocator joins and splits. Plain data, for one thread at a time; `close` gives all back.
#pragma once

#include <cstddef>
#include <cstdlib>

#include "src/core/sanitizers.h"

namespace perigee {

#if defined(PERIGEE_ASAN) || defined(PERIGEE_TSAN)
inline constexpr bool kKeepsBlocks = false;  // every use after the end must be seen
#else
inline constexpr bool kKeepsBlocks = true;
#endif

// Sizes are multiples of `Step`, which is also the alignment (a power of two, 16 or more); `Sizes` of them, larger ones are not kept.
template <size_t Step, size_t Sizes>
struct SmallBlocks {
  static constexpr size_t kMostKept = size_t{16} << 20;  // bytes

  static constexpr size_t rounded(size_t bytes) { return bytes == 0 ? Step : (bytes + Step - 1) / Step * Step; }

  // Null when there is no memory.
  void* take(size_t bytes) {
    const size_t size = rounded(bytes), list = size / Step - 1;
    if (kKeepsBlocks && list < Sizes && lists[list]) {
      Free* const block = lists[list];
      lists[list] = block->next;
      kept -= size;
      return block;
    }
    return std::aligned_alloc(Step, size);
  }

  void give(void* block, size_t bytes) {
    const size_t size = rounded(bytes), list = size / Step - 1;
    if (!kKeepsBlocks || closed || list >= Sizes || kept + size > kMostKept) return std::free(block);
    auto* const free = static_cast<Free*>(block);
    free->next = lists[list];
    lists[list] = free;
    kept += size;
  }

  void close() {
    closed = true;
    for (Free*& list : lists)
      while (list) {
        Free* const block = list;
        list = block->next;
        std::free(block);
      }
  }

  struct Free {
    Free* next;
  };
  Free* lists[Sizes];
  size_t kept;
  bool closed;
};

}  // namespace perigee
