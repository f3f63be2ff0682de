// The elements of a MATLAB file of version 5 (those that R2006b to today write without -v7.3): arrays with a name, a size and values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables::matlab {

// An array of the file. Its numbers may be stored in a narrower type than they have.
struct Array {
  enum class Kind : uint8_t { numbers, texts, other };
  std::string name;
  Kind kind = Kind::other;
  bool real = false, logical = false;  // of numbers: not whole ones; true and false
  int64_t rows = 0, columns = 0;       // of more dimensions the last ones are columns
  uint32_t stored = 0;                 // the type of the values: miDOUBLE, ...
  std::span<const std::byte> values;   // column by column
  std::vector<std::string> texts;      // of each row
  std::string refusal;                 // why it is no table: of other
};

// All arrays, and what was decompressed for them.
struct Content {
  std::vector<Array> arrays;
  std::vector<Bytes> unpacked;
  bool swapped = false;  // the other order of bytes
};
// Error(data) with the offset.
Content read_content(const ColumnarInput& input);
Content read_content_4(const ColumnarInput& input);  // of version 4
// The same of a matrix as text: one array. Error(data) with line and column.
Content read_text_matrix(const ColumnarInput& input);

// Value `at` of the array.
double number_at(const Array& array, bool swapped, int64_t at);
int64_t whole_at(const Array& array, bool swapped, int64_t at);

}  // namespace perigee::tables::matlab
