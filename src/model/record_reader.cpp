#include "src/model/record_reader.h"

#include <algorithm>

#include "src/data/arrays.h"
#include "src/data/documents.h"
#include "src/data/records/record_set.h"
#include "src/data/sound/sound_source.h"
#include "src/data/sources/picture_options.h"
#include "src/data/table/columnar/arrow/handed_source.h"
#include "src/data/table/prepared.h"
#include "src/data/table/table_file.h"
#include "src/data/table_source.h"
#include "src/data/text_source.h"
#include "src/data/transform.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/encoding.h"
#include "src/io/confined.h"
#include "src/io/image.h"
#include "src/io/npy.h"
#include "src/io/sound/sound.h"

namespace perigee {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 34;

// The suffix in small letters, without that of a compression.
std::string suffix_of(std::string path) {
  const auto take = [&] {
    const size_t dot = path.rfind('.');
    if (dot == std::string::npos || path.find('/', dot) != std::string::npos) return std::string();
    std::string suffix = path.substr(dot + 1);
    std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    path.resize(dot);
    return suffix;
  };
  const std::string last = take();
  return last == "gz" || last == "xz" ? take() : last;
}

std::string type_of(const Json& description) {
  const Json* type = description.find("type");
  return type != nullptr && type->is_string() ? type->as_string() : "";
}

// The source inside that comes first, or null.
const Json* inner_of(const Json& description) {
  if (const Json* source = description.find("source"); source != nullptr && source->is_object()) return source;
  const Json* sources = description.find("sources");
  return sources != nullptr && sources->is_array() && !sources->as_array().empty() ? &sources->as_array()[0] : nullptr;
}

const Json& innermost(const Json& description) {
  const Json* at = &description;
  while (const Json* inner = inner_of(*at)) at = inner;
  return *at;
}

bool has_map(const Json& description) {
  for (const Json* at = &description; at != nullptr; at = inner_of(*at))
    if (type_of(*at) == "map") return true;
  return false;
}

// The description of the data that gives examples their form. Fitted values go in before any part is left out: they go by position.
Json data_description(const Json& job, const Json& fitted) {
  const Json* data = job.find("data");
  const Json* part = data != nullptr ? data->find("test") : nullptr;
  if (data != nullptr && (part == nullptr || part->is_null())) part = data->find("train");
  return part != nullptr && part->is_object() ? records::with_prepared(with_fitted(*part, fitted)) : Json::object();
}

// How data of a kind are read, whichever they are: what another file of the kind takes from the job.
std::span<const char* const> reading_options(const std::string& type) {
  static constexpr const char* kCsv[] = {"decimal", "delimiter", "encoding", "header", "missing", "missing_values", "fitted"};
  static constexpr const char* kText[] = {"unit", "encoding", "lowercase", "unknown", "fitted"};
  static constexpr const char* kDocuments[] = {"text", "label", "encoding", "fitted"};
  static constexpr const char* kTextPairs[] = {"input", "output", "fitted"};
  static constexpr const char* kAudio[] = {"label", "rate", "channels", "seconds", "lengths", "classes", "fitted"};
  static constexpr const char* kImages[] = {"size", "fit", "channels", "scale", "fill", "decode", "classes"};
  static constexpr const char* kTable[] = {"delimiter", "encoding", "header", "missing", "missing_values", "steps", "target", "fitted"};
  if (type == "csv") return kCsv;
  if (type == "table") return kTable;
  if (type == "text") return kText;
  if (type == "documents") return kDocuments;
  if (type == "text_pairs") return kTextPairs;
  if (type == "images" || type == "objects") return kImages;
  if (type == "audio") return kAudio;
  return {};
}

// Every source of the job's kind inside `description` with the job's options of reading that it leaves out.
Json completed(Json description, const Json& leaf) {
  if (Json* source = description.find("source"); source != nullptr && source->is_object()) {
    *source = completed(*source, leaf);
  } else if (Json* sources = description.find("sources"); sources != nullptr && sources->is_array()) {
    for (Json& each : sources->as_array()) each = completed(each, leaf);
  } else if (type_of(description) == type_of(leaf)) {
    for (const char* key : reading_options(type_of(leaf)))
      if (const Json* value = leaf.find(key); value != nullptr && description.find(key) == nullptr) description.set(key, *value);
  }
  return description;
}

// One example gets the dimension of examples in front.
Tensor as_examples(const Tensor& tensor, const Type& example) {
  if (tensor.shape().rank() != example.shape.rank()) return tensor;
  std::vector<int64_t> dims = tensor.shape().vector();
  dims.insert(dims.begin(), 1);
  return tensor.reshape(Shape(dims));
}

// Numbers of nested lists, appended; `dims` is that of the first value, and all others have it.
void flatten(const Json& value, const std::vector<int64_t>& dims, size_t level, const std::string& where, std::vector<double>* numbers) {
  const bool list = level < dims.size();
  if (list ? !value.is_array() || static_cast<int64_t>(value.as_array().size()) != dims[level] : !value.is_number())
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the values have not one shape",
                                  .got = value.is_array() ? "a list of " + std::to_string(value.as_array().size()) : value.type_name(),
                                  .expected = list ? "a list of " + std::to_string(dims[level]) : "a number"});
  if (!list) return numbers->push_back(value.as_number());
  for (const Json& item : value.as_array()) flatten(item, dims, level + 1, where, numbers);
}

