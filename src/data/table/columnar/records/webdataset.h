// A tar archive as WebDataset has it: files whose names are equal up to the first dot are one record, what follows the dot names a column. `.cls`
// is a whole number, `.npy` a list of numbers, the rest are bytes as text; `key` is the name.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

std::unique_ptr<ColumnarFile> open_webdataset(const ColumnarInput& input);

}  // namespace perigee::tables
