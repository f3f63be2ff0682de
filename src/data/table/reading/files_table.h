// Several files with the same columns as one table: logs/*.txt. A column `file` says where a row comes from, so that each file can be a sequence.
#pragma once

#include <memory>
#include <string>

#include "src/data/table/columnar/columnar.h"
#include "src/data/table/reading/table_file.h"

namespace perigee::tables {

// Whether the path has * or ? in its last part, and is no file that is called so.
bool names_several(const std::string& path);
// Files in the order of their names, numbers in them by value; each is a chunk. A column has the narrowest type that fits those of all files; one that a
// file lacks is missing there. First lines that may be names are, where all files have the same. Error(data) when there are none.
std::unique_ptr<ColumnarFile> open_files(const std::string& pattern, const ReadOptions& options);

}  // namespace perigee::tables
