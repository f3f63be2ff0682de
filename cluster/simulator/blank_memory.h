// Memory as large as asked for that is one small piece over and over, so that it stays in the cache and costs nothing. What is written
// appears in many places: for bytes that are never read.
#pragma once

#include <cstddef>
#include <span>

namespace perigee::sim {

class BlankMemory {
 public:
  explicit BlankMemory(size_t bytes);  // Error(resources)
  ~BlankMemory();
  BlankMemory(const BlankMemory&) = delete;
  BlankMemory& operator=(const BlankMemory&) = delete;
  std::span<std::byte> bytes() const { return {base_, size_}; }

 private:
  std::byte* base_ = nullptr;
  size_t size_ = 0, mapped_ = 0;
};

}  // namespace perigee::sim
