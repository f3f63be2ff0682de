#include "lua/json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "src/core/error.h"
#include "src/core/utf8.h"

namespace perigee {
namespace {

constexpr int kMaxDepth = 64;
constexpr const char* kListMetatable = "perigee.list";

bool valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

class Converter {
 public:
  Converter(lua_State* state, std::string where) : L(state), where_(std::move(where)) {}

  Json convert(int index) {
    switch (lua_type(L, index)) {
      case LUA_TNIL: return nullptr;
      case LUA_TBOOLEAN: return lua_toboolean(L, index) != 0;
      case LUA_TNUMBER: return number(lua_tonumber(L, index));
      case LUA_TSTRING: return text(index);
      case LUA_TTABLE: return table(index);
      case LUA_TFUNCTION: fail("a function cannot be stored in a job", "", function_hint());
      case LUA_TUSERDATA: return description(index);
      case LUA_TLIGHTUSERDATA:
        if (!lua_touserdata(L, index)) return nullptr;  // pg.null
        [[fallthrough]];
      default:
        fail("a job holds numbers, text, booleans and tables", std::string("a ") + luaL_typename(L, index),
             lua_type(L, index) == LUA_TUSERDATA ? "" : "a tensor of examples goes into pg.data.arrays { x = tensor }");
    }
  }

 private:
  // A source of data is a userdata, because only those have a length; its environment is the table that describes it.
  Json description(int index) {
    if (!luaL_getmetafield(L, index, "__described")) fail("a job holds numbers, text, booleans and tables", "a userdata");
    lua_pop(L, 1);
    lua_getfenv(L, index);
    Json json = convert(lua_gettop(L));
    lua_pop(L, 1);
    return json;
  }

  [[noreturn]] void fail(std::string what, std::string got = "", std::string hint = "") const {
    const auto place = places_.find(top_key());
    const std::string& where = place == places_.end() ? where_ : place->second;
    throw Error(ErrorKind::model, {path_.empty() ? where : where + ": " + path_, std::move(what), std::move(got), "", std::move(hint)});
  }

  std::string top_key() const { return path_.substr(0, path_.find_first_of(".[")); }

  // Tells what may stand where the function was given.
  const char* function_hint() const {
    const std::string given = path_.empty() ? where_ : path_, key = given.substr(0, given.find_first_of(".["));
    if (given.ends_with("_init"))
      return "an initialiser is a name, as \"xavier\", or of pg.init; values of your own come from a file: pretrained = \"it.safetensors\"";
    if (key == "network" || key.empty()) return "wrap a layer's function in pg.lambda(function(x) ... end)";
    if (key == "loss") return "a loss is a name, as \"mse\", pg.loss.huber { delta = 1 } (pg.loss lists them), or pg.loss.lambda(f)";
    if (key == "metrics")
      return "metrics are names of evaluations, as { \"classification\", \"roc\" } (pg.metric lists them), or pg.metric.lambda(f)";
    if (given == "optimizer") return "an optimiser is one of pg.adam, pg.sgd, ..., or pg.rule { update = function(p, g, s, now) ... end }";
    if (key == "optimizer") return "a rate is a number, a schedule as pg.cosine { from = 0.1 }, or pg.schedule.lambda(f)";
    return "a job holds numbers, text, booleans and tables";
  }

  // Lines of the script, as pg.experiment has noted them.
  void read_places(int index) {
    lua_pushliteral(L, "@places");
    lua_rawget(L, index);  // a metatable's __index may fail
    if (lua_istable(L, -1))
      for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && lua_type(L, -1) == LUA_TSTRING) places_[lua_tostring(L, -2)] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }

