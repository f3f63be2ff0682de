// Writes chunks of a table: CSV (.csv, .tsv) and JSON Lines (.jsonl, .ndjson) as they come, an array for each column (.npz) at the end. The
// file has its name once it is whole.
#pragma once

#include <memory>
#include <string>

#include "src/data/table/frame.h"

namespace perigee::tables {

class TableWriter {
 public:
  virtual ~TableWriter() = default;
  virtual void add(const Frame& frame) = 0;
  virtual void finish() = 0;
};

// Error(usage) for another suffix.
std::unique_ptr<TableWriter> write_table(const std::string& path);

}  // namespace perigee::tables
