// Runs of several workers in Lua, one's own and others': `perigee.native.cluster_run`, on which lua/perigee/run.lua builds them.
#pragma once

#include <lua.hpp>

namespace perigee {

void add_cluster_run_functions(lua_State* L);  // to the table on the top of the stack

}  // namespace perigee
