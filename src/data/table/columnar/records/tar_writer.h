// Writes a tar archive as WebDataset reads it: a row is the files KEY.COLUMN, by the column `key`, or by the row's number where there is none. Lists are
// .npy files, other cells their text.
#pragma once

#include <memory>
#include <string>

#include "src/data/table/write_table.h"

namespace perigee::tables {

std::unique_ptr<TableWriter> write_tar(const std::string& path);

}  // namespace perigee::tables
