#include "src/data/records/record_set.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "kernels/convert.h"
#include "src/io/digest.h"

namespace perigee::records {
namespace {

constexpr size_t kMostRecordSetFields = 64;
constexpr size_t kMostRow = size_t{1} << 32;
constexpr int64_t kCountedClasses = 100'000;
constexpr int64_t kMostRecordSetShards = 1'000'000;

size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

StoredField field_of(const Config& config) {
  StoredField stored;
  stored.encoded = config.boolean("encoded", false);
  std::vector<int64_t> dims = config.integer_list("shape");
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 1; })) config.fail("shape", "has an empty dimension");
  if (!count_elements(dims) || dims.size() > static_cast<size_t>(kMaxRank)) config.fail("shape", "is no shape");
  stored.field = {.name = config.string("name"),
                  .dtype = dtype_from_name(config.string("dtype")),
                  .shape = Shape(dims),
                  .classes = config.integer_in("classes", 0, int64_t{1} << 32, 0),
                  .class_names = config.string_list("class_names")};
  const bool sequence = stored.field.classes == 0 && stored.field.shape.rank() == 1;  // of labels, whose names they are
  if (!stored.field.class_names.empty() && !sequence && static_cast<int64_t>(stored.field.class_names.size()) != stored.field.classes)
    config.fail("class_names", "are not as many as the classes");
  stored.field.role = static_cast<FieldRole>(config.integer_in("role", 0, static_cast<int64_t>(FieldRole::segment), 0));
  stored.field.of = config.string("of", "");
  stored.field.on_picture = static_cast<OnPicture>(config.integer_in("on_picture", 0, static_cast<int64_t>(OnPicture::mask), 0));
  return stored;
}

// Offsets and the row's size; false: too large.
bool place(RecordFields& all) {
  if (all.fields.size() > kMostRecordSetFields) return false;
  all.layout.stride = all.layout.variable = 0;
  for (StoredField& stored : all.fields) {
    stored.offset = stored.encoded ? all.layout.variable++ : all.layout.stride;
    if (stored.encoded) continue;
    const auto elements = static_cast<uint64_t>(stored.field.shape.elements());
    if (elements > kMostRow) return false;
    stored.bytes = elements * dtype_bytes(stored.field.dtype);
    all.layout.stride += padded(stored.bytes);
    if (all.layout.stride > kMostRow) return false;
  }
  return true;
}

Json parsed_file(const std::string& path) {
  try {
    return Json::parse(as_text(read_file(path, uint64_t{256} << 20)), path);
  } catch (const Error& error) {
    throw Error(error.kind() == ErrorKind::model ? ErrorKind::data : error.kind(), error.parts());
  }
}

}  // namespace

RecordFields lay_out(const std::vector<Field>& fields, bool encoded) {
  RecordFields all;
  for (const Field& field : fields) all.fields.push_back({.field = field, .encoded = encoded && all.fields.empty()});
  if (!place(all))
    throw Error(ErrorKind::resources, {.where = "perigee data prepare", .what = "an example is too large", .expected = "at most 4 GiB"});
  return all;
}

Json fields_json(const RecordFields& all) {
  Json list = Json::array();
  for (const auto& [field, encoded, bytes, offset] : all.fields) {
    Json shape = Json::array(), names = Json::array();
    for (const int64_t dim : field.shape.vector()) shape.push(dim);
    for (const std::string& name : field.class_names) names.push(name);
    Json json(Json::Object{{"name", field.name}, {"dtype", dtype_name(field.dtype)}, {"shape", std::move(shape)}});
    if (encoded) json.set("encoded", true);
    if (field.classes > 0) json.set("classes", field.classes);
    if (!field.class_names.empty()) json.set("class_names", std::move(names));
    if (field.role != FieldRole::none) json.set("role", static_cast<int64_t>(field.role));
    if (!field.of.empty()) json.set("of", field.of);
    if (field.on_picture != OnPicture::none) json.set("on_picture", static_cast<int64_t>(field.on_picture));
    list.push(std::move(json));
  }
  return list;
}

