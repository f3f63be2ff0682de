#include "lua/text/generate.h"

#include "lua/json.h"
#include "lua/object.h"
#include "lua/state.h"
#include "lua/tensor.h"

namespace perigee {
namespace {

constexpr char kGenerateType[] = "perigee.generation";

struct Held {
  Held(std::unique_ptr<Model> copy, Model& model, const Json& job, const Json& fitted, const GenerateOptions& options,
       const std::string& where)
      : own(std::move(copy)), generation(model, job, fitted, options, where) {}
  std::unique_ptr<Model> own;
  Generation generation;
};

// generation_next(generation): the next piece of the text; false: it is complete
int generation_next(lua_State* L) {
  const std::optional<std::string> piece = object_at<Held>(L, 1, kGenerateType).generation.next(lua_options(L).interrupt);
  if (piece) lua_pushlstring(L, piece->data(), piece->size());
  else lua_pushboolean(L, 0);
  return 1;
}

}  // namespace

GenerateOptions generate_options_at(lua_State* L, int index, const std::string& where) {
  return generate_options(to_json(L, index, where), where);
}

void push_generation(lua_State* L, std::unique_ptr<Model> own, Model& model, const Json& job, const Json& fitted,
                     const GenerateOptions& options, const std::string& where) {
  push_object<Held>(L, kGenerateType, std::move(own), model, job, fitted, options, where);
}

void add_generate_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"generation_next", report<generation_next>}, {nullptr, nullptr}};
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
