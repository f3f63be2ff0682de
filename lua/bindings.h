// The `perigee.native` module: what lua/perigee/*.lua need to know of the registries. Check, call, push; no logic.
#pragma once

#include <lua.hpp>

namespace perigee {

// Where LuaState keeps the script that it loaded last, in the registry.
inline constexpr const char* kScriptName = "perigee.script.name";
inline constexpr const char* kScriptText = "perigee.script.text";

int open_bindings(lua_State* L);

}  // namespace perigee
