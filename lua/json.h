// Lua values as JSON and back.
#pragma once

#include <lua.hpp>
#include <string>

#include "src/core/json.h"

namespace perigee {

// The value at `index`. Tables whose keys are 1..n are arrays, tables with text keys are objects with their keys in order; an
// empty table is an object unless pg.list made it. Whole numbers become integers. Metatables are not looked at,
// but for those of data sources, which are userdata with a description. Error(model)
// names the path of what cannot be told in JSON: functions, mixed keys, holes, cycles, depth beyond 64, NaN, text not in UTF-8.
// `where` begins the path.
Json to_json(lua_State* L, int index, const std::string& where);

void push_json(lua_State* L, const Json& json);

// Marks the table on the top of the stack as a list, also when it is empty.
void mark_list(lua_State* L);

}  // namespace perigee
