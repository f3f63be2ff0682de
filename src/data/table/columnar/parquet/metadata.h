// A Parquet file describes itself: columns and where the pages of each row group lie. https://github.com/apache/parquet-format
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/table/frame.h"
#include "src/io/file.h"

namespace perigee::tables::parquet {

enum class Physical : uint8_t { boolean, int32, int64, int96, float32, float64, bytes, fixed };
// How values of the physical type are meant.
enum class Meaning : uint8_t { plain, text, decimal, date, milliseconds, microseconds, nanoseconds, unsigned_integer, half, uuid };
enum class Codec : uint8_t { none, snappy, gzip, lzo, brotli, lz4, zstd, lz4_raw };

struct Leaf {
  std::string name;  // of a column inside a struct: "a.b"
  Physical physical = Physical::int32;
  Meaning meaning = Meaning::plain;
  int64_t width = 0;   // of fixed values; bits of unsigned ones
  int64_t scale = 0;   // of decimals
  int depth = 0;       // the definition level of a value; 0: none may be missing
  int lists = 0;       // how many lists or maps it lies in
  int list_depth = 0;  // the definition level of an element of the list, also of a missing one
  Type type = Type::integer;
};

struct Chunk {
  Codec codec = Codec::none;
  int64_t values = 0, bytes = 0;
  uint64_t begin = 0;  // of its first page
};

struct RowGroup {
  int64_t rows = 0;
  std::vector<Chunk> chunks;  // one for each leaf
};

struct Metadata {
  std::vector<Leaf> leaves;
  std::vector<RowGroup> groups;
};

// Error(data) with the offset for what is no such file or damaged.
Metadata read_metadata(std::span<const std::byte> file, const std::string& where);

struct PageHead {
  enum class Kind : uint8_t { data, index, dictionary, data2, other } kind = Kind::other;
  int64_t plain = 0, stored = 0;     // bytes
  int64_t values = 0;                // with the missing ones
  int64_t encoding = 0, levels = 3;  // of values; of definition levels
  int64_t depth_bytes = 0, repeat_bytes = 0;
  bool compressed = true, has_sum = false;
  uint32_t sum = 0;
  size_t head_bytes = 0;
};
PageHead read_page_head(std::span<const std::byte> bytes, const std::string& where, uint64_t offset);

}  // namespace perigee::tables::parquet
