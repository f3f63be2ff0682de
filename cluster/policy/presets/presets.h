// The averaging policies of the library, embedded by the build: NAME.json, traced from lua/perigee/averaging/NAME.lua.
#pragma once

#include <span>
#include <string_view>

namespace perigee {

struct Preset {
  const char* name = nullptr;
  std::string_view text;  // JSON; policy.cpp says what it may hold
};

std::span<const Preset> presets();

}  // namespace perigee
