// Names chosen by a pattern such as "conv*": in a job's "recompute", "freeze", "skip" and fragments.
#pragma once

#include <string_view>

namespace perigee {

// '*' stands for any characters, none included.
bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace perigee