  Json number(double value) const {
    if (!std::isfinite(value)) fail("a number must be finite", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    if (value == std::floor(value) && std::fabs(value) <= 9007199254740992.0 && !(value == 0 && std::signbit(value)))
      return static_cast<int64_t>(value);
    return value;
  }

  Json text(int index) const {
    size_t length = 0;
    const char* data = lua_tolstring(L, index, &length);
    std::string value(data, length);
    if (!valid_utf8(value)) fail("text must be UTF-8");
    return value;
  }

  Json table(int index) {
    if (index < 0) index = lua_gettop(L) + 1 + index;
    const void* identity = lua_topointer(L, index);
    if (std::find(open_.begin(), open_.end(), identity) != open_.end()) fail("this table contains itself");
    if (open_.size() >= kMaxDepth) fail("tables are nested more than 64 deep");
    if (!lua_checkstack(L, 4)) fail("tables are nested too deep for so many arguments", "", "give fewer arguments");
    if (open_.empty()) read_places(index);
    open_.push_back(identity);
    const size_t length = lua_objlen(L, index);
    Json result = length > 0 || is_list(index) ? array(index, length) : object(index);
    open_.pop_back();
    return result;
  }

  bool is_list(int index) const {
    if (!lua_getmetatable(L, index)) return false;
    luaL_getmetatable(L, kListMetatable);
    const bool same = lua_rawequal(L, -1, -2) != 0;
    lua_pop(L, 2);
    return same;
  }

  Json array(int index, size_t length) {
    size_t entries = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
      ++entries;
      if (lua_type(L, -2) == LUA_TSTRING)
        fail("this table mixes list entries and named entries",
             std::string("the name '") + lua_tostring(L, -2) + "' beside " + std::to_string(length) + " list entries");
    }
    if (entries != length) fail("a list has holes (nil) or keys that are not 1, 2, 3, ...");
    Json::Array items;
    items.reserve(length);
    const size_t mark = path_.size();
    for (size_t i = 1; i <= length; ++i) {
      path_.append("[").append(std::to_string(i)).append("]");
      lua_rawgeti(L, index, static_cast<int>(i));
      items.push_back(convert(lua_gettop(L)));
      lua_pop(L, 1);
      path_.resize(mark);
    }
    return items;
  }

  Json object(int index) {
    Json::Object members;
    const size_t mark = path_.size();
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING)
        fail("a table's keys must be names, or 1, 2, 3, ...", std::string("a ") + luaL_typename(L, -2) + " as a key");
      std::string key = text(lua_gettop(L) - 1).as_string();
      path_ += (path_.empty() ? "" : ".") + key;
      Json value = convert(lua_gettop(L));
      path_.resize(mark);
      members.emplace_back(std::move(key), std::move(value));
    }
    // Lua tables have no order; a fixed one keeps equal scripts equal.
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return members;
  }

  lua_State* L;
  std::string where_;
  std::map<std::string, std::string> places_;
  std::string path_;               // "network.layers[2].kernel"
  std::vector<const void*> open_;  // the tables that we are inside of
};

}  // namespace

Json to_json(lua_State* L, int index, const std::string& where) { return Converter(L, where).convert(index); }

void mark_list(lua_State* L) {
  luaL_newmetatable(L, kListMetatable);
  lua_setmetatable(L, -2);
}

void push_json(lua_State* L, const Json& json) {
  luaL_checkstack(L, 4, "JSON is nested too deep");
  if (json.is_null()) lua_pushlightuserdata(L, nullptr);
  else if (json.is_bool()) lua_pushboolean(L, json.as_bool());
  else if (json.is_number()) lua_pushnumber(L, json.as_number());
  else if (json.is_string()) lua_pushlstring(L, json.as_string().data(), json.as_string().size());
  else if (json.is_array()) {
    const auto& items = json.as_array();
    lua_createtable(L, static_cast<int>(items.size()), 0);
    for (size_t i = 0; i < items.size(); ++i) {
      push_json(L, items[i]);
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
    mark_list(L);
  } else {
    lua_createtable(L, 0, static_cast<int>(json.as_object().size()));
    for (const auto& [key, value] : json.as_object()) {
      push_json(L, value);
      lua_setfield(L, -2, key.c_str());
    }
  }
}

}  // namespace perigee