RecordFields fields_of(const Json& json, const std::string& where) {
  RecordFields all;
  if (!json.is_array() || json.as_array().empty() || json.as_array().size() > kMostRecordSetFields)
    throw Error(ErrorKind::data, {.where = where, .what = "the fields must be a list", .expected = "1 to 64 fields"});
  try {
    for (const Json& each : json.as_array()) all.fields.push_back(field_of(Config(each, where + ": fields", ErrorKind::data)));
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.parts());
  }
  for (size_t i = 0; i < all.fields.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (all.fields[i].field.name == all.fields[k].field.name)
        throw Error(ErrorKind::data, {.where = where, .what = "two fields have one name", .got = "'" + all.fields[i].field.name + "'"});
  if (!place(all)) throw Error(ErrorKind::data, {.where = where, .what = "the fields are too large", .expected = "at most 4 GiB"});
  return all;
}

// --- Statistics ----------------------------------------------------------------------------------------------------------------

void FieldStatistics::add(const StoredField& stored, const std::byte* values) {
  const int64_t n = stored.field.shape.elements();
  thread_local std::vector<double> numbers;
  numbers.resize(static_cast<size_t>(n));
  convert(stored.field.dtype, values, Dtype::f64, numbers.data(), n);
  FieldStatistics part;
  double sum = 0;
  for (const double value : numbers) {
    if (!std::isfinite(value)) {
      ++part.not_finite;
      continue;
    }
    part.least = part.count == 0 ? value : std::min(part.least, value);
    part.most = part.count == 0 ? value : std::max(part.most, value);
    ++part.count;
    sum += value;
  }
  part.mean = part.count > 0 ? sum / static_cast<double>(part.count) : 0;
  for (const double value : numbers)
    if (std::isfinite(value)) part.squares += (value - part.mean) * (value - part.mean);
  if (stored.field.classes > 0 && stored.field.classes <= kCountedClasses && n == 1) {
    part.classes.resize(static_cast<size_t>(stored.field.classes));
    const double label = numbers[0];
    if (label >= 0 && label < static_cast<double>(stored.field.classes)) part.classes[static_cast<size_t>(label)] = 1;
  }
  merge(part);
}

// Chan, Golub, LeVeque (1979).
void FieldStatistics::merge(const FieldStatistics& other) {
  not_finite += other.not_finite;
  if (classes.size() < other.classes.size()) classes.resize(other.classes.size());
  for (size_t i = 0; i < other.classes.size(); ++i) classes[i] += other.classes[i];
  if (other.count == 0) return;
  least = count == 0 ? other.least : std::min(least, other.least);
  most = count == 0 ? other.most : std::max(most, other.most);
  const auto a = static_cast<double>(count), b = static_cast<double>(other.count), delta = other.mean - mean;
  mean += delta * b / (a + b);
  squares += other.squares + delta * delta * a * b / (a + b);
  count += other.count;
}

Json FieldStatistics::json() const {
  Json json(Json::Object{{"count", count},
                         {"mean", mean},
                         {"std", count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0.},
                         {"min", least},
                         {"max", most},
                         {"squares", squares}});
  if (not_finite > 0) json.set("not_finite", not_finite);
  if (!classes.empty()) {
    Json counts = Json::array();
    for (const int64_t each : classes) counts.push(each);
    json.set("classes", std::move(counts));
  }
  return json;
}

FieldStatistics statistics_of(const Json& json, const std::string& where) {
  const Config config(json, where + ": statistics", ErrorKind::data);
  return {.count = config.integer_in("count", 0, int64_t{1} << 62),
          .not_finite = config.integer_in("not_finite", 0, int64_t{1} << 62, 0),
          .mean = config.number("mean"),
          .squares = config.number("squares"),
          .least = config.number("min"),
          .most = config.number("max"),
          .classes = config.integer_list("classes")};
}

