#include <algorithm>

#include "src/data/arrays.h"
#include "src/data/documents.h"
#include "src/data/sound/sound_source.h"
#include "src/data/sources/picture_options.h"
#include "src/data/table/examples/prepared.h"
#include "src/data/table/examples/table_source.h"
#include "src/data/text_source.h"
#include "src/io/codec/encoding.h"
#include "src/io/image.h"
#include "src/io/npy.h"
#include "src/io/sound/sound.h"
#include "src/model/records/record_reader.h"

// Contents of each kind as records: tables, arrays, images, recordings and texts.
namespace perigee {
namespace {

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

SourcePtr of_table(const Config& leaf, const Table& table, TableUse use) {
  return leaf.string("type", "csv") == "table" ? tables::prepared_records(leaf, table, use) : table_source(leaf, table, use);
}

}  // namespace

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
  if (takes_images()) is_no_image(name, "pictures (.jpg, .png), or arrays (.npy, .npz)");
}

// --- Tables --------------------------------------------------------------------------------------------------------------------

Json RecordReader::table_leaf(const std::string& name) const {
  Json leaf = with_reading_options(Json(Json::Object{{"type", leaf_type() == "table" ? "table" : "csv"}}), leaf_);
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
  if (record_suffix(name) == "tsv" && leaf.find("delimiter") == nullptr) leaf.set("delimiter", "\t");
  if (leaf_type() == "table")
    return {.source = open_leaf(leaf, Purpose::predict, name,
                                [&](const Config& config) { return tables::prepared_text(config, text, name, TableUse::records); })};
  const Config options(leaf, name, ErrorKind::data);
  const DecodedText decoded = decoded_text(text, options.string("encoding", ""), name);
  return from_table(csv_table(decoded.text, nullptr, name, csv_format(options)));
}

SourcePtr RecordReader::open_labelled_table(std::span<const std::byte> bytes, const std::string& name) const {
  const Json leaf = table_leaf(name);
  const bool json = guessed_format(bytes, false) == RecordFormat::json;
  const std::string_view text = as_text(bytes);
  if (!json && leaf_type() == "table")
    return open_leaf(leaf, Purpose::judge, name,
                     [&](const Config& config) { return tables::prepared_text(config, text, name, TableUse::examples); });
  const Config options(leaf, name, ErrorKind::data);
  const DecodedText decoded = decoded_text(text, json ? "" : options.string("encoding", ""), name);
  const Table table = json ? json_table(json_records(text, name), name) : csv_table(decoded.text, nullptr, name, csv_format(options));
  return open_leaf(leaf, Purpose::judge, name, [&](const Config& config) { return of_table(config, table, TableUse::examples); });
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
}  // namespace perigee