// The values of one input, one for each record.
Tensor stacked(const std::vector<const Json*>& values, const Type& type, const std::string& where) {
  std::vector<int64_t> dims;
  for (const Json* at = values[0]; at->is_array(); at = &at->as_array()[0]) {
    dims.push_back(static_cast<int64_t>(at->as_array().size()));
    if (at->as_array().empty() || dims.size() >= static_cast<size_t>(kMaxRank))
      throw Error(ErrorKind::data, {.where = where, .what = "the value is no array of the model's", .expected = type.text()});
  }
  std::vector<double> numbers;
  for (const Json* value : values) flatten(*value, dims, 0, where, &numbers);
  dims.insert(dims.begin(), static_cast<int64_t>(values.size()));
  const bool whole = type.dtype == Dtype::i64 || type.dtype == Dtype::i32;
  return Tensor::from<double>(Shape(dims), numbers).to(whole ? type.dtype : Dtype::f32);
}

bool takes_images(const std::vector<NetworkInput>& inputs) {
  const Shape& shape = inputs.at(0).type.shape;
  return inputs.size() == 1 && shape.rank() == 3 && (shape[0] == 1 || shape[0] == 3);
}

constexpr const char* kLabelledImages = "a folder that has a folder of images for each class, or an .npz with images and targets";

[[noreturn]] void is_no_image(const std::string& name, const NetworkInput& input, const char* expected) {
  throw Error(ErrorKind::usage,
              {.where = name, .what = "the model takes images " + input.type.shape.text(), .got = "a table", .expected = expected});
}

RecordFormat guess(std::span<const std::byte> bytes, bool text_model) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\x93NUMPY")) return RecordFormat::npy;
  if (text.starts_with("PK\x03\x04")) return RecordFormat::npz;
  if (image_kind(bytes) != ImageKind::none) return RecordFormat::image;
  if (text_model) return RecordFormat::text;
  if (is_sound(bytes)) return RecordFormat::sound;
  const size_t first = text.find_first_not_of(" \t\r\n", text.starts_with("\xef\xbb\xbf") ? 3 : 0);
  return first != text.npos && (text[first] == '{' || text[first] == '[') ? RecordFormat::json : RecordFormat::csv;
}

std::vector<double> numbers_of(const Json* value) {
  std::vector<double> numbers;
  if (value && value->is_number()) numbers.push_back(value->as_number());
  if (value && value->is_array())
    for (const Json& each : value->as_array()) numbers.push_back(each.is_number() ? each.as_number() : 0);
  return numbers;
}

// The unit of `target` where one standardize, and nothing else, changes it.
std::optional<TargetUnit> unit_of(const Json& description, const std::string& target) {
  std::optional<TargetUnit> unit;
  for (const Json* at = &description; at != nullptr; at = inner_of(*at)) {
    const Json* list = type_of(*at) == "map" ? at->find("transforms") : nullptr;
    if (list == nullptr || !list->is_array()) continue;
    for (const Json& transform : list->as_array()) {
      const Json *field = transform.find("field"), *fitted = transform.find("fitted");
      if (field == nullptr || *field != Json(target)) continue;
      if (unit || type_of(transform) != "standardize" || fitted == nullptr || !fitted->is_object()) return std::nullopt;
      unit = {.target = target, .mean = numbers_of(fitted->find("mean")), .deviation = numbers_of(fitted->find("std"))};
      if (unit->mean.empty() || unit->mean.size() != unit->deviation.size()) return std::nullopt;
    }
  }
  return unit;
}

