// Data sources at the prompt: what lua/perigee/source.lua calls.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "lua/json.h"
#include "lua/object.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/data/source.h"
#include "src/io/codec/compress.h"
#include "src/io/csv.h"
#include "src/io/file.h"
#include "src/io/store/url.h"

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

Json json_list(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push(name);
  return list;
}

// The numbers of a table's row by the names of their columns, as what was fitted has them somewhere: "age", "city=Ulm". Empty where there is
// no table of so many.
std::vector<std::string> column_names(const Json& fitted, int64_t width) {
  if (const Json* const columns = fitted.find("columns"); columns && columns->is_array()) {
    std::vector<std::string> names;
    for (const Json& column : columns->as_array()) {
      const Json *const name = column.find("name"), *const categories = column.find("categories");
      if (!name || !name->is_string()) return {};
      if (!categories || !categories->is_array()) names.push_back(name->as_string());
      else
        for (const Json& category : categories->as_array()) names.push_back(name->as_string() + "=" + category.as_string());
    }
    return static_cast<int64_t>(names.size()) == width ? names : std::vector<std::string>();
  }
  std::vector<std::string> found;
  if (fitted.is_array())
    for (size_t i = 0; i < fitted.as_array().size() && found.empty(); ++i) found = column_names(fitted.as_array()[i], width);
  if (fitted.is_object())
    for (size_t i = 0; i < fitted.as_object().size() && found.empty(); ++i) found = column_names(fitted.as_object()[i].second, width);
  return found;
}

// source_about(source): size, {{name, dtype, shape, classes, class_names, columns}, ...}, description
int source_about(lua_State* L) {
  const DataSource& source = source_at(L, 1);
  lua_pushnumber(L, static_cast<double>(source.size()));
  Json fields = Json::array();
  const Json fitted = source.traits().fitted;
  for (const Field& field : source.fields()) {
    Json about(Json::Object{{"name", field.name}, {"dtype", dtype_name(field.dtype)}});
    Json shape = Json::array();
    for (const int64_t size : field.shape.vector()) shape.push(size);
    about.set("shape", std::move(shape));
    if (field.classes > 0) about.set("classes", field.classes);
    if (!field.class_names.empty()) about.set("class_names", json_list(field.class_names));
    const std::vector<std::string> columns =
        field.shape.rank() == 1 && field.name == "x" ? column_names(fitted, field.shape[0]) : std::vector<std::string>();
    if (!columns.empty()) about.set("columns", json_list(columns));
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
      throw Error(
          ErrorKind::usage,
          {.what = "there is no such example", .got = std::to_string(places[i]), .expected = "1 to " + std::to_string(source.size())});
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

void push_row(lua_State* L, std::span<const std::string_view> cells) {
  lua_createtable(L, static_cast<int>(cells.size()), 0);
  for (size_t i = 0; i < cells.size(); ++i) {
    lua_pushlstring(L, cells[i].data(), cells[i].size());
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

// data_path(name): where such a file of the shared data is. Sources begin at the script's folder and io.open at the program's, so that a path is
// whole where the two differ.
int data_path(lua_State* L) {
  const std::string name = luaL_checkstring(L, 1), folder = lua_options(L).folder;
  const char* given = std::getenv("PERIGEE_DATA");
  const bool shared = given && *given;
  std::string path = shared ? std::string(given) + "/" + name : name;
  const bool here = folder.empty() || folder == "." || is_store_path(path);
  std::error_code status;
  if (!here && (shared || file_exists(path_in(folder, name))))
    path = std::filesystem::absolute(shared ? path : path_in(folder, name), status).lexically_normal().string();
  lua_pushlstring(L, path.data(), path.size());
  return 1;
}

// csv_table(path, delimiter, header, most rows): rows, columns, { names }, { {cells}, ... }, { numbers in each column }, { empty ones }
int csv_table(lua_State* L) {
  const std::string path = path_in(lua_options(L).folder, luaL_checkstring(L, 1));
  const char delimiter = *luaL_checkstring(L, 2);
  const auto most = static_cast<int64_t>(luaL_checknumber(L, 4));
  expect_there(path);
  const FileContent content = FileContent::open(path, uint64_t{1} << 34);
  CsvTable table = parse_csv(as_text(content.bytes()), path, delimiter, lua_toboolean(L, 3) != 0);
  tell_apart(table.header);  // as those of a source
  lua_pushnumber(L, static_cast<double>(table.rows));
  lua_pushnumber(L, static_cast<double>(table.columns));
  push_row(L, std::vector<std::string_view>(table.header.begin(), table.header.end()));
  lua_newtable(L);
  for (int64_t row = 0; row < std::min(most, table.rows); ++row) {
    push_row(L, std::span(table.cells).subspan(static_cast<size_t>(row * table.columns), static_cast<size_t>(table.columns)));
    lua_rawseti(L, -2, static_cast<int>(row) + 1);
  }
  std::vector<int> numbers(static_cast<size_t>(table.columns)), empty(numbers);
  for (size_t i = 0; i < table.cells.size(); ++i) {
    double value = 0;
    const size_t column = i % numbers.size();
    if (csv_number(table.cells[i], value)) ++numbers[column];
    else if (table.cells[i].empty()) ++empty[column];
  }
  push_ints(L, numbers);
  push_ints(L, empty);
  return 6;
}

}  // namespace

void push_source(lua_State* L, SourcePtr source) { push_object<OpenSource>(L, kSource, OpenSource{std::move(source)}); }

void add_source_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"open_source", report<open_source_of>}, {"data_path", report<data_path>},     {"csv_table", report<csv_table>},
      {"source_about", report<source_about>},  {"source_read", report<source_read>}, {nullptr, nullptr},
  };
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
