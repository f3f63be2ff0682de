#include "cluster/data/served_data.h"

#include <algorithm>
#include <utility>

#include "src/data/records/field_json.h"
#include "src/data/records/partition.h"

namespace perigee {
namespace {

constexpr const char* kWhere = "the coordinator's sources";
constexpr size_t kMaxSources = 4096;  // partitions among them
constexpr int64_t kMaxSize = int64_t{1} << 52;

const Json::Array& list_in(const Config& config, const char* key, size_t most) {
  const Json* list = config.raw(key);
  if (!list || !list->is_array() || list->as_array().size() > most)
    config.fail(key, "must be a list", "", "at most " + std::to_string(most) + " elements");
  return list->as_array();
}

Manifest::Source read_source(const Config& config) {
  Manifest::Source source{.size = config.integer_in("size", 1, kMaxSize), .describe = config.string("describe")};
  source.fields = fields_from_json(config);
  source.partition = config.string("partition", "");
  source.layout = RecordLayout(source.fields);
  if (const Json* fitted = config.raw("fitted")) source.fitted = *fitted;
  return source;
}

}  // namespace

SourcePtr ServedData::open(const std::string& part, const Config& description, const std::string& folder) {
  std::vector<size_t> leaves;
  const LeafScope scope([&](const Config& leaf, const std::string& base) { return open_leaf(leaf, base, &leaves); });
  const FitsLater later;
  SourcePtr source = opener_ ? opener_->open(part, description, folder) : open_source(description, folder);
  parts_.push_back({part, later.any() ? Json() : source->traits().fitted, std::move(leaves)});
  return source;
}

SourcePtr ServedData::open_leaf(const Config& description, const std::string& folder, std::vector<size_t>* leaves) {
  const std::string identity = description.json().dump() + "\n" + folder;
  const auto known = numbers_.find(identity);
  if (known != numbers_.end()) {
    leaves->push_back(known->second);
    return sources_[known->second].source;
  }
  const LeafScope as_usual{LeafScope::Open()};
  const SourcePtr source = open_source(description, folder);
  const SourceTraits traits = source->traits();
  if (traits.live)
    throw Error(ErrorKind::data, {.where = description.where(),
                                  .what = "examples that appear while the program runs cannot be shared out among workers",
                                  .got = traits.description,
                                  .expected = "a source whose examples can be read in any order",
                                  .hint = "train on them in one process"});
  numbers_[identity] = sources_.size();
  leaves->push_back(sources_.size());
  sources_.push_back({source, RecordLayout(source->fields()), traits.touches});
  if (!is_partition(description.json())) return source;
  const PartitionAbout about = read_partition(description);
  const bool twice = std::ranges::any_of(partitions_, [&](const HeldPartition& p) { return p.name == about.name; });
  if (twice) throw Error(ErrorKind::data, {.where = description.where(), .what = "another partition has the same name", .got = about.name});
  partitions_.push_back({.name = about.name, .hash = about.hash, .rows = about.rows});
  sources_.back().partition = about.name;
  return source;
}

std::string ServedData::manifest() const {
  Json sources = Json::array(), parts = Json::object();
  for (const ServedSource& served : sources_) {
    Json fields = Json::array();
    for (const Field& field : served.source->fields()) fields.push(field_to_json(field));
    const SourceTraits traits = served.source->traits();
    Json source(Json::Object{
        {"fields", std::move(fields)}, {"size", served.source->size()}, {"describe", traits.description}, {"fitted", traits.fitted}});
    if (!served.partition.empty()) source.set("partition", served.partition);
    sources.push(std::move(source));
  }
  for (const Part& part : parts_) {
    Json leaves = Json::array();
    for (const size_t leaf : part.leaves) leaves.push(static_cast<int64_t>(leaf));
    parts.set(part.name, Json(Json::Object{{"fitted", part.fitted}, {"leaves", std::move(leaves)}}));
  }
  return Json(Json::Object{{"sources", std::move(sources)}, {"parts", std::move(parts)}}).dump();
}

Manifest read_manifest(const std::string& text) {
  const Json json = Json::parse(text, kWhere);
  const Config config(json, kWhere, ErrorKind::data);
  Manifest manifest;
  for (const Json& source : list_in(config, "sources", kMaxSources))
    manifest.sources.push_back(read_source(config.element(source, "sources[" + std::to_string(manifest.sources.size()) + "]")));
  const Config parts = config.object("parts");
  for (const auto& [name, part] : parts.json().as_object()) {
    const Config each = parts.element(part, name);
    Manifest::Part& read = manifest.parts[name];
    if (const Json* fitted = each.raw("fitted")) read.fitted = *fitted;
    for (const int64_t leaf : each.integer_list("leaves")) {
      if (leaf < 0 || leaf >= static_cast<int64_t>(manifest.sources.size()) || read.leaves.size() >= kMaxSources)
        each.fail("leaves", "names no source", std::to_string(leaf));
      read.leaves.push_back(static_cast<size_t>(leaf));
    }
  }
  return manifest;
}

}  // namespace perigee
