// Columns of ours for another program: an ArrowArrayStream of one batch whose buffers are memory that lives on in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/data/table/columnar/arrow/perigee_arrow.h"

namespace perigee::tables::arrow {

// An array and what describes it: a column, or a part of one. No value is missing.
struct ExportNode {
  std::string name, format;  // as Arrow's C data interface writes formats: "g", "+w:3"
  int64_t length = 0;
  std::vector<const void*> buffers = {};  // the first is the bitmap: null
  std::vector<ExportNode> children = {};
  std::unique_ptr<ExportNode> dictionary = nullptr;
  std::vector<std::shared_ptr<const void>> owners = {};  // of the buffers
};

// `batch` is a struct whose children are the columns. The stream, its schema and its array are released one by one, in any order.
void give_stream(std::shared_ptr<const ExportNode> batch, ArrowArrayStream* out);

}  // namespace perigee::tables::arrow
