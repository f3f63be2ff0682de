// {"type": "arrays", "x": [[0, 1], [1, 0]], "y": [0, 1]}: examples written down in the job; where an array is large, its name stands there
// (stored_arrays.h). Or {"type": "arrays", "handle": "name"}: those that the program holds in memory (register_source).
#include "src/data/arrays.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "src/data/array_source.h"
#include "src/data/stored_arrays.h"

namespace perigee {
namespace {

constexpr int64_t kMostClassesOfArrays = int64_t{1} << 31;

struct Registered {
  std::mutex mutex;
  std::map<std::string, SourcePtr> sources;
};

Registered& arrays_registered() {
  static Registered one;
  return one;
}

// Dimensions of nested lists, by their first elements; flatten() then checks all others.
std::vector<int64_t> list_shape(const Json& list) {
  std::vector<int64_t> dims;
  for (const Json* at = &list; at->is_array(); at = &at->as_array()[0]) {
    dims.push_back(static_cast<int64_t>(at->as_array().size()));
    if (at->as_array().empty()) break;
  }
  return dims;
}

void flatten(const Config& config, const std::string& key, const Json& json, const std::vector<int64_t>& dims, size_t level,
             std::vector<double>& out, bool& whole) {
  if (level == dims.size()) {
    if (!json.is_number()) config.fail(key, "has an element of the wrong type", json.type_name(), "a number");
    whole &= json.is_int();
    out.push_back(json.as_number());
    return;
  }
  if (!json.is_array() || static_cast<int64_t>(json.as_array().size()) != dims[level])
    config.fail(key, "has rows of unequal length", json.is_array() ? std::to_string(json.as_array().size()) : json.type_name(),
                std::to_string(dims[level]));
  for (const Json& item : json.as_array()) flatten(config, key, item, dims, level + 1, out, whole);
}

NamedArray read_arrays_array(const Config& config, const std::string& key, const Json& value, const std::string& folder) {
  const std::string where = config.where() + ": '" + key + "'";
  config.raw(key);  // it is read
  const Tensor values =
      value.is_array() ? array_from_json(config, key, value) : open_named_array(Config(value, where, ErrorKind::data), folder);
  return named_array(config, key, values, where);
}

// The keys beside the arrays; every other key is the name of one.
bool is_option(const std::string& key) {
  constexpr std::string_view kNames[] = {"type", "handle", "classes", "class_names", "fitted"};
  return key.starts_with('@') || std::ranges::find(kNames, key) != std::end(kNames);
}

SourcePtr open_arrays_source(const Config& config, const std::string& folder) {
  if (config.has("handle")) {
    const std::string handle = config.string("handle");
    const std::lock_guard lock(arrays_registered().mutex);
    const auto found = arrays_registered().sources.find(handle);
    if (found != arrays_registered().sources.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, source] : arrays_registered().sources) names.push_back(name);
    config.fail("handle", "names nothing that is in memory here", "'" + handle + "'", "", nearest_hint(handle, names));
  }
  std::vector<NamedArray> arrays;
  for (const auto& [key, value] : config.json().as_object())
    if (key != "class_names" && (value.is_array() || names_array(value))) arrays.push_back(read_arrays_array(config, key, value, folder));
    else if (!is_option(key)) config.fail(key, "is no array", value.dump().substr(0, 60), "a list of numbers, lists of them, or a tensor");
  if (arrays.empty())
    throw Error(ErrorKind::data, {.where = config.where(), .what = "there are no arrays", .hint = "give 'x' and 'y', or a 'handle'"});
  // A job that is sent to workers has its keys in order, and the data must be the same there.
  std::ranges::sort(arrays, {}, &NamedArray::name);
  return arrays_source(config, "arrays", std::move(arrays));
}

// How a tensor's elements are read.
Column arrays_column_of(const NamedArray& array) {
  const Tensor& values = array.values;
  std::vector<int64_t> dims = values.shape().vector();
  const size_t rank = dims.size();
  dims.erase(dims.begin());
  Column column{.field = {.name = array.name, .dtype = values.dtype(), .shape = Shape(dims)},
                .stored = values.dtype(),
                .data = values.data<std::byte>()};
  if (array.label) {
    column.field.dtype = Dtype::i64;
    column.field.shape = {};
  } else if (values.dtype() == Dtype::u8 && (rank == 3 || rank == 4)) {
    column.field.dtype = Dtype::f32;
    column.scale = 1.f / 255;
    if (rank == 3) column.field.shape = {1, dims[0], dims[1]};
  } else if (values.dtype() == Dtype::f64 || values.dtype() == Dtype::f16 || values.dtype() == Dtype::bf16) {
    column.field.dtype = Dtype::f32;
  }
  return column;
}

void settle_classes(const NamedArray& array, Column& column, int64_t size) {
  const Tensor& values = array.values;
  const bool integers =
      values.dtype() == Dtype::u8 || values.dtype() == Dtype::i32 || values.dtype() == Dtype::i64 || values.dtype() == Dtype::boolean;
  if (!integers || values.elements() != size)
    throw Error(ErrorKind::data, {.where = array.where,
                                  .what = "these are no class labels",
                                  .got = Type{values.dtype(), values.shape()}.text(),
                                  .expected = "one integer per example"});
  int64_t classes = array.classes;
  if (classes == 0 && !array.class_names.empty()) classes = static_cast<int64_t>(array.class_names.size());
  const Tensor labels = values.to(Dtype::i64);
  for (int64_t i = 0; i < size && array.classes == 0 && array.class_names.empty(); ++i)
    classes = std::max(classes, std::min<int64_t>(labels.data<int64_t>()[i], (int64_t{1} << 31) - 1) + 1);
  column.field.classes = std::max<int64_t>(classes, 1);
  if (array.class_names.size() == static_cast<size_t>(column.field.classes)) column.field.class_names = array.class_names;
  else if (!array.class_names.empty())
    throw Error(ErrorKind::data, {.where = array.where,
                                  .what = "the class names are not as many as the classes",
                                  .got = std::to_string(array.class_names.size()),
                                  .expected = std::to_string(column.field.classes)});
  check_labels(column, size, array.where);
}

}  // namespace

