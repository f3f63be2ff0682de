// Files whose columns have types of their own (Parquet, Arrow, SQLite, ARFF, ...): chunks of rows, each read by itself. table_file.h reads them
// beside CSV and JSON Lines.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/frame.h"
#include "src/io/file.h"

namespace perigee::tables {

class ColumnarFile {
 public:
  virtual ~ColumnarFile() = default;
  // All columns; those that cannot be read have a reason.
  virtual const TableSchema& schema() const = 0;
  // Empty, or why the column cannot be read.
  virtual std::string refusal(size_t /*column*/) const { return ""; }
  // The number of a column, which read() takes; -1: there is none. Formats that leave out zeros have columns that their schema does not name.
  virtual int64_t find(std::string_view name) const { return schema().find(name); }
  virtual int64_t chunks() const = 0;
  // The rows of one chunk, of the columns with these numbers. Thread-safe. Error(data) with the offset.
  virtual Frame read(int64_t chunk, std::span<const size_t> columns) const = 0;
};

// Where a table lies: `content` lives as long as `owner`, where there is one; `part` chooses one of several tables (a sheet, a data set).
struct ColumnarInput {
  std::string name, part;  // of errors; empty: the only one
  std::span<const std::byte> content;
  std::shared_ptr<const void> owner;
};

// Null where the first bytes and the name are of no such file. Error(data) for one that is damaged, and for a part that it has not.
std::unique_ptr<ColumnarFile> open_columnar(const std::string& path, const std::string& part, std::string_view head);
// The same of a folder that is a table as a whole.
std::unique_ptr<ColumnarFile> open_columnar_folder(const std::string& path);
// The same of content in memory, for formats that need no file of their own.
std::unique_ptr<ColumnarFile> open_columnar_content(const std::string& name, const std::string& part, std::span<const std::byte> content);

// How much a hostile file may make of itself, so that one of 1 MB takes less than 64 MB of memory: rows of a group or a batch.
inline int64_t most_rows(uint64_t file_bytes) { return (int64_t{4} << 20) + static_cast<int64_t>(file_bytes); }
// Bytes of a chunk's cells. Text grows by copies: it may be there twice.
inline uint64_t most_chunk(uint64_t file_bytes) { return (uint64_t{8} << 20) + 8 * file_bytes; }
// Bytes that are decompressed and taken apart at a time.
inline uint64_t most_page(uint64_t file_bytes) { return (uint64_t{16} << 20) + 8 * file_bytes; }
// The bytes of a chunk that its columns have not taken yet.
class Room {
 public:
  explicit Room(uint64_t file_bytes) : left_(most_chunk(file_bytes)) {}
  // False: there are not so many.
  bool take(uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  uint64_t left_;
};
constexpr uint64_t kCellBytes = 9;  // of a number, or of a text without its letters, and of whether it is missing

// Columns: each has a few bytes in the file, and some hundred in memory.
inline uint64_t most_columns(uint64_t file_bytes) { return 4096 + file_bytes / 64; }
// Rows of a chunk of so many columns, so that its cells take a few MiB.
inline int64_t chunk_rows(size_t columns) {
  return std::clamp<int64_t>((int64_t{1} << 19) / static_cast<int64_t>(std::max<size_t>(columns, 1)), 1, 65536);
}

}  // namespace perigee::tables
