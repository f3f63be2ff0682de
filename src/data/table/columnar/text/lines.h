// Lines of text that a regular expression takes apart, such as those of a log: each group of it is a column.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/table/reading/byte_stream.h"

namespace perigee::tables {

// The columns' names: those of named groups, (?<city>\w+), and c0, c1, ... by the number of the group. Error(data) for a pattern without groups.
std::vector<std::string> names_of_groups(const std::string& pattern, const std::string& where);

// The lines of `stream` as CSV, one for one, without a header; the first `skip` ones become empty ones. Error(data) names a line that the whole pattern
// does not match, unless it is blank. A group that takes no part in the match is an empty field.
std::unique_ptr<ByteStream> stream_of_lines(std::unique_ptr<ByteStream> stream, const std::string& pattern, int64_t skip,
                                            const std::string& where);

}  // namespace perigee::tables