SourcePtr of_table(const Config& leaf, const Table& table, TableUse use) {
  return leaf.string("type", "csv") == "table" ? tables::prepared_records(leaf, table, use) : table_source(leaf, table, use);
}

}  // namespace

RecordReader::RecordReader(const ModelSpec& spec, const Json& job, const Json& fitted)
    : inputs_(spec.inputs),
      targets_{spec.target.name},
      fitted_(fitted),
      description_(data_description(job, fitted)),
      leaf_(innermost(description_)) {
  if (const Json* fit = leaf_.find("fit");
      (type_of(leaf_) == "images" || type_of(leaf_) == "objects") && fit != nullptr && *fit == Json("random")) {
    leaf_.set("fit", "crop");  // what is judged or asked about is not drawn
    for (const char* key : {"area", "ratio"}) leaf_.erase(key);
  }
  for (const LossHead& head : spec.more_heads) targets_.push_back(head.target.name);
  for (const std::string& target : targets_) {
    const bool read = std::any_of(inputs_.begin(), inputs_.end(), [&](const NetworkInput& input) { return input.name == target; });
    if (auto unit = unit_of(description_, target); unit && !read) units_.push_back(std::move(*unit));
  }
  for (const NetworkInput& role : spec.target_roles) targets_.push_back(role.name);
}

std::string RecordReader::leaf_type() const { return type_of(leaf_); }
bool RecordReader::reads_text() const { return leaf_type() == "text" || leaf_type() == "documents"; }
bool RecordReader::is_table() const { return leaf_type() == "csv" || leaf_type() == "table"; }

const Json* RecordReader::packed() const {
  for (const Json* at = &description_; at != nullptr; at = inner_of(*at))
    if (type_of(*at) == "packed") return at;
  return nullptr;
}

// Whether a transform belongs to what every example gets: no chance; the target's only where it is needed.
bool RecordReader::applies(const Json& transform, Purpose purpose) const {
  const TransformDef* def = nullptr;
  for (const TransformDef* each : transform_defs())
    if (type_of(transform) == each->type) def = each;
  const Json* random = transform.find("random");
  if (def == nullptr || (def->random && (random == nullptr || *random != Json(false)))) return false;
  std::string field = def->field;
  if (const Json* named = transform.find("field"); named != nullptr && named->is_string()) field = named->as_string();
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const NetworkInput& input) { return input.name == field; }) ||
         (purpose == Purpose::judge && std::find(targets_.begin(), targets_.end(), field) != targets_.end());
}

// `description` as a chain of maps around `inner`; samples, splits and chance are left out.
Json RecordReader::around(const Json& description, const Json& inner, Purpose purpose) const {
  const Json* source = inner_of(description);
  if (source == nullptr) return inner;
  Json below = around(*source, inner, purpose);
  // A masked text that a model is asked about has its gaps already: nothing is hidden in it, unless it is judged.
  if (type_of(description) == "masked_lm" && purpose == Purpose::judge) {
    Json masked = description;
    masked.set("source", std::move(below));
    return masked;
  }
  // A row for each sequence, since one prediction is asked for each.
  if (type_of(description) == "packed") {
    Json alone = description;
    alone.set("most", 1);
    alone.set("mix", false);
    alone.set("source", std::move(below));
    return alone;
  }
  if (type_of(description) != "map") return below;
  Json transforms = Json::array();
  if (const Json* list = description.find("transforms"); list != nullptr && list->is_array())
    for (const Json& transform : list->as_array())
      if (applies(transform, purpose)) transforms.push(transform);
  if (transforms.as_array().empty()) return below;
  return Json(Json::Object{{"type", "map"}, {"source", std::move(below)}, {"transforms", std::move(transforms)}});
}

