// The encodings of Parquet's pages: bytes to numbers and pieces of text. All of them are bounded by what the page has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/columnar/parquet/metadata.h"
#include "src/io/damaged.h"

namespace perigee::tables::parquet {

// Where a page's bytes are read, for errors.
struct Place {
  std::string where;
  uint64_t offset = 0;
  uint64_t room = 0;  // bytes of text that a page may be taken apart to
  [[noreturn]] void damaged(const char* what, const char* hint = kGetAnew) const;
};

// Values of one physical type that are there: one of the lists has them. Texts lie in the page or in `made`.
struct Values {
  std::vector<int64_t> whole;
  std::vector<double> real;
  std::vector<std::string_view> texts;
  std::string made;
};

// Runs and bit-packed groups of numbers of `width` bits (0 to 32), `count` of them. What is used of `bytes`.
size_t read_runs(std::span<const std::byte> bytes, int width, size_t count, uint32_t* out, const Place& place);
// The same, where all of them are one value: true, and `value`; nothing is written.
bool is_one_run(std::span<const std::byte> bytes, int width, size_t count, uint32_t* value);

// Appends nothing, but fills `out`, which is cleared first. Error(data) for an encoding that there is not.
void read_values(std::span<const std::byte> bytes, int64_t encoding, const Leaf& leaf, size_t count, Values& out, const Place& place);

}  // namespace perigee::tables::parquet
