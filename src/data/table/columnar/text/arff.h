// Weka's ARFF, dense and sparse rows: numeric attributes are real, nominal ones categories, dates times, strings texts; ? is missing.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

std::unique_ptr<ColumnarFile> open_arff(const ColumnarInput& input);
// Whether a text begins as one: comments, then @relation.
bool begins_as_arff(std::string_view head);

}  // namespace perigee::tables
