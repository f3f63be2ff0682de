// Data sets of an HDF5 file as columns: each one of its rows is a row, the members of a compound are columns, and so are the numbers of a row
// ("x[0]", "x[1]", ...), or a list where there are many. FILE#PATH chooses a data set or a group; without it all must have as many rows.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

std::unique_ptr<ColumnarFile> open_hdf5(const ColumnarInput& input);

}  // namespace perigee::tables
