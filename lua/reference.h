// The registries' facts about layers, optimisers, ...: the one source of help, completion and editors' annotations.
#pragma once

#include <lua.hpp>
#include <vector>

#include "src/core/schema.h"

namespace perigee {

// native.reference(): {{family=, name=, doc=, example = {description} or nil, positional = {names}, options = {...}}, ...,
//                       common = options of every layer}; a family without members is one entry of its own name
int push_reference(lua_State* L);

// {{name=, type=, range=, fallback=, doc=, units=, family=, required=}, ...}; an absent text is nil
void push_options(lua_State* L, const std::vector<const Option*>& options);

}  // namespace perigee
