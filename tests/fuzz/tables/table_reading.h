// The fuzz programs of tables' formats share this: whatever is accepted has columns as long as its rows, can be written as text, and has taken no more
// than 64 MiB at any time, of a file of up to 1 MiB.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "src/core/error.h"
#include "src/data/table/columnar/columnar.h"
#include "tests/fuzz/fuzz.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PERIGEE_COUNTS_MEMORY 1
#endif
#endif

#ifdef PERIGEE_COUNTS_MEMORY
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t), void (*)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void*);
#endif

namespace perigee::tables {

inline constexpr int64_t kMostBytes = int64_t{64} << 20;

struct AllocatedBytes {
  std::atomic<int64_t> now = 0, most = 0;

  static AllocatedBytes& here() {
    static AllocatedBytes bytes;
    return bytes;
  }
  void start() {
#ifdef PERIGEE_COUNTS_MEMORY
    static const int installed = __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void*, size_t size) {
          AllocatedBytes& bytes = here();
          const int64_t now = bytes.now += static_cast<int64_t>(size);
          if (now > bytes.most) bytes.most = now;
        },
        [](const volatile void* block) {
          if (block != nullptr) here().now -= static_cast<int64_t>(__sanitizer_get_allocated_size(block));
        });
    static_cast<void>(installed);
#endif
    now = most = 0;
  }
};

inline void read_all(const ColumnarFile& file) {
  for (size_t c = 0; c < file.schema().columns.size() && c < 64; ++c) {
    if (!file.refusal(c).empty()) continue;
    const size_t one[] = {c};
    for (int64_t chunk = 0; chunk < file.chunks() && chunk < 8; ++chunk) {
      try {
        const Frame frame = file.read(chunk, one);
        PERIGEE_FUZZ_CHECK(frame.columns.size() == 1 && frame.columns[0].size() == frame.rows);
        PERIGEE_FUZZ_CHECK(frame.columns[0].missing.empty() || frame.columns[0].missing.size() == static_cast<size_t>(frame.rows));
        for (int64_t r = 0; r < frame.rows && r < 100; ++r) cell_text(frame.columns[0], frame.schema.columns[0], r);
      } catch (const Error&) {}
    }
  }
  // All columns of a chunk at once take no more.
  std::vector<size_t> all;
  for (size_t c = 0; c < file.schema().columns.size(); ++c)
    if (file.refusal(c).empty()) all.push_back(c);
  try {
    if (file.chunks() > 0 && !all.empty()) {
      const Frame frame = file.read(0, all);
      for (const Column& column : frame.columns) PERIGEE_FUZZ_CHECK(column.size() == frame.rows);
    }
  } catch (const Error&) {}
}

// `open` makes a file of the bytes, or none.
template <class Open>
int fuzz_table(const uint8_t* data, size_t size, Open open) {
  AllocatedBytes& bytes = AllocatedBytes::here();
  bytes.start();
  try {
    if (const std::unique_ptr<ColumnarFile> file = open(fuzz_bytes(data, size))) read_all(*file);
  } catch (const Error&) {}
  PERIGEE_FUZZ_CHECK(size > size_t{1} << 20 || bytes.most <= kMostBytes);
  return 0;
}

// By the name and the first bytes, as files are.
inline int fuzz_table(const uint8_t* data, size_t size, const char* name) {
  return fuzz_table(data, size, [name](std::span<const std::byte> input) { return open_columnar_content(name, "", input); });
}

}  // namespace perigee::tables