// --- The folder ----------------------------------------------------------------------------------------------------------------

std::string shard_name(int64_t number) {
  char name[32];
  std::snprintf(name, sizeof name, "%05lld.pgr", static_cast<long long>(number));
  return name;
}

RecordSet open_records(const std::string& folder) {
  const std::string path = path_in(folder, kManifest);
  if (!file_exists(path)) {
    const bool begun = file_exists(path_in(folder, "plan.json"));
    throw Error(ErrorKind::data, {.where = folder,
                                  .what = begun ? "the preparation of these records has not ended" : "the folder has no prepared records",
                                  .expected = std::string("a folder with ") + kManifest,
                                  .hint = begun ? "run the same `perigee data prepare` again: it goes on where it was"
                                                : "`perigee data prepare JOB OUT` makes one"});
  }
  const Json json = parsed_file(path);
  const Config config(json, path, ErrorKind::data);
  if (const int64_t format = config.integer("format"); format != kFormat)
    config.fail("format", "is another version", std::to_string(format), std::to_string(kFormat),
                "prepare the data again with this program");
  RecordSet set{.folder = folder};
  const Json* fields = config.raw("fields");
  set.fields = fields_of(fields != nullptr ? *fields : Json(), path);
  set.records = config.integer_in("records", 1, int64_t{1} << 48);
  set.per_shard = config.integer_in("per_shard", 1, int64_t{1} << 48);
  set.rate = config.number_in("rate", 0, 1e9, 0);
  if (const Json* prepared = config.raw("prepared")) set.prepared = *prepared;
  if (const Json* statistics = config.raw("statistics")) set.statistics = *statistics;
  const Json* list = config.raw("shards");
  const int64_t wanted = (set.records - 1) / set.per_shard + 1;
  if (list == nullptr || !list->is_array() || wanted > kMostRecordSetShards || static_cast<int64_t>(list->as_array().size()) != wanted)
    config.fail("shards", "are not as many as the records need", "", std::to_string(wanted));
  for (int64_t i = 0; i < wanted; ++i) {
    const std::string file = path_in(folder, shard_name(i));
    auto shard = std::make_unique<Shard>(file);
    ShardLayout layout = set.fields.layout;
    layout.per_block = i == 0 ? shard->layout().per_block : set.fields.layout.per_block;
    set.fields.layout.per_block = layout.per_block;
    const int64_t records = std::min(set.per_shard, set.records - i * set.per_shard);
    const Json& hash = list->as_array()[static_cast<size_t>(i)];
    if (shard->layout() != layout || shard->records() != records || !hash.is_string() || hash.as_string() != hex_digest(shard->hash()))
      throw Error(ErrorKind::data, {.where = file,
                                    .what = "the record file is none of those that " + path + " names",
                                    .got = std::to_string(shard->records()) + " records, " + hex_digest(shard->hash()),
                                    .expected = std::to_string(records) + " records, " + (hash.is_string() ? hash.as_string() : "a hash"),
                                    .hint = "prepare the data again, into an empty folder"});
    set.shards.push_back(std::move(shard));
  }
  return set;
}

Json with_prepared(const Json& description) {
  if (!description.is_object()) return description;
  if (const Json* type = description.find("type"), *fitted = description.find("fitted"); type != nullptr && *type == Json("records")) {
    const Json* prepared = fitted != nullptr ? fitted->find("prepared") : nullptr;
    return prepared != nullptr && prepared->is_object() ? *prepared : description;
  }
  Json result = description;
  if (Json* inner = result.find("source"); inner != nullptr) *inner = with_prepared(*inner);
  if (Json* list = result.find("sources"); list != nullptr && list->is_array())
    for (Json& each : list->as_array()) each = with_prepared(each);
  return result;
}

}  // namespace perigee::records
