#include "lua/script.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "lua/json.h"

namespace perigee {
namespace {

constexpr size_t kLargestScript = size_t{64} << 20;

std::string read_script(const std::string& path) {
  std::error_code status;
  const auto kind = std::filesystem::status(path, status);
  if (!status && kind.type() != std::filesystem::file_type::regular)
    throw Error(ErrorKind::usage, {path, "this script cannot be read", "no regular file"});
  const auto size = std::filesystem::file_size(path, status);
  if (status) throw Error(ErrorKind::usage, {path, "this script cannot be read", status.message()});
  if (size > kLargestScript)
    throw Error(ErrorKind::usage, {path, "this script is too large", std::to_string(size) + " bytes", "at most 64 MiB"});
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(ErrorKind::usage, {path, "this script cannot be read", std::strerror(errno)});
  return std::move(text).str();
}

struct Conversion {
  std::string name;
  Json result;
  std::optional<Error> error;
};

// Runs inside a protected call, because the interpreter may run out of memory here as well.
int convert_result(lua_State* L) {
  auto* conversion = static_cast<Conversion*>(lua_touserdata(L, 1));
  try {
    conversion->result = to_json(L, 2, conversion->name);
  } catch (const Error& error) {
    conversion->error = error;
  }
  return 0;
}

void check_result(const LuaState& lua, int results, const std::string& name) {
  const std::string hint = "end it with `return pg.experiment { ... }`";
  if (results == 0 || lua_isnil(lua.raw(), 1))
    throw Error(ErrorKind::model, {name, "the script returns nothing", "", "an experiment", hint});
  if (results > 1)
    throw Error(ErrorKind::model, {name, "the script returns more than one value", std::to_string(results), "one experiment", hint});
  if (!lua_istable(lua.raw(), 1))
    throw Error(ErrorKind::model,
                {name, "the script does not return an experiment", std::string("a ") + luaL_typename(lua.raw(), 1), "", hint});
  lua_pushliteral(lua.raw(), "perigee");
  lua_rawget(lua.raw(), 1);
  const bool experiment = lua_isnumber(lua.raw(), -1);
  lua_pop(lua.raw(), 1);
  if (experiment) return;
  lua_pushliteral(lua.raw(), "type");
  lua_rawget(lua.raw(), 1);
  const std::string type = lua_isstring(lua.raw(), -1) ? lua_tostring(lua.raw(), -1) : "";
  lua_pop(lua.raw(), 1);
  throw Error(ErrorKind::model,
              {name, "the script does not return an experiment", type.empty() ? "a table" : "a '" + type + "'", "", hint});
}

}  // namespace

Json evaluate_script_text(std::string_view text, const std::string& name, const LuaOptions& options) {
  LuaState lua(options);
  lua.load(text, name);
  lua.call(0, LUA_MULTRET);
  check_result(lua, lua_gettop(lua.raw()), name);
  Conversion conversion{name, {}, {}};
  lua_pushcfunction(lua.raw(), convert_result);
  lua_insert(lua.raw(), 1);
  lua_pushlightuserdata(lua.raw(), &conversion);
  lua_insert(lua.raw(), 2);
  lua.call(2, 0);
  if (conversion.error) throw *conversion.error;
  if (const Json* data = conversion.result.find("data"); data && options.arrays) options.arrays->hold_named(*data);
  return std::move(conversion.result);
}

Json evaluate_script(const std::string& path, const LuaOptions& options) {
  LuaOptions here = options;
  const auto folder = std::filesystem::path(path).parent_path();
  here.folder = folder.empty() ? "." : folder.string();
  return evaluate_script_text(read_script(path), path, here);
}

}  // namespace perigee
