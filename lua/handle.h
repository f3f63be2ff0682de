// A C++ object in a userdata of Lua: until its `close`, or until it is collected.
#pragma once

#include <lua.hpp>
#include <memory>
#include <new>

#include "src/core/error.h"

namespace perigee {

// `Type` names the metatable, in any interpreter's registry.
template <class T, const char* Type>
struct LuaHandle {
  using Owner = std::unique_ptr<T>;

  // Error(usage) when it was closed.
  static T& at(lua_State* L, int index) {
    auto& owner = *static_cast<Owner*>(luaL_checkudata(L, index, Type));
    if (!owner) throw Error(ErrorKind::usage, {.where = "run", .what = "it was closed"});
    return *owner;
  }

  // On the top of the stack; what is assigned to it is owned by Lua.
  static Owner& push(lua_State* L) {
    auto* owner = new (lua_newuserdata(L, sizeof(Owner))) Owner();
    luaL_getmetatable(L, Type);
    lua_setmetatable(L, -2);
    return *owner;
  }

  static int close(lua_State* L) {
    static_cast<Owner*>(luaL_checkudata(L, 1, Type))->reset();
    return 0;
  }

  static void add_type(lua_State* L) {
    luaL_newmetatable(L, Type);
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
  }
};

}  // namespace perigee
