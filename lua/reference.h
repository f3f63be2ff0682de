// The registries' facts about layers, optimisers, ...: the one source of help, completion and editors' annotations.
#pragma once

#include <lua.hpp>

namespace perigee {

// native.reference(): {{family=, name=, doc=, example = {description} or nil, positional = {names},
//                       options = {{name=, type=, fallback=, doc=}, ...}, common = {...} of layers}, ...}
// An option without a fallback is required where its type is known; type and the rest are missing where the registry only reads a name.
int push_reference(lua_State* L);

}  // namespace perigee
