// MATLAB's .mat of version 5: arrays of as many rows are columns of a table, as in an archive of NumPy arrays. Version 7.3 is HDF5, which hdf5/ reads.
#pragma once

#include <memory>
#include <string_view>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables::matlab {

bool begins_as_mat(std::string_view head);
std::unique_ptr<ColumnarFile> open_mat(const ColumnarInput& input);

}  // namespace perigee::tables::matlab
