// The Lua files of lua/perigee, embedded in the program by the build: `require "perigee"` works wherever the program lies.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace perigee {

struct LuaModule {
  const char* name = nullptr;             // "perigee.layers"
  std::span<const unsigned char> packed;  // the text, deflated
  size_t size = 0;                        // of the text

  std::string text() const;
};

std::span<const LuaModule> lua_modules();

inline const LuaModule* find_lua_module(std::string_view name) {
  for (const LuaModule& module : lua_modules())
    if (name == module.name) return &module;
  return nullptr;
}

}  // namespace perigee
