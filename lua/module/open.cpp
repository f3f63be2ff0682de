// The Lua module perigee.so calls this: `require "perigee"` in an interpreter that is not ours. Not part of the stable interface.
#include <lua.hpp>

#include "lua/state.h"

extern "C" __attribute__((visibility("default"))) int perigee_luaopen(lua_State* L) {
  perigee::preload_modules(L);
  lua_getfield(L, LUA_GLOBALSINDEX, "package");
  lua_getfield(L, -1, "preload");
  lua_getfield(L, -1, "perigee");
  lua_pushliteral(L, "perigee");
  lua_call(L, 1, 1);
  return 1;
}
