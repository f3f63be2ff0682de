// Shared by the fuzz programs. Each feeds arbitrary bytes to one parser: it either succeeds or throws perigee::Error; anything else,
// a sanitizer's finding or a failed check, stops the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#define PERIGEE_FUZZ_CHECK(condition)                   \
  do {                                                  \
    if (!(condition)) {                                 \
      std::fprintf(stderr, "broken: %s\n", #condition); \
      std::abort();                                     \
    }                                                   \
  } while (false)

namespace perigee {

inline std::span<const std::byte> fuzz_bytes(const uint8_t* data, size_t size) { return {reinterpret_cast<const std::byte*>(data), size}; }

// The bytes as a row of decisions; zeros when there are no more.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t byte() { return at_ < size_ ? data_[at_++] : uint8_t{0}; }
  uint16_t word() { return static_cast<uint16_t>(byte() | byte() << 8); }
  bool empty() const { return at_ >= size_; }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

}  // namespace perigee
