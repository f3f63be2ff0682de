// How a line that is written as in Python, C or JavaScript is said in Lua: for errors. It reads the line only where Lua has refused it.
#pragma once

#include <string>
#include <string_view>

namespace perigee {

// `message` is Lua's. Empty: nothing is known.
std::string syntax_hint(std::string_view line, std::string_view message);
// For names that others have and Lua has not: "attempt to call global 'len' (a nil value)".
std::string foreign_name_hint(std::string_view message);

}  // namespace perigee
