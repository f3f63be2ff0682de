#include "src/model/prediction_data.h"

#include <algorithm>

#include "src/data/arrays.h"
#include "src/data/transform.h"
#include "src/io/compress.h"
#include "src/io/image.h"
#include "src/io/npy.h"

namespace perigee {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 34;
constexpr const char* kHandle = "perigee.predict";

std::string suffix_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  std::string suffix = dot == std::string::npos ? "" : path.substr(dot + 1);
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

const NetworkInput& only_input(const LoadedModel& loaded, const std::string& path) {
  const auto& inputs = loaded.model->spec().inputs;
  if (inputs.size() != 1)
    throw Error(ErrorKind::usage, {path, "the model has " + std::to_string(inputs.size()) + " inputs", "one array",
                                   "an .npz with an array for each, named as the inputs"});
  return inputs[0];
}

// Whether a transform belongs to what every example of the input gets: no chance, and not the target's.
bool applies(const Json& transform, const std::vector<NetworkInput>& inputs) {
  const Json* type = transform.find("type");
  if (!type || !type->is_string()) return false;
  for (const char* random : {"affine", "colour", "elastic", "flip", "crop", "noise", "rotate", "shift"})
    if (type->as_string() == random) return false;
  std::string field = "x";
  for (const TransformDef* def : transform_defs())
    if (type->as_string() == def->type) field = def->field;
  if (const Json* named = transform.find("field"); named && named->is_string()) field = named->as_string();
  return std::any_of(inputs.begin(), inputs.end(), [&](const NetworkInput& input) { return input.name == field; });
}

// The job's test data (else its training data) as a chain of maps around `inner`; samples, splits and chance are left out.
Json around(const Json& description, const Json& inner, const std::vector<NetworkInput>& inputs) {
  const Json* type = description.find("type");
  const Json* source = description.find("source");
  if (const Json* sources = description.find("sources"); sources && sources->is_array() && !sources->as_array().empty())
    source = &sources->as_array()[0];
  if (!type || !source) return inner;
  const Json below = around(*source, inner, inputs);
  if (*type != Json("map")) return below;
  Json map = Json::object(), transforms = Json::array();
  if (const Json* list = description.find("transforms"); list && list->is_array())
    for (const Json& transform : list->as_array())
      if (applies(transform, inputs)) transforms.push(transform);
  map.set("type", "map");
  map.set("source", below);
  map.set("transforms", transforms);
  return transforms.as_array().empty() ? below : map;
}

Json innermost(const Json& description) {
  const Json* at = &description;
  while (true) {
    if (const Json* source = at->find("source")) at = source;
    else if (const Json* sources = at->find("sources"); sources && sources->is_array() && !sources->as_array().empty())
      at = &sources->as_array()[0];
    else return *at;
  }
}

// The description of the data that gives examples their form. Fitted values go in before any part is left out: they go by position.
Json data_description(const LoadedModel& loaded) {
  const Json* data = loaded.job.find("data");
  const Json* part = data ? data->find("test") : nullptr;
  if (data && (!part || part->is_null())) part = data->find("train");
  return part && part->is_object() ? with_fitted(*part, loaded.fitted) : Json::object();
}

SourcePtr open_around(const LoadedModel& loaded, const Json& inner, const std::string& path) {
  const Json description = around(data_description(loaded), inner, loaded.model->spec().inputs);
  return open_source(Config(description, path, ErrorKind::data), ".");
}

SourcePtr with_arrays(const LoadedModel& loaded, const std::string& path, std::vector<NamedArray> arrays) {
  register_source(kHandle, arrays_source(path, std::move(arrays)));
  SourcePtr source;
  try {
    source = open_around(loaded, Json(Json::Object{{"type", "arrays"}, {"handle", kHandle}}), path);
  } catch (...) {
    register_source(kHandle, nullptr);
    throw;
  }
  register_source(kHandle, nullptr);
  return source;
}

// One example gets the dimension of examples in front.
Tensor as_examples(const Tensor& tensor, const Type& example) {
  if (tensor.shape().rank() != example.shape.rank()) return tensor;
  std::vector<int64_t> dims = tensor.shape().vector();
  dims.insert(dims.begin(), 1);
  return tensor.reshape(Shape(dims));
}

SourcePtr from_npy(const LoadedModel& loaded, const std::string& path) {
  const NetworkInput& input = only_input(loaded, path);
  const Tensor values = as_examples(parse_npy(read_file(path, kLargestFile), path), input.type);
  return with_arrays(loaded, path, {{.name = input.name, .values = values, .where = path}});
}

SourcePtr from_npz(const LoadedModel& loaded, const std::string& path) {
  std::vector<NamedArray> arrays;
  const auto file = parse_npz(read_file(path, kLargestFile), path);
  for (const NetworkInput& input : loaded.model->spec().inputs) {
    const auto found = std::find_if(file.begin(), file.end(), [&](const auto& entry) { return entry.first == input.name; });
    if (found == file.end()) throw Error(ErrorKind::data, {path, "there is no array for the model's input '" + input.name + "'"});
    arrays.push_back({.name = input.name, .values = as_examples(found->second, input.type), .where = path});
  }
  return with_arrays(loaded, path, std::move(arrays));
}

SourcePtr from_image(const LoadedModel& loaded, const std::string& path) {
  const NetworkInput& input = only_input(loaded, path);
  const Shape& shape = input.type.shape;
  if (shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3))
    throw Error(ErrorKind::usage, {path, "the model does not take images", "an image", shape.text()});
  Picture image;
  decode_image(read_file(path, kLargestFile), path, shape[0], image);
  Tensor values(Dtype::f32, {1, shape[0], shape[1], shape[2]});
  resize_image(image, shape[1], shape[2], 1.0f / 255, values.data<float>());
  return with_arrays(loaded, path, {{.name = input.name, .values = values, .where = path}});
}

