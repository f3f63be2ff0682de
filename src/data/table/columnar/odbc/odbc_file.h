// Rows of a database by ODBC, whose library is loaded on first use: "odbc:DSN=shop#orders", "odbc:Driver=SQLite3;Database=a.db#SELECT a FROM t".
// Drivers trust their servers, and may do what they like in this process: such a name comes from a job, never from a file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

inline bool is_odbc(std::string_view path) { return path.starts_with("odbc:"); }

// The part between "odbc:" and the first '#', and behind that a table or a SELECT.
struct OdbcPlace {
  std::string connection, part;
  std::string shown;  // for messages: without a password
};
OdbcPlace odbc_place(std::string_view path);

// Reads all rows. Error(data) for what the driver says, Error(resources) when the library is not there or the rows are too many.
std::unique_ptr<ColumnarFile> open_odbc(const OdbcPlace& place);

}  // namespace perigee::tables
