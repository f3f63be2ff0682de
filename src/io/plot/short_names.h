// Long names as tables have room for them: cut so that different names stay different.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace perigee {

// Each name in at most `most` characters (16 or more); `mark` stands for what is left out. Where the beginnings of two are equal, their ends are shown
// too; where these are equal as well, the place in the list, from 0.
std::vector<std::string> short_names(const std::vector<std::string>& names, size_t most, const std::string& mark = "...");

}  // namespace perigee
