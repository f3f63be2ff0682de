// Wraps a Lua C function so that no C++ exception leaves it (src/ARCHITECTURE.md, decision 10).
#pragma once

#include <cstdio>
#include <exception>
#include <lua.hpp>

namespace perigee {

// Lua's own errors pass through untouched (never `catch (...)`: LuaJIT unwinds with its own exceptions). The text is copied out
// of the handler first, because raising inside it would leak the exception object.
template <int (*Function)(lua_State*)>
int guard(lua_State* L) {
  char text[2048];
  try {
    return Function(L);
  } catch (const std::exception& error) {
    std::snprintf(text, sizeof text, "%s", error.what());
  }
  luaL_where(L, 1);
  lua_pushstring(L, text);
  lua_concat(L, 2);
  return lua_error(L);
}

}  // namespace perigee
