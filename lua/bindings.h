// The `perigee.native` module: what lua/perigee/*.lua need to know of the registries. Check, call, push; no logic.
#pragma once

#include <lua.hpp>

namespace perigee {

// Where LuaState keeps the script that it loaded last, in the registry.
inline constexpr const char* kScriptName = "perigee.script.name";
inline constexpr const char* kScriptText = "perigee.script.text";
// The text of the last Error(data) that a function of ours reported, in the registry: a script that ends with it ends for want of its data.
inline constexpr const char* kDataError = "perigee.data.error";

int open_bindings(lua_State* L);

}  // namespace perigee