Tensor array_from_json(const Config& config, const std::string& key, const Json& list) {
  const std::vector<int64_t> dims = list_shape(list);
  if (dims.empty() || dims.size() > static_cast<size_t>(kMaxRank)) config.fail(key, "must be a list with one element or list per example");
  std::vector<double> values;
  bool whole = true;
  flatten(config, key, list, dims, 0, values, whole);
  const bool label = key == "y" && whole && dims.size() == 1;
  return Tensor::from<double>(Shape(dims), values).to(label ? Dtype::i64 : Dtype::f32);
}

namespace {

struct LabelOptions {
  bool named = false;  // the field has an entry of its own
  int64_t classes = 0;
  std::vector<std::string> names;
};

// The entry of one field in "class_names".
LabelOptions field_labels(const Config& config, const std::string& name, const Json& entry) {
  const std::string key = "class_names." + name;
  LabelOptions options{.named = true};
  const bool empty = entry.is_object() && entry.as_object().empty();  // as a script writes an empty list
  if (entry.is_int() && entry.as_int() >= 0 && entry.as_int() <= kMostClassesOfArrays) {
    options.classes = entry.as_int();
  } else if (entry.is_array()) {
    for (const Json& each : entry.as_array()) {
      if (!each.is_string()) config.fail(key, "has an element of the wrong type", each.type_name(), "string");
      options.names.push_back(each.as_string());
    }
  } else if (!empty) {
    config.fail(key, "is neither names nor a number of classes", entry.dump().substr(0, 60), "{ \"no\", \"yes\" } or 2");
  }
  return options;
}

LabelOptions label_options(const Config& config, const std::string& name) {
  const Json* const names = config.raw("class_names");
  const int64_t classes = config.integer("classes");
  if (names && names->is_object()) {
    if (const Json* entry = names->find(name)) return field_labels(config, name, *entry);
    return {.classes = name == "y" ? classes : 0};
  }
  return name == "y" ? LabelOptions{.classes = classes, .names = config.string_list("class_names")} : LabelOptions{};
}

// Numbers of a script are f32, whatever they stand for.
Tensor as_labels(Tensor values) {
  if (values.dtype() != Dtype::f32 && values.dtype() != Dtype::f64) return values;
  const Tensor wide = values.to(Dtype::f64);
  const auto whole = [](double value) { return std::abs(value) < 0x1p53 && value == std::floor(value); };
  return std::all_of(wide.data<double>(), wide.data<double>() + wide.elements(), whole) ? values.to(Dtype::i64) : values;
}

}  // namespace

