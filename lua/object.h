// C++ objects that Lua's collector owns, and lists of whole numbers.
#pragma once

#include <lua.hpp>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace perigee {

template <class T>
int destroy_object(lua_State* L) {
  static_cast<T*>(lua_touserdata(L, 1))->~T();
  return 0;
}

// Makes a T on the top of the stack, which the collector destroys.
template <class T, class... Arguments>
T& push_object(lua_State* L, const char* name, Arguments&&... arguments) {
  auto object = std::make_unique<T>(std::forward<Arguments>(arguments)...);
  T& made = *object;
  void* place = lua_newuserdata(L, sizeof(std::unique_ptr<T>));
  new (place) std::unique_ptr<T>(std::move(object));
  if (luaL_newmetatable(L, name)) {
    lua_pushcfunction(L, destroy_object<std::unique_ptr<T>>);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return made;
}

template <class T>
T& object_at(lua_State* L, int index, const char* name) {
  return **static_cast<std::unique_ptr<T>*>(luaL_checkudata(L, index, name));
}

inline std::vector<int> ints_at(lua_State* L, int index) {
  std::vector<int> values;
  for (size_t i = 1; lua_istable(L, index) && i <= lua_objlen(L, index); ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    values.push_back(static_cast<int>(lua_tointeger(L, -1)));
    lua_pop(L, 1);
  }
  return values;
}

inline void push_ints(lua_State* L, std::span<const int> values) {
  lua_createtable(L, static_cast<int>(values.size()), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    lua_pushinteger(L, values[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

}  // namespace perigee
