// Files of tensors: what lua/perigee/tensor/files.lua calls.
#include <string>

#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/eager/files.h"

namespace perigee {
namespace {

thread_local ArrayFile last_read;  // until Lua has made tensors for its arrays

std::vector<std::string> strings_at(lua_State* L, int index) {
  std::vector<std::string> strings;
  for (size_t i = 1; lua_istable(L, index) && i <= lua_objlen(L, index); ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    size_t length = 0;
    const char* text = lua_tolstring(L, -1, &length);
    strings.emplace_back(text ? std::string(text, length) : "");
    lua_pop(L, 1);
  }
  return strings;
}

// read(path): whether by name, { names }, { metadata }, { header }
int read(lua_State* L) {
  last_read = read_arrays(luaL_checkstring(L, 1));
  lua_pushboolean(L, last_read.named);
  lua_newtable(L);
  for (size_t i = 0; i < last_read.arrays.size(); ++i) {
    lua_pushlstring(L, last_read.arrays[i].first.data(), last_read.arrays[i].first.size());
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_newtable(L);
  for (const auto& [key, value] : last_read.metadata) {
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, key.c_str());
  }
  lua_newtable(L);
  for (size_t i = 0; i < last_read.header.size(); ++i) {
    lua_pushlstring(L, last_read.header[i].data(), last_read.header[i].size());
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 4;
}

// read_result(index, out)
int read_result(lua_State* L) {
  const auto index = static_cast<size_t>(luaL_checkinteger(L, 1)) - 1;
  if (index >= last_read.arrays.size())
    throw Error(ErrorKind::usage, {.what = "the file has no such array",
                                   .got = std::to_string(index + 1),
                                   .expected = "1 to " + std::to_string(last_read.arrays.size())});
  give_array(L, 2, std::move(last_read.arrays[index].second));
  lua_pushboolean(L, 1);
  return 1;
}

// write(path, named, { names }, { keys }, { values }, { header }, tensor...)
int write(lua_State* L) {
  ArrayFile file{.named = lua_toboolean(L, 2) != 0, .arrays = {}, .metadata = {}, .header = strings_at(L, 6)};
  const std::vector<std::string> names = strings_at(L, 3), keys = strings_at(L, 4), values = strings_at(L, 5);
  for (size_t i = 0; i < keys.size() && i < values.size(); ++i) file.metadata[keys[i]] = values[i];
  for (size_t i = 0; i < names.size(); ++i) file.arrays.emplace_back(names[i], check_array(L, 7 + static_cast<int>(i)));
  write_arrays(luaL_checkstring(L, 1), file);
  lua_pushboolean(L, 1);
  return 1;
}

}  // namespace

void add_tensor_files(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"read", report<read>}, {"read_result", report<read_result>}, {"write", report<write>}, {nullptr, nullptr}};
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
