// Memory for whole columns. A page of 4 KiB that is touched for the first time costs more than computing what is put into it: large columns ask the
// system for pages of 2 MiB, where it has them.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <vector>

namespace perigee::tables {

// All of these bytes will be written. Nothing but speed depends on it.
inline void expect_all_of([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr size_t kLarge = size_t{4} << 20, kPage = 4096;
  if (bytes < kLarge) return;
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kPage * kPage;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

template <class T>
void reserve_large(std::vector<T>& values, size_t count) {
  if (count <= values.capacity()) return;
  values.reserve(count);
  expect_all_of(values.data(), count * sizeof(T));
}

template <class T>
void resize_large(std::vector<T>& values, size_t count) {
  reserve_large(values, count);
  values.resize(count);
}

}  // namespace perigee::tables
