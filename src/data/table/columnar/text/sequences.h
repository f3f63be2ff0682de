// CSV files that hold several sequences, with a line between two of them: each row gets the number of its sequence, so that {"sequence": "sequence"}
// makes sequences of them.
#pragma once

#include <memory>
#include <string>

#include "src/data/table/frame.h"
#include "src/data/table/reading/byte_stream.h"

namespace perigee::tables {

inline constexpr const char* kSequenceColumn = "sequence";

// CSV whose first column is the number of the sequence, from 1; the others by `dialect.sequences`:
//   rows     the fields of each line, which is a step; with a header line for `dialect.header`
//   columns  each line of a sequence is a column, its fields are the steps; as many in each
//   padded   the same, and what is missing at the end of a line is a missing value
//   joined   the fields of all lines of a sequence, one after another, as one column
// Between two sequences is a line that is `dialect.separator`, or a blank one where that is empty. Error(data) names the line.
std::unique_ptr<ByteStream> stream_of_sequences(std::unique_ptr<ByteStream> stream, const Dialect& dialect, const std::string& where);

}  // namespace perigee::tables
