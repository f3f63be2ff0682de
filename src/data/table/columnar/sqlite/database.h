// The file of an SQLite 3 database: pages, trees of rows, records (https://www.sqlite.org/fileformat2.html). Read only, and from memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/columnar/untyped.h"
#include "src/io/file.h"

namespace perigee::tables::sqlite {

// Cells from, ..., to - 1 of a page.
struct CellRange {
  uint32_t page = 0, from = 0, to = 0;
};

class Database {
 public:
  // Error(data) with the offset for what is no such file.
  Database(std::string name, std::span<const std::byte> content, std::shared_ptr<const void> owner);

  const std::string& name() const { return name_; }
  uint64_t bytes() const { return content_.size(); }
  // The pages of a tree in the order of its rows. Each page is met once.
  std::vector<CellRange> ranges(uint32_t root) const;
  // Records of a range: the row's number (0 in trees of keys) and its fields, which live as long as the call. The sum of the bytes goes into `bytes`.
  using Use = std::function<void(int64_t rowid, std::span<const Cell> fields)>;
  uint64_t each(const CellRange& range, const Use& use) const;
  [[noreturn]] void damaged(const std::string& what, uint64_t at) const;

 private:
  struct Page {
    uint64_t begin = 0;  // in the file
    uint8_t kind = 0;
    uint32_t header = 0, cells = 0;  // where its header begins
    bool leaf() const { return (kind & 8) != 0; }
    bool rows() const { return (kind & 1) != 0; }  // else keys
  };
  Page page(uint32_t number) const;
  uint64_t number(uint64_t at, size_t size) const;
  int64_t varint(uint64_t& at, uint64_t end) const;
  uint64_t cell_at(const Page& page, uint32_t cell) const;
  std::string_view payload(const Page& page, uint64_t at, uint64_t size, std::string& memory) const;
  void fields(std::string_view record, uint64_t at, std::vector<Cell>& cells, std::string& texts) const;
  Cell field(uint64_t type, std::string_view bytes, uint64_t at, std::string& texts) const;

  std::string name_;
  std::span<const std::byte> content_;
  std::shared_ptr<const void> owner_;
  uint32_t page_size_ = 0, usable_ = 0, pages_ = 0;
  uint32_t encoding_ = 1;  // 1: UTF-8, 2 and 3: UTF-16, little and big end first
};

}  // namespace perigee::tables::sqlite
