#include "lua/predictions.h"

#include <cmath>

#include "lua/json.h"
#include "src/core/error.h"

namespace perigee {
namespace {

void count_from_one(Json& result) {
  for (const char* key : {"index", "class"})
    if (const Json* number = result.find(key); number != nullptr && number->is_int()) result.set(key, number->as_int() + 1);
  if (Json* outputs = result.find("outputs"); outputs != nullptr && outputs->is_object())
    for (auto& [name, output] : outputs->as_object()) count_from_one(output);
}

}  // namespace

Records GivenRecords::open(const RecordReader& reader, const std::string& where) const {
  return path.empty() ? reader.open(records, where) : reader.open_file(path);
}

GivenRecords records_at(lua_State* L, int index, const std::string& where) {
  if (lua_type(L, index) == LUA_TSTRING) return {.path = lua_tostring(L, index), .records = {}};
  return {.path = "", .records = to_json(L, index, where)};
}

namespace {

std::vector<std::string> layers_at(lua_State* L, int index, const std::string& where) {
  if (lua_isnoneornil(L, index)) return {};
  const Json given = to_json(L, index, where);
  if (given.is_string()) return {given.as_string()};
  std::vector<std::string> layers;
  const bool list = given.is_array() || (given.is_object() && given.as_object().empty());
  for (const Json& layer : given.is_array() ? given.as_array() : Json::Array{})
    if (layer.is_string()) layers.push_back(layer.as_string());
  if (!list || (given.is_array() && layers.size() != given.as_array().size()))
    throw Error(ErrorKind::usage, {.where = where + ": layers", .what = "must be names of layers", .expected = "layers = { \"hidden\" }"});
  return layers;
}

}  // namespace

PredictionOptions prediction_options_at(lua_State* L, int index, const std::string& where) {
  PredictionOptions options{.layers = layers_at(L, index, where)};
  if (lua_isnoneornil(L, index + 1)) return options;
  const Json beams = to_json(L, index + 1, where);
  if (!beams.is_number() || beams.as_number() != std::floor(beams.as_number()) || std::fabs(beams.as_number()) > 1e9)
    throw Error(ErrorKind::usage,
                {.where = where + ": beams", .what = "must be a whole number", .got = beams.dump(), .expected = "beams = 10"});
  options.beams = static_cast<int64_t>(beams.as_number());
  return options;
}

void push_predictions(lua_State* L, const Predictions& predictions) {
  Json list = predictions.json();
  for (Json& result : list.as_array()) count_from_one(result);
  push_json(L, list);
}

}  // namespace perigee
