// Columns of one type each, a chunk of a table or a whole one, and the schema that names them. A schema is JSON that people may edit:
// {"columns": [{"name": "age", "type": "integer", "min": 0}, {"name": "city", "type": "category", "categories": ["Oslo", "Rome"]}]}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/json.h"

namespace perigee::tables {

enum class Type : uint8_t {
  integer,   // int64
  real,      // double
  text,      // bytes, UTF-8 by agreement
  category,  // one of the schema's categories
  time,      // milliseconds since 1970, UTC
  boolean,
  list  // of numbers: what steps make of a text
};

const char* type_text(Type type);

struct ColumnSpec {
  std::string name;
  Type type = Type::text;
  std::vector<std::string> categories = {};
  std::optional<double> least = {}, most = {};  // of numbers, of a text's length
  std::string pattern = {};                     // a regular expression that a whole text matches
  std::string format = {};                      // how a time is written ("%d.%m.%Y"); empty: ISO 8601
  bool required = false;                        // no cell may be missing

  bool operator==(const ColumnSpec&) const = default;
};

struct Dialect {
  char delimiter = ',', quote = '"', comment = 0;  // 0: there is none
  int64_t skip = 0;                                // lines before the table
  std::optional<bool> header = {};                 // none: found out
  std::optional<bool> trim = {};                   // blanks around fields do not count; none: found out
  std::string encoding = {};                       // of the text; empty: UTF-8, or UTF-16 where a byte order mark says so
  std::string lines = {};                      // a regular expression whose groups are the columns of each line; empty: the table is CSV
  std::string sequences = {}, separator = {};  // columnar/text/sequences.h; empty: rows are not in sequences
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"};
};

struct TableSchema {
  std::vector<ColumnSpec> columns = {};

  int64_t find(std::string_view name) const;  // -1: there is no such column
  // Error(data) at `where` with the nearest names.
  size_t at(std::string_view name, const std::string& where) const;
  std::vector<std::string> names() const;
};

// {"columns": [...]} and, where `dialect` is given, how the file is written.
Json schema_json(const TableSchema& schema, const Dialect* dialect = nullptr);
// Error(data) that names the key. What of the dialect stands in `json` goes into `dialect`.
TableSchema schema_of(const Json& json, const std::string& where, Dialect* dialect = nullptr);

struct Column {
  Type type = Type::text;
  std::vector<int64_t> whole = {};  // integer, time, boolean (0, 1), category (its number)
  std::vector<double> real = {};
  std::vector<uint64_t> ends = {};  // of each text in `bytes`, of each list in `items`
  std::string bytes = {};
  std::vector<double> items = {};
  std::vector<uint8_t> missing = {};  // 1: there is no value; empty: there are all

  Column() = default;
  explicit Column(Type of) : type(of) {}
  int64_t size() const;
  bool is_missing(int64_t row) const { return !missing.empty() && missing[static_cast<size_t>(row)] != 0; }
  std::string_view text(int64_t row) const {
    const auto r = static_cast<size_t>(row);
    const uint64_t begin = r == 0 ? 0 : ends[r - 1];
    return std::string_view(bytes).substr(begin, ends[r] - begin);
  }
  // A number of any type but text; NaN where there is none.
  double number(int64_t row) const;
  void reserve(int64_t rows);
  void add_whole(int64_t value);
  void add_real(double value);
  void add_text(std::string_view value);
  void add_missing();
  void add_from(const Column& other, int64_t row);  // of the same type
  void append(const Column& other);
  void set_missing(int64_t row);                         // of a row that is there
  Column rows(const std::vector<int64_t>& which) const;  // -1: missing
};

struct Frame {
  TableSchema schema = {};
  std::vector<Column> columns = {};
  int64_t rows = 0;
  // Rows that belong together: sequence i is the rows sequences[i] .. sequences[i + 1]. Empty: the table has no sequences.
  std::vector<int64_t> sequences = {};
  std::vector<int64_t> numbers = {};  // of the rows in what they come from, from 1; empty: they are not kept

  void add(ColumnSpec spec, Column column, int64_t before = -1);
  void remove(size_t column);
  void take(const std::vector<int64_t>& which);  // rows, in this order; no sequence is kept
  void append(const Frame& other);               // of the same schema
  // The rows of each sequence; of a table without sequences all of them.
  std::vector<int64_t> bounds() const;
};

Frame empty_frame(const TableSchema& schema);

// A cell as a text of CSV has it: shortest that reads back as the same number, ISO 8601 in UTC; empty where it is missing.
void append_cell(const Column& column, const ColumnSpec& spec, int64_t row, std::string& out);
std::string cell_text(const Column& column, const ColumnSpec& spec, int64_t row);
Json cell_json(const Column& column, const ColumnSpec& spec, int64_t row);

// Reads `text` as a value of the spec's type and adds it; false: it is none, and nothing is added.
bool add_parsed(const ColumnSpec& spec, std::string_view text, Column& column);

}  // namespace perigee::tables
