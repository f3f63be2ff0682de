// A table of plain values as a script writes it, where a shell hands it over: `--set 'clip={type="norm", threshold=1}'`. No Lua runs.
#pragma once

#include <optional>
#include <string_view>

#include "src/core/json.h"

namespace perigee {

// Numbers, texts in quotes, booleans, nil and tables of them: a table without keys is a list. Nothing when it is anything else, or mixes both.
std::optional<Json> read_lua_table(std::string_view text);

}  // namespace perigee