// The table may still have the column that is to be predicted.
SourcePtr from_csv(const LoadedModel& loaded, const std::string& path) {
  Json table = innermost(data_description(loaded));
  const Json* type = table.find("type");
  if (!type || *type != Json("csv")) table = Json(Json::Object{{"type", "csv"}, {"target", false}});
  table.set("file", path.starts_with("/") ? path : "./" + path);
  table.erase("part");
  try {
    return open_around(loaded, table, path);
  } catch (const Error&) {
    table.set("target", false);
    return open_around(loaded, table, path);
  }
}

bool reads_text(const LoadedModel& loaded) {
  const Json table = innermost(data_description(loaded));
  const Json* type = table.find("type");
  return type && *type == Json("text");
}

// Every window of the text, the last of which nothing follows yet, in the model's own vocabulary.
SourcePtr from_text(const LoadedModel& loaded, const std::string& path) {
  Json text = innermost(data_description(loaded));
  text.set("file", path.starts_with("/") ? path : "./" + path);
  text.set("targets", "none");
  for (const char* key : {"part", "parts", "stride"}) text.erase(key);
  return open_around(loaded, text, path);
}

}  // namespace

SourcePtr open_for_prediction(const LoadedModel& loaded, const std::string& path) {
  const std::string suffix = suffix_of(path);
  if (!file_exists(path)) throw Error(ErrorKind::usage, {path, "there is no such file"});
  SourcePtr source;
  if (suffix == "npy") source = from_npy(loaded, path);
  else if (suffix == "npz") source = from_npz(loaded, path);
  else if (reads_text(loaded)) source = from_text(loaded, path);
  else if (suffix == "csv" || suffix == "tsv" || suffix == "txt") source = from_csv(loaded, path);
  else if (suffix == "jpg" || suffix == "jpeg" || suffix == "png") source = from_image(loaded, path);
  else throw Error(ErrorKind::usage, {path, "this kind of file cannot be predicted", "'." + suffix + "'", "npy, npz, csv, jpg or png"});
  for (const NetworkInput& input : loaded.model->spec().inputs) {
    const Field& field = source->fields()[static_cast<size_t>(field_index(*source, input.name, path))];
    if (Type{field.dtype, field.shape} != input.type)
      throw Error(ErrorKind::data, {path, "the examples do not fit the model's input '" + input.name + "'",
                                    Type{field.dtype, field.shape}.text(), input.type.text()});
  }
  return source;
}

}  // namespace perigee
