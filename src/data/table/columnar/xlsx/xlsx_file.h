// A sheet of a workbook (.xlsx) as columns. Its first row names them where it has only texts; rows without a value do not count. FILE#SHEET
// chooses another sheet than the first.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables::xlsx {

std::unique_ptr<ColumnarFile> open_xlsx(const ColumnarInput& input);

}  // namespace perigee::tables::xlsx
