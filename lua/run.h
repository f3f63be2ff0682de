// Training runs in Lua, wherever they train: `perigee.native.run`, on which lua/perigee/run.lua builds pg.start and pg.attach.
#pragma once

#include <lua.hpp>
#include <memory>

#include "src/run/run.h"

namespace perigee {

void add_run_functions(lua_State* L);  // to the table on the top of the stack

// run_start.cpp. start(path or experiment, options): `options` has "script", the name to tell, and "set", a list of "path=value".
std::unique_ptr<Run> start_run(lua_State* L);
std::unique_ptr<Run> attach_run(lua_State* L);  // attach(address, options)

}  // namespace perigee
