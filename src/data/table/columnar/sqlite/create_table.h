// The columns of a table by its CREATE TABLE statement, as SQLite keeps it in its schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perigee::tables::sqlite {

struct DeclaredColumn {
  std::string name, type;   // the type in capitals, as it is declared
  std::string otherwise;    // the literal after DEFAULT, as it is written; empty: NULL
  bool primary = false;     // part of the key, in this order: `key`
  bool descending = false;  // "PRIMARY KEY DESC" is no name of the row's number
};

struct DeclaredTable {
  std::vector<DeclaredColumn> columns;
  std::vector<size_t> key;     // columns of PRIMARY KEY, in its order
  bool without_rowid = false;  // rows lie in the tree of the key
  int64_t rowid = -1;          // the column that is the row's number
};

// Error(data) at `where` for what is no such statement, and for columns that are computed.
DeclaredTable create_table(std::string_view sql, const std::string& where);

}  // namespace perigee::tables::sqlite
