#include "src/data/records/field_json.h"

#include <algorithm>
#include <utility>

namespace perigee {
namespace {

constexpr size_t kMostJsonFields = 64;

// An empty table of Lua is an object, and here the empty list.
bool is_empty_list(const Config& config, const char* key) {
  const Json* value = config.raw(key);
  return value != nullptr && value->is_object() && value->as_object().empty();
}

}  // namespace

Json field_to_json(const Field& field) {
  Json shape = Json::array();
  for (const int64_t dim : field.shape.vector()) shape.push(dim);
  Json names = Json::array();
  for (const std::string& name : field.class_names) names.push(name);
  Json json(Json::Object{{"name", field.name},
                         {"dtype", dtype_name(field.dtype)},
                         {"shape", std::move(shape)},
                         {"classes", field.classes},
                         {"class_names", std::move(names)}});
  if (field.role == FieldRole::none) return json;
  json.set("role", static_cast<int64_t>(field.role));
  json.set("of", field.of);
  return json;
}

Field field_from_json(const Config& config) {
  Field field{.name = config.string("name"), .dtype = dtype_from_name(config.string("dtype")), .shape = {}};
  std::vector<int64_t> dims;
  if (!is_empty_list(config, "shape")) dims = config.integer_list("shape");
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 1; })) config.fail("shape", "has an empty dimension");
  field.shape = Shape(dims);
  field.classes = config.integer_in("classes", 0, int64_t{1} << 32);
  if (!is_empty_list(config, "class_names")) field.class_names = config.string_list("class_names");
  field.role = static_cast<FieldRole>(config.integer_in("role", 0, static_cast<int64_t>(FieldRole::segment), 0));
  field.of = config.string("of", "");
  return field;
}

std::vector<Field> fields_from_json(const Config& config) {
  const Json* list = config.raw("fields");
  if (!list || !list->is_array() || list->as_array().size() > kMostJsonFields)
    config.fail("fields", "must be a list", "", "at most " + std::to_string(kMostJsonFields) + " elements");
  if (list->as_array().empty()) config.fail("fields", "is empty");
  std::vector<Field> fields;
  for (const Json& field : list->as_array()) fields.push_back(field_from_json(config.element(field, "fields")));
  return fields;
}

}  // namespace perigee