// `leaf` inside the job's transforms, opened by `open` instead of by its definition.
SourcePtr RecordReader::open_leaf(const Json& leaf, Purpose purpose, const std::string& where,
                                  const std::function<SourcePtr(const Config& leaf)>& open) const {
  const Json description = around(description_, leaf, purpose);
  // Rows of sequences are made here, of what the leaf inside gives; arrays are such rows.
  const bool rows = type_of(leaf) == "arrays";
  const SourceDef& packed = source_named("packed");
  const LeafScope scope([&](const Config& config, const std::string& folder) {
    return !rows && config.string("type") == packed.type ? packed.open(config, folder) : open(config);
  });
  return open_source(Config(description, where, ErrorKind::data), ".");
}

const NetworkInput& RecordReader::only_input(const std::string& name) const {
  if (inputs_.size() == 1) return inputs_[0];
  std::string names;
  for (const NetworkInput& input : inputs_) names += (names.empty() ? "'" : ", '") + input.name + "'";
  throw Error(ErrorKind::usage, {.where = name,
                                 .what = "the model has " + std::to_string(inputs_.size()) + " inputs, " + names,
                                 .got = "one array",
                                 .expected = "an .npz with an array for each, or JSON records with a key for each"});
}

// A table's columns are no picture's pixels.
void RecordReader::refuse_table(const std::string& name) const {
  if (is_table()) return;
  if (leaf_type() == "text_pairs")
    throw Error(ErrorKind::usage, {.where = name,
                                   .what = "the model reads one text and writes another",
                                   .got = "a table",
                                   .expected = "arrays (.npz), or a text to generate from",
                                   .hint = "perigee generate MODEL --input TEXT"});
  if (leaf_type() == "audio")
    throw Error(ErrorKind::usage, {.where = name,
                                   .what = "the model takes recordings",
                                   .got = "a table",
                                   .expected = std::string("sound (") + kSoundSuffixes + "), or arrays (.npz)"});
  if (takes_images(inputs_)) is_no_image(name, inputs_[0], "pictures (.jpg, .png), or arrays (.npy, .npz)");
}

void RecordReader::check_fields(const DataSource& source, const std::string& name) const {
  for (const NetworkInput& input : inputs_) {
    const Field& field = source.fields()[field_index(source, input.name, name)];
    if (Type{field.dtype, field.shape} != input.type)
      throw Error(ErrorKind::data, {name, "the examples do not fit the model's input '" + input.name + "'",
                                    Type{field.dtype, field.shape}.text(), input.type.text(), ""});
  }
}

// --- Tables --------------------------------------------------------------------------------------------------------------------

Json RecordReader::table_leaf(const std::string& name) const {
  Json leaf = completed(Json(Json::Object{{"type", leaf_type() == "table" ? "table" : "csv"}}), leaf_);
  leaf.set("file", name);
  return leaf;
}

Records RecordReader::from_table(const Table& table) const {
  return {.source = open_leaf(table_leaf(table.where), Purpose::predict, table.where,
                              [&](const Config& leaf) { return of_table(leaf, table, TableUse::records); })};
}

Records RecordReader::from_csv(std::string_view text, const std::string& name) const {
  Json leaf = table_leaf(name);
  refuse_table(name);
  if (suffix_of(name) == "tsv" && leaf.find("delimiter") == nullptr) leaf.set("delimiter", "\t");
  if (leaf_type() == "table")
    return {.source = open_leaf(leaf, Purpose::predict, name,
                                [&](const Config& config) { return tables::prepared_text(config, text, name, TableUse::records); })};
  const Config options(leaf, name, ErrorKind::data);
  const DecodedText decoded = decoded_text(text, options.string("encoding", ""), name);
  return from_table(csv_table(decoded.text, nullptr, name, csv_format(options)));
}

