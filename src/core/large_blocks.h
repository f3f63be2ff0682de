// Free blocks of 1 KiB to 32 MiB in lists by size, for arrays that come and go: the system would take their pages back and clear them anew for the
// next one, which costs several times as much as computing it. Plain data, for one thread at a time; `close` gives all back.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdlib>

#include "src/core/small_blocks.h"

namespace perigee {

struct LargeBlocks {
  static constexpr size_t kAlignment = 64, kLargest = size_t{32} << 20, kMostKept = size_t{64} << 20;  // bytes
  static constexpr int kSteps = 4;  // sizes between a power of two and the next

  static constexpr size_t rounded(size_t bytes) {
    const size_t step = std::bit_floor(bytes) / kSteps < kAlignment ? kAlignment : std::bit_floor(bytes) / kSteps;
    return (bytes + step - 1) / step * step;
  }

  // Null when there is no memory.
  void* take(size_t bytes) {
    if (bytes > kLargest) return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    const size_t size = rounded(bytes), list = list_of(size);
    if (!kKeepsBlocks || !lists[list]) return std::aligned_alloc(kAlignment, size);
    Free* const block = lists[list];
    lists[list] = block->next;
    kept -= size;
    return block;
  }

  void give(void* block, size_t bytes) {
    const size_t size = rounded(bytes);
    if (!kKeepsBlocks || closed || bytes > kLargest || kept + size > kMostKept) return std::free(block);
    auto* const free = static_cast<Free*>(block);
    free->next = lists[list_of(size)];
    lists[list_of(size)] = free;
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

  // The free list of a rounded size, at least 256.
  static constexpr size_t list_of(size_t size) {
    const int power = std::bit_width(size) - 1;
    return static_cast<size_t>(power * kSteps) + (size >> (power - 2) & 3);
  }

  struct Free {
    Free* next;
  };
  Free* lists[27 * kSteps];
  size_t kept;
  bool closed;
};
static_assert(LargeBlocks::list_of(LargeBlocks::rounded(LargeBlocks::kLargest)) < sizeof(LargeBlocks::lists) / sizeof(void*));

}  // namespace perigee
