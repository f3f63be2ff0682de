#include "src/model/records/record_reader.h"

#include <algorithm>

#include "src/data/table/columnar/arrow/handed_source.h"
#include "src/data/table/examples/prepared.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/transform.h"
#include "src/io/codec/compress.h"
#include "src/io/confined.h"
#include "src/io/image.h"
#include "src/io/sound/sound.h"
#include "src/model/records/example_description.h"

namespace perigee {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 34;
constexpr const char* kLabelledImages = "a folder that has a folder of images for each class, or an .npz with images and targets";

}  // namespace

RecordReader::RecordReader(const ModelSpec& spec, const Json& job, const Json& fitted)
    : inputs_(spec.inputs),
      targets_{spec.target.name},
      fitted_(fitted),
      description_(example_description(job, fitted)),
      leaf_(innermost_source(description_)) {
  if (const Json* fit = leaf_.find("fit");
      (source_type(leaf_) == "images" || source_type(leaf_) == "objects") && fit != nullptr && *fit == Json("random")) {
    leaf_.set("fit", "crop");  // what is judged or asked about is not drawn
    for (const char* key : {"area", "ratio"}) leaf_.erase(key);
  }
  for (const LossHead& head : spec.more_heads) targets_.push_back(head.target.name);
  for (const std::string& target : targets_) {
    const bool read = std::any_of(inputs_.begin(), inputs_.end(), [&](const NetworkInput& input) { return input.name == target; });
    if (auto unit = target_unit(description_, target); unit && !read) units_.push_back(std::move(*unit));
  }
  for (const NetworkInput& role : spec.target_roles) targets_.push_back(role.name);
}

std::string RecordReader::leaf_type() const { return source_type(leaf_); }
bool RecordReader::reads_text() const { return leaf_type() == "text" || leaf_type() == "documents"; }
bool RecordReader::is_table() const { return leaf_type() == "csv" || leaf_type() == "table"; }

const Json* RecordReader::packed() const {
  for (const Json* at = &description_; at != nullptr; at = source_inside(*at))
    if (source_type(*at) == "packed") return at;
  return nullptr;
}

// Whether a transform belongs to what every example gets: no chance; the target's only where it is needed.
bool RecordReader::applies(const Json& transform, Purpose purpose) const {
  const TransformDef* def = nullptr;
  for (const TransformDef* each : transform_defs())
    if (source_type(transform) == each->type) def = each;
  const Json* random = transform.find("random");
  if (def == nullptr || (def->random && (random == nullptr || *random != Json(false)))) return false;
  std::string field = def->field;
  if (const Json* named = transform.find("field"); named != nullptr && named->is_string()) field = named->as_string();
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const NetworkInput& input) { return input.name == field; }) ||
         (purpose == Purpose::judge && std::find(targets_.begin(), targets_.end(), field) != targets_.end());
}

// `description` as a chain of maps around `inner`; samples, splits and chance are left out.
Json RecordReader::around(const Json& description, const Json& inner, Purpose purpose) const {
  const Json* source = source_inside(description);
  if (source == nullptr) return inner;
  Json below = around(*source, inner, purpose);
  // A masked text that a model is asked about has its gaps already: nothing is hidden in it, unless it is judged.
  if (source_type(description) == "masked_lm" && purpose == Purpose::judge) {
    Json masked = description;
    masked.set("source", std::move(below));
    return masked;
  }
  // A row for each sequence, since one prediction is asked for each.
  if (source_type(description) == "packed") {
    Json alone = description;
    alone.set("most", 1);
    alone.set("mix", false);
    alone.set("source", std::move(below));
    return alone;
  }
  if (source_type(description) != "map") return below;
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
  const bool rows = source_type(leaf) == "arrays";
  const SourceDef& packed = source_named("packed");
  const LeafScope scope([&](const Config& config, const std::string& folder) {
    return !rows && config.string("type") == packed.type ? packed.open(config, folder) : open(config);
  });
  return open_source(Config(description, where, ErrorKind::data), ".");
}

bool RecordReader::takes_images() const {
  const Shape& shape = inputs_.at(0).type.shape;
  return inputs_.size() == 1 && shape.rank() == 3 && (shape[0] == 1 || shape[0] == 3);
}

void RecordReader::is_no_image(const std::string& name, const char* expected) const {
  throw Error(ErrorKind::usage,
              {.where = name, .what = "the model takes images " + inputs_[0].type.shape.text(), .got = "a table", .expected = expected});
}

void RecordReader::check_fields(const DataSource& source, const std::string& name) const {
  for (const NetworkInput& input : inputs_) {
    const Field& field = source.fields()[field_index(source, input.name, name)];
    if (Type{field.dtype, field.shape} != input.type)
      throw Error(ErrorKind::data, {name, "the examples do not fit the model's input '" + input.name + "'",
                                    Type{field.dtype, field.shape}.text(), input.type.text(), ""});
  }
}

// --- Files ---------------------------------------------------------------------------------------------------------------------

Records RecordReader::open(std::span<const std::byte> bytes, RecordFormat format, const std::string& name) const {
  if (bytes.empty()) throw Error(ErrorKind::data, {.where = name, .what = "it is empty"});
  if (format == RecordFormat::automatic) format = guessed_format(bytes, reads_text());
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
  const std::string suffix = record_suffix(path);
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
  const bool images = takes_images(), sounds = leaf_type() == "audio";
  std::vector<std::string> files;
  size_t folders = 0;
  for (const FolderEntry& entry : list_folder(folder)) {
    if (entry.name.starts_with('.')) continue;
    folders += entry.folder;
    const std::string suffix = record_suffix(entry.name);
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
  const bool sounds = leaf_type() == "audio";
  if (folder_exists(path) || sounds) return Json(Json::Object{{"type", sounds ? "audio" : "images"}, {"folder", path}});
  const std::string suffix = record_suffix(path);
  const bool text = leaf_type() == "text", npz = suffix == "npz";
  if (!is_table() && !text && !npz && takes_images()) is_no_image(path, kLabelledImages);
  return Json(Json::Object{{"type", text ? "text" : npz ? "npz" : leaf_type() == "table" ? "table" : "csv"}, {"file", path}});
}

SourcePtr RecordReader::open_labelled(const Json& description, const std::string& where, const std::string& folder) const {
  // Records went the job's way already.
  if (source_type(innermost_source(description)) == "records")
    return open_source(Config(with_fitted(description, fitted_), where, ErrorKind::data), folder);
  const Json complete = with_reading_options(description, leaf_);
  const Json chain = has_transforms(complete) ? with_fitted(complete, fitted_) : around(description_, complete, Purpose::judge);
  return open_source(Config(chain, where, ErrorKind::data), folder);
}

}  // namespace perigee