Records RecordReader::from_json(const Json& records, const std::string& name) const {
  if (is_table()) return from_table(json_table(records, name));
  std::vector<const Json*> each;
  if (records.is_object()) each.push_back(&records);
  else if (records.is_array())
    for (const Json& record : records.as_array()) each.push_back(&record);
  if (each.empty())
    throw Error(ErrorKind::data,
                {.where = name, .what = "these are no records", .got = records.type_name(), .expected = "an object, or a list of them"});
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (const NetworkInput& input : inputs_) {
    std::vector<const Json*> values;
    for (size_t i = 0; i < each.size(); ++i) {
      values.push_back(each[i]->find(input.name));
      if (values.back() == nullptr)
        throw Error(ErrorKind::data,
                    {.where = name + ": record " + std::to_string(i + 1),
                     .what = "there is no value for the model's input '" + input.name + "'",
                     .got = each[i]->type_name(),
                     .expected = "an object with the key '" + input.name + "', a list of shape " + input.type.shape.text()});
    }
    arrays.emplace_back(input.name, stacked(values, input.type, name + ": '" + input.name + "'"));
  }
  return from_arrays(name, arrays);
}

// --- Arrays, images, texts -----------------------------------------------------------------------------------------------------

Records RecordReader::from_arrays(const std::string& name, const std::vector<std::pair<std::string, Tensor>>& arrays) const {
  std::vector<NamedArray> named;
  for (const auto& [field, values] : arrays) named.push_back({.name = field, .values = values, .where = name});
  return {.source = open_leaf(Json(Json::Object{{"type", "arrays"}}), Purpose::predict, name,
                              [&](const Config&) { return arrays_source(name, named); })};
}

Records RecordReader::from_npy(std::span<const std::byte> bytes, const std::string& name) const {
  const NetworkInput& input = only_input(name);
  return from_arrays(name, {{input.name, as_examples(parse_npy(bytes, name), input.type)}});
}

Records RecordReader::from_npz(std::span<const std::byte> bytes, const std::string& name) const {
  std::vector<std::pair<std::string, Tensor>> arrays;
  const auto file = parse_npz(bytes, name);
  std::vector<std::string> known;
  for (const auto& [key, tensor] : file) known.push_back(key);
  for (const NetworkInput& input : inputs_) {
    const auto found = std::find_if(file.begin(), file.end(), [&](const auto& entry) { return entry.first == input.name; });
    if (found == file.end())
      throw Error(
          ErrorKind::data,
          {.where = name, .what = "there is no array for the model's input '" + input.name + "'", .hint = nearest_hint(input.name, known)});
    arrays.emplace_back(input.name, as_examples(found->second, input.type));
  }
  return from_arrays(name, arrays);
}

Records RecordReader::from_image(std::span<const std::byte> bytes, const std::string& name) const {
  const NetworkInput& input = only_input(name);
  const Shape& shape = input.type.shape;
  if (shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3))
    throw Error(ErrorKind::usage, {name, "the model does not take images", "an image", shape.text(),
                                   is_table() ? "give a table with the columns of the training data: .csv or .json" : ""});
  const Config leaf(leaf_, name, ErrorKind::data);
  const bool images = leaf_type() == "images" || leaf_type() == "objects";
  Picture image;
  const auto of_size = [&](int64_t height, int64_t width) {
    Tensor values(Dtype::f32, {1, shape[0], height, width});
    const FitOptions fit = images ? fit_options(leaf, height, width) : FitOptions{.height = height, .width = width, .scale = 1.f / 255};
    fit_image(bytes, name, shape[0], fit, nullptr, image, values.data<float>());
    Records records = from_arrays(name, {{input.name, values}});
    records.single = true;
    return records;
  };
  // The size of the training images; where a transform left out, such as a random crop, made another of it, the network's.
  if (images && leaf.has("size")) {
    const std::vector<int64_t> size = leaf.integers("size", 2, 0);
    Records records = of_size(size.at(0), size.at(1));
    if (records.source->fields()[field_index(*records.source, input.name, name)].shape == shape) return records;
  }
  return of_size(shape[1], shape[2]);
}

Records RecordReader::from_sound(std::span<const std::byte> bytes, const std::string& name) const {
  if (leaf_type() != "audio")
    throw Error(ErrorKind::usage, {.where = name, .what = "the model does not read recordings", .expected = inputs_[0].type.text()});
  Json leaf = leaf_;
  for (const char* key : {"files", "table", "label"}) leaf.erase(key);
  return {.source = open_leaf(leaf, Purpose::predict, name, [&](const Config& config) { return sound_source(config, bytes, name); }),
          .single = true};
}