NamedArray named_array(const Config& config, const std::string& name, Tensor values, const std::string& where) {
  LabelOptions options = label_options(config, name);
  if (options.named) values = as_labels(std::move(values));
  const bool whole =
      values.dtype() == Dtype::u8 || values.dtype() == Dtype::i32 || values.dtype() == Dtype::i64 || values.dtype() == Dtype::boolean;
  const bool single = values.shape().rank() == 1 || (values.shape().rank() == 2 && values.shape()[1] == 1);
  const bool labels = name == "y" || options.named;
  NamedArray array{.name = name, .values = std::move(values), .label = labels && single && (whole || options.named), .where = where};
  if (array.label) array.classes = options.classes;
  if (array.label || (labels && array.values.shape().rank() > 1)) array.class_names = std::move(options.names);  // of a sequence of labels
  return array;
}

SourcePtr arrays_source(const Config& config, const std::string& name, std::vector<NamedArray> arrays) {
  const Json* const names = config.raw("class_names");
  if (!names || !names->is_object()) config.string_list("class_names");  // whether there is a 'y' or not
  else
    for (const auto& [field, entry] : names->as_object()) {
      if (std::ranges::find(arrays, field, &NamedArray::name) != arrays.end()) continue;
      std::vector<std::string> known;
      for (const NamedArray& array : arrays) known.push_back(array.name);
      config.fail("class_names", "names a field that there is not", "'" + field + "'", "", nearest_hint(field, known));
    }
  return arrays_source(name, std::move(arrays));
}

SourcePtr arrays_source(const std::string& name, std::vector<NamedArray> arrays, Json fitted, Json remarks) {
  std::vector<Column> columns;
  std::vector<std::shared_ptr<const void>> owners;
  int64_t size = -1;
  for (const NamedArray& array : arrays) {
    if (array.values.shape().rank() < 1)
      throw Error(ErrorKind::data,
                  {.where = array.where, .what = "a scalar holds no examples", .expected = "examples along the first dimension"});
    const int64_t examples = array.values.shape()[0];
    if (size >= 0 && examples != size)
      throw Error(ErrorKind::data, {.where = array.where,
                                    .what = "'" + array.name + "' has another number of examples than '" + arrays[0].name + "'",
                                    .got = std::to_string(examples),
                                    .expected = std::to_string(size)});
    size = examples;
    columns.push_back(arrays_column_of(array));
    columns.back().field.role = array.role;
    if (array.label) settle_classes(array, columns.back(), size);
    else columns.back().field.class_names = array.class_names;
    owners.push_back(array.values.storage());
  }
  return std::make_shared<ArraySource>(name + " (" + std::to_string(size) + " examples)", size, std::move(columns), std::move(owners),
                                       std::move(fitted), std::move(remarks));
}

SourcePtr register_source(const std::string& handle, SourcePtr source) {
  const std::lock_guard lock(arrays_registered().mutex);
  auto& sources = arrays_registered().sources;
  SourcePtr before;
  if (const auto found = sources.find(handle); found != sources.end()) {
    before = std::move(found->second);
    sources.erase(found);
  }
  if (source) sources.emplace(handle, std::move(source));
  return before;
}

namespace {

constexpr Option kArraysOptions[] = {
    {"handle", "string", "none", "names arrays in memory"},
    {"classes", "integer", "0", "number of classes of the label, whose numbers begin with 0; 0: found out", {0, 2147483648}},
    {"class_names", "any", "[]", kClassNamesDoc}};

}  // namespace

extern const SourceDef source_arrays;
const SourceDef source_arrays{
    .type = "arrays",
    .doc =
        "Arrays of the script ('x', 'y', ...: tensors or nested lists; large ones are kept beside the run), or in memory "
        "('handle'). Options: classes, class_names",
    .schema = {.options = kArraysOptions, .open = true},
    .open = open_arrays_source};

}  // namespace perigee
