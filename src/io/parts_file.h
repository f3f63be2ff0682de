// Writing a file that is made part by part, without all of it in memory.
#pragma once

#include <functional>
#include <string>

namespace perigee {

// As write_file(): a temporary file, fsync, rename. `next` makes the next part in an empty text; false: it is the last.
void write_file_in_parts(const std::string& path, const std::function<bool(std::string& part)>& next);

}  // namespace perigee