// Every window of the text, the last of which nothing follows yet, in the model's own vocabulary.
Records RecordReader::from_text(std::string_view raw, const std::string& name) const {
  const DecodedText decoded = decoded_text(raw, Config(leaf_, name, ErrorKind::data).string("encoding", ""), name);
  std::string_view text = decoded.text;
  if (leaf_type() == "documents" && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (leaf_type() == "documents") {
    const SourcePtr source =
        open_leaf(leaf_, Purpose::predict, name, [&](const Config& config) { return document_source(config, text, name); });
    return {.source = source, .single = source->size() == 1};
  }
  if (leaf_type() != "text")
    throw Error(ErrorKind::usage, {.where = name, .what = "the model does not read text", .expected = inputs_[0].type.text()});
  Json leaf = leaf_;
  leaf.set("file", name);
  leaf.set("targets", "none");
  for (const char* key : {"part", "parts", "stride", "streams"}) leaf.erase(key);
  return {.source = open_leaf(leaf, Purpose::predict, name, [&](const Config& config) { return text_source(config, text, name); })};
}

// --- Files ---------------------------------------------------------------------------------------------------------------------

Records RecordReader::open(std::span<const std::byte> bytes, RecordFormat format, const std::string& name) const {
  if (bytes.empty()) throw Error(ErrorKind::data, {.where = name, .what = "it is empty"});
  if (format == RecordFormat::automatic) format = guess(bytes, reads_text());
  Records records;
  switch (format) {
    case RecordFormat::npy: records = from_npy(bytes, name); break;
    case RecordFormat::npz: records = from_npz(bytes, name); break;
    case RecordFormat::image: records = from_image(bytes, name); break;
    case RecordFormat::sound: records = from_sound(bytes, name); break;
    case RecordFormat::text: records = from_text(as_text(bytes), name); break;
    case RecordFormat::json: records = from_json(json_records(as_text(bytes), name), name); break;
    case RecordFormat::csv:
    case RecordFormat::automatic: records = from_csv(as_text(bytes), name); break;
  }
  check_fields(*records.source, name);
  records.units = units_;
  return records;
}

Records RecordReader::open(const Json& given, const std::string& name) const {
  Records records = from_json(given, name);
  check_fields(*records.source, name);
  records.units = units_;
  return records;
}

Records RecordReader::open_table(const std::shared_ptr<const tables::arrow::HandedTable>& table, const std::string& name) const {
  Records records;
  const std::string type = leaf_type();
  if (type == "table") {
    records.source = open_leaf(table_leaf(name), Purpose::predict, name,
                               [&](const Config& leaf) { return tables::prepared_table(leaf, table, name, TableUse::records); });
  } else if (is_table()) {
    records = from_table(tables::text_table(tables::TableFile(name, {}, table).all(), name));
  } else {
    records.source =
        open_leaf(Json(Json::Object{{"type", "arrays"}}), Purpose::predict, name, [&](const Config&) { return fields_in_place(table); });
  }
  check_fields(*records.source, name);
  records.units = units_;
  return records;
}

Records RecordReader::open_file(const std::string& path) const {
  if (folder_exists(path)) throw Error(ErrorKind::usage, {.where = path, .what = "is a folder", .expected = "a file"});
  if (!file_exists(path)) {
    const bool there = !file_identity(path).empty();
    throw Error(ErrorKind::usage, {.where = path,
                                   .what = there ? "is no regular file" : "there is no such file",
                                   .hint = there ? "- reads standard input" : nearby_hint(path)});
  }
  const std::string suffix = suffix_of(path);
  RecordFormat format = RecordFormat::automatic;
  if (suffix == "npy") format = RecordFormat::npy;
  else if (suffix == "npz") format = RecordFormat::npz;
  else if (reads_text()) format = RecordFormat::text;
  else if (suffix == "csv" || suffix == "tsv" || suffix == "txt" || leaf_.find("lines") != nullptr) format = RecordFormat::csv;
  else if (suffix == "json" || suffix == "jsonl" || suffix == "ndjson") format = RecordFormat::json;
  else if (is_image_suffix(suffix)) format = RecordFormat::image;
  else if (leaf_type() == "audio" || is_sound_suffix(suffix)) format = RecordFormat::sound;
  else
    throw Error(ErrorKind::usage, {path, "this kind of file cannot be predicted", "'." + suffix + "'",
                                   std::string("csv, tsv, json, jsonl, npy, npz, ") + kImageSuffixes, ""});
  const FileContent content = FileContent::open(path, kLargestFile);
  return open(content.bytes(), format, path);
}

std::vector<std::string> RecordReader::files_in(const std::string& folder) const {
  static constexpr std::string_view kTables[] = {"csv", "tsv", "json", "jsonl", "ndjson"};
  const bool images = takes_images(inputs_), sounds = leaf_type() == "audio";
  std::vector<std::string> files;
  size_t folders = 0;
  for (const FolderEntry& entry : list_folder(folder)) {
    if (entry.name.starts_with('.')) continue;
    folders += entry.folder;
    const std::string suffix = suffix_of(entry.name);
    const bool table = std::find(std::begin(kTables), std::end(kTables), suffix) != std::end(kTables);
    const bool of_kind = sounds ? is_sound_suffix(suffix) : images ? is_image_suffix(suffix) : table;
    const bool fits = suffix == "npy" || suffix == "npz" || reads_text() || of_kind;
    if (entry.file && fits) files.push_back((folder.ends_with('/') ? folder : folder + "/") + entry.name);
  }
  if (!files.empty()) return files;
  throw Error(ErrorKind::usage, {.where = folder,
                                 .what = "this folder has no files that the model takes",
                                 .got = folders > 0 ? std::to_string(folders) + " folders" : "",
                                 .expected = sounds   ? std::string("npz, ") + kSoundSuffixes
                                             : images ? std::string("npy, npz, ") + kImageSuffixes
                                                      : "csv, tsv, json, jsonl, npy or npz",
                                 .hint = folders > 0 ? "name the folders inside: " + folder + "/*" : ""});
}

// --- To judge ------------------------------------------------------------------------------------------------------------------

Json RecordReader::describe(const std::string& path) const {
  if (leaf_type() == "documents" || leaf_type() == "text_pairs") return Json(Json::Object{{"type", leaf_type()}, {"file", path}});
  if (folder_exists(path)) return Json(Json::Object{{"type", "images"}, {"folder", path}});
  const bool sounds = leaf_type() == "audio";
  if (folder_exists(path) || sounds) return Json(Json::Object{{"type", sounds ? "audio" : "images"}, {"folder", path}});
  const std::string suffix = suffix_of(path);
  const bool text = leaf_type() == "text", npz = suffix == "npz";
  if (!is_table() && !text && !npz && takes_images(inputs_)) is_no_image(path, inputs_[0], kLabelledImages);
  return Json(Json::Object{{"type", text ? "text" : npz ? "npz" : leaf_type() == "table" ? "table" : "csv"}, {"file", path}});
}

SourcePtr RecordReader::open_labelled(const Json& description, const std::string& where, const std::string& folder) const {
  // Records went the job's way already.
  if (type_of(innermost(description)) == "records")
    return open_source(Config(with_fitted(description, fitted_), where, ErrorKind::data), folder);
  const Json complete = completed(description, leaf_);
  const Json chain = has_map(complete) ? with_fitted(complete, fitted_) : around(description_, complete, Purpose::judge);
  return open_source(Config(chain, where, ErrorKind::data), folder);
}

SourcePtr RecordReader::open_labelled_table(std::span<const std::byte> bytes, const std::string& name) const {
  const Json leaf = table_leaf(name);
  const bool json = guess(bytes, false) == RecordFormat::json;
  const std::string_view text = as_text(bytes);
  if (!json && leaf_type() == "table")
    return open_leaf(leaf, Purpose::judge, name,
                     [&](const Config& config) { return tables::prepared_text(config, text, name, TableUse::examples); });
  const Config options(leaf, name, ErrorKind::data);
  const DecodedText decoded = decoded_text(text, json ? "" : options.string("encoding", ""), name);
  const Table table = json ? json_table(json_records(text, name), name) : csv_table(decoded.text, nullptr, name, csv_format(options));
  return open_leaf(leaf, Purpose::judge, name, [&](const Config& config) { return of_table(config, table, TableUse::examples); });
}

}  // namespace perigee
