// Training runs in Lua: `perigee.native.run`, on which lua/perigee/run.lua builds pg.start.
#pragma once

#include <lua.hpp>

namespace perigee {

void add_run_functions(lua_State* L);  // to the table on the top of the stack

}  // namespace perigee
