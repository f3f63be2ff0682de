// A table that the program which embeds Perigee has handed over, as a source: {"type": "table", "host": "train"} prepares it by steps, and
// {"type": "host", "name": "train"} reads its columns in place, each a field of its name.
#pragma once

#include <memory>
#include <string>

#include "src/data/source.h"
#include "src/data/table/columnar/arrow/c_table.h"

namespace perigee {

using TablePtr = std::shared_ptr<const tables::arrow::HandedTable>;

// A name for the table where sources are known by name; it has no fields of its own.
class HandedSource : public DataSource {
 public:
  explicit HandedSource(TablePtr table) : table_(std::move(table)) {}
  const TablePtr& table() const { return table_; }
  int64_t size() const override { return table_->rows(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey&, std::span<std::byte* const>) const override {}
  SourceTraits traits() const override { return {.description = "table " + table_->name()}; }

 private:
  TablePtr table_;
  std::vector<Field> fields_;
};

// The columns as fields: floats, integers, booleans, lists of one length of them, texts that a dictionary numbers. Batches of examples are read
// from the memory of the library that made the table; what has another form than fields have (booleans, integers of 8 and 16 bits, unsigned ones) is
// converted once. An integer column "y" is a class label, and so is a dictionary's, with its texts as names of the classes.
// Error(data) that names a column which is none of these, or has rows without a value.
SourcePtr fields_in_place(const TablePtr& table);

}  // namespace perigee
