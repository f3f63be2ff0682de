// Files of records that name their fields themselves (TFRecord, WebDataset, MDS, LMDB): a first pass finds out which columns there are and which
// types hold all that they have, then chunks are read.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/columnar/columnar.h"
#include "src/data/table/columnar/untyped.h"

namespace perigee::tables {

// A field of a record: a cell, or numbers. What is_list says of a field with one number or none decides nothing if others have more.
struct RecordField {
  std::string_view name;
  Cell cell = {};
  bool is_list = false;
  std::vector<double> list = {};
  std::string_view refusal = {};  // why the column is not read
};

class RecordTable : public ColumnarFile {
 public:
  const TableSchema& schema() const override { return schema_; }
  std::string refusal(size_t column) const override { return refusals_[column]; }
  int64_t chunks() const override { return static_cast<int64_t>((records() + chunk_ - 1) / chunk_); }
  Frame read(int64_t chunk, std::span<const size_t> columns) const override;

 protected:
  using Use = std::function<void(std::span<const RecordField> fields)>;
  virtual uint64_t records() const = 0;
  // Records first, ... first + count - 1, in their order. Fields live as long as the call.
  virtual void each(uint64_t first, uint64_t count, const Use& use) const = 0;
  // Looks at all of them; to be called by the constructor of what inherits. `bytes`: of the records;
  // `stored`: of the file, which may be compressed.
  void find_columns(const std::string& name, uint64_t bytes, uint64_t stored);
  void find_columns(const std::string& name, uint64_t bytes) { find_columns(name, bytes, bytes); }

 private:
  std::string name_;
  uint64_t stored_ = 0, chunk_ = 1;
  TableSchema schema_;
  std::vector<std::string> refusals_;
  std::map<std::string, size_t, std::less<>> numbers_;
};

}  // namespace perigee::tables
