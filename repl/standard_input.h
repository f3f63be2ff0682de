// Standard input as a file that is read whole, and what a child process printed, line by line.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "src/io/file.h"

namespace perigee {

inline constexpr const char* kStandardInput = "standard input";

// To its end. Error(usage) at a terminal, Error(resources) beyond 16 GiB.
Bytes read_standard_input();

void for_each_line(std::FILE* file, const std::function<void(std::string_view line)>& take);

}  // namespace perigee
