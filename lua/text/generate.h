// Texts that models go on with, as Lua makes them: for run:generate and model:generate.
#pragma once

#include <lua.hpp>
#include <memory>

#include "src/generate/generation.h"

namespace perigee {

// The options at `index`, a table by the names of generate_schema. Error(usage) at `where`.
GenerateOptions generate_options_at(lua_State* L, int index, const std::string& where);
// On the top of the stack; the collector ends it. `own`: a model that the generation alone uses; null: `model` outlives it.
void push_generation(lua_State* L, std::unique_ptr<Model> own, Model& model, const Json& job, const Json& fitted,
                     const GenerateOptions& options, const std::string& where);
void add_generate_functions(lua_State* L);  // to the table on the top of the stack

}  // namespace perigee
