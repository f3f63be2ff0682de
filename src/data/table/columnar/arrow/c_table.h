// A table that another part of the program has handed over by an ArrowArrayStream: its batches stay where they are, and are released with their
// last reader. A batch is a chunk. Numbers in it that need no change can be read in place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/table/columnar/arrow/c_column.h"
#include "src/data/table/columnar/arrow/c_owner.h"
#include "src/data/table/columnar/columnar.h"

namespace perigee::tables::arrow {

class HandedTable : public ColumnarFile {
 public:
  // Takes the stream to its end, and releases it, whatever happens. `name` begins messages. Error(data) with what the stream says of its
  // failure, and where its structures are not as the specification wants them.
  HandedTable(ArrowArrayStream* stream, const std::string& name);
  // The same of a table in one batch.
  HandedTable(ArrowSchema* schema, ArrowArray* array, const std::string& name);

  const std::string& name() const { return name_; }
  int64_t rows() const { return rows_; }
  const std::vector<Leaf>& leaves() const { return leaves_; }
  // A column of one batch, where it lies.
  CColumn column(int64_t batch, size_t leaf) const;

  const TableSchema& schema() const override { return schema_; }
  std::string refusal(size_t column) const override { return leaves_[column].field.refusal; }
  int64_t chunks() const override { return static_cast<int64_t>(batches_.size()); }
  Frame read(int64_t chunk, std::span<const size_t> columns) const override;

 private:
  void take_schema(const ArrowSchema& schema);
  void add_batch(ArrowArray* array);

  std::string name_;
  std::vector<Leaf> leaves_;
  TableSchema schema_;
  std::vector<std::unique_ptr<Owned<ArrowArray>>> batches_;
  int64_t rows_ = 0;
};

}  // namespace perigee::tables::arrow
