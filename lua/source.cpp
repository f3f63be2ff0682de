// Data sources at the prompt: what lua/perigee/source.lua calls.
#include <string>

#include "lua/json.h"
#include "lua/object.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/data/source.h"

namespace perigee {
namespace {

constexpr const char* kSource = "perigee.open_source";

struct OpenSource {
  SourcePtr source;
};

const DataSource& source_at(lua_State* L, int index) { return *object_at<OpenSource>(L, index, kSource).source; }

// open_source(description): opened as a job of this folder would open it
int open_source_of(lua_State* L) {
  const Json description = to_json(L, 1, "source");
  SourcePtr source = open_source(Config(description, "source", ErrorKind::data), lua_options(L).folder);
  push_source(L, std::move(source));
  return 1;
}

// source_about(source): size, {{name, dtype, shape, classes, class_names}, ...}, description
int source_about(lua_State* L) {
  const DataSource& source = source_at(L, 1);
  lua_pushnumber(L, static_cast<double>(source.size()));
  Json fields = Json::array();
  for (const Field& field : source.fields()) {
    Json about(Json::Object{{"name", field.name}, {"dtype", dtype_name(field.dtype)}});
    Json shape = Json::array();
    for (const int64_t size : field.shape.vector()) shape.push(size);
    about.set("shape", std::move(shape));
    if (field.classes > 0) about.set("classes", field.classes);
    if (!field.class_names.empty()) {
      Json names = Json::array();
      for (const std::string& name : field.class_names) names.push(name);
      about.set("class_names", std::move(names));
    }
    fields.push(std::move(about));
  }
  push_json(L, fields);
  const std::string description = source.traits().description;
  lua_pushlstring(L, description.data(), description.size());
  return 3;
}

// Class numbers count from 1 in Lua.
void count_labels_from_1(const Array& labels) {
  for (int64_t i = 0; i < labels.view.elements(); ++i) {
    if (labels.view.dtype == Dtype::i64) ++labels.view.as<int64_t>()[i];
    else if (labels.view.dtype == Dtype::i32) ++labels.view.as<int32_t>()[i];
    else if (labels.view.dtype == Dtype::f32) ++labels.view.as<float>()[i];
  }
}

// source_read(source, { places from 1 }, epoch, seed, alone, out...): one tensor for each field; `alone`: of one example, without the batch
int source_read(lua_State* L) {
  const DataSource& source = source_at(L, 1);
  const std::vector<int> places = ints_at(L, 2);
  const bool alone = lua_toboolean(L, 5) != 0;
  const ReadKey like{.epoch = static_cast<uint64_t>(luaL_checknumber(L, 3)), .seed = static_cast<uint64_t>(luaL_checknumber(L, 4))};
  std::vector<Array> arrays;
  std::vector<size_t> bytes;
  for (const Field& field : source.fields()) {
    std::vector<int64_t> dims = field.shape.vector();
    if (!alone) dims.insert(dims.begin(), static_cast<int64_t>(places.size()));
    arrays.push_back(new_array(Type{field.dtype, Shape(dims)}));
    bytes.push_back(static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype));
  }
  std::vector<std::byte*> slots(arrays.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 1 || places[i] > source.size())
      throw Error(ErrorKind::usage, {.what = "there is no such example", .got = std::to_string(places[i]),
                                     .expected = "1 to " + std::to_string(source.size())});
    for (size_t field = 0; field < arrays.size(); ++field) slots[field] = arrays[field].view.as<std::byte>() + i * bytes[field];
    ReadKey key = like;
    key.index = places[i] - 1;
    source.read(key, slots);
  }
  for (size_t field = 0; field < arrays.size(); ++field) {
    if (source.fields()[field].classes > 0) count_labels_from_1(arrays[field]);
    give_array(L, 6 + static_cast<int>(field), std::move(arrays[field]));
  }
  lua_pushboolean(L, 1);
  return 1;
}

}  // namespace

void push_source(lua_State* L, SourcePtr source) { push_object<OpenSource>(L, kSource, OpenSource{std::move(source)}); }

void add_source_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"open_source", report<open_source_of>},
      {"source_about", report<source_about>},
      {"source_read", report<source_read>},
      {nullptr, nullptr},
  };
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
