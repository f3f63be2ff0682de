#include "src/job/job.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "src/core/config.h"
#include "src/core/elsewhere.h"
#include "src/core/error.h"
#include "src/data/sharded_order.h"
#include "src/data/transform.h"
#include "src/io/yaml.h"
#include "src/job/canonical.h"
#include "src/job/job_parts.h"
#include "src/job/job_schema.h"
#include "src/job/lua_table.h"
#include "src/nn/describe.h"
#include "src/nn/layer.h"
#include "src/nn/loss.h"
#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

constexpr int64_t kFormat = 1;
constexpr size_t kMaxFileBytes = 64 << 20;

void refuse_without_effect(const Json& part, const std::string& section, const std::string& where) {
  for (const auto& [key, value] : part.as_object())
    if (has_no_effect(section, key))
      throw Error(ErrorKind::model,
                  {.where = where, .what = "'" + (section.empty() ? "" : section + ".") + key + "' has no effect", .hint = "remove it"});
}

void check_keys(const Json& json, const std::string& where) try { check_options(json, job_schema, where); } catch (const Error& error) {
  const std::string& place = error.parts().where;
  throw with_example(error, place.starts_with(where + ": ") ? place.substr(where.size() + 2) : "");
}

void check_top_level(const Json& json, const std::string& where) {
  const auto refuse = [&](std::string what, std::string got, std::string expected, std::string hint = "") {
    throw Error(ErrorKind::model, {where, std::move(what), std::move(got), std::move(expected), std::move(hint)});
  };
  if (!json.is_object()) refuse("a job must be an object", json.type_name(), "{\"network\": ..., \"data\": ..., ...}");
  const Json* format = json.find("perigee");
  if (format != nullptr && format->is_int() && format->as_int() != kFormat)
    refuse("this job is in another format", std::to_string(format->as_int()), std::to_string(kFormat),
           "it was written by another version of perigee");
  refuse_without_effect(json, "", where);
  if (const Json* data = json.find("data"); data != nullptr && data->is_object()) refuse_without_effect(*data, "data", where);
  check_keys(json, where);
  if (json.find("network") == nullptr) refuse("a job needs a 'network'", "", "");
}

// The job of a description, or of one that was changed.
void check_job(Json* json, const std::string& where) {
  if (json->is_object()) complete_job(json);
  check_top_level(*json, where);
  check_parts(*json, where);
}

// The keys that an object might have there, beside those that it has; empty when this file does not know.
std::vector<std::string> keys_below(const std::vector<std::string>& path, const Json& object) {
  if (path.size() > 2 && (path[0] == "phases" || path[0] == "objectives")) return keys_below({path.begin() + 2, path.end()}, object);
  if (path.empty()) return job_schema.names();
  const Option* section = path.size() == 1 ? job_schema.find(path[0]) : nullptr;
  if (section != nullptr && section->inside != nullptr && object.is_object()) return section->inside->names();
  if (path.size() == 2)
    if (const Option* parts = job_schema.find(path[0]); parts != nullptr && (parts->type->values & takes::list) && parts->inside != nullptr)
      return parts->inside->names();
  const Json* type = object.find("type");
  if (type == nullptr || !type->is_string()) return {};
  if (path[0] == "loss") {
    for (const LossDef* loss : all_losses())
      if (type->as_string() == loss->name) return Schema{.options = loss->schema.options, .common = &output_loss_schema}.names();
    return {};
  }
  if (path[0] != "network") return {};
  for (const LayerDef* layer : all_layers())
    if (type->as_string() == layer->name) return layer->schema.names();
  return {};
}

// Whether it is an option of the optimiser or source that stands there, although the job has a key of a similar name.
bool is_option_of_type(const Json& object, const std::string& key) {
  const Json* type = object.find("type");
  if (type == nullptr || !type->is_string()) return false;
  const std::string& name = type->as_string();
  for (const OptimizerDef* optimizer : all_optimizers())
    if (name == optimizer->name) return optimizer->schema.find(key) != nullptr;
  for (const SourceDef* source : source_defs())
    if (name == source->type) return source->schema.find(key) != nullptr;
  return false;
}

[[noreturn]] void unknown_key(const std::string& path, const std::string& key, const std::vector<std::string>& known) {
  constexpr size_t kMostListed = 24;
  const std::string meant = setting_meant_by(path), said = advice_elsewhere(key, known),
                    hint = !meant.empty() ? "did you mean '" + meant + "'?"
                           : said.empty() ? nearest_hint(key, known)
                                          : said;
  std::string names;
  if (hint.empty() && known.size() <= kMostListed)
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  throw Error(ErrorKind::usage,
              {.where = path, .what = "there is no '" + key + "' here", .expected = names.empty() ? "" : "one of " + names, .hint = hint});
}

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  std::stringstream stream(path);
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  return parts;
}

// Messages write network.layers[1], so that it is the same as network.layers.1: a place in a list, where no key has that name.
void split_place(const Json& at, std::vector<std::string>* parts, size_t i) {
  const std::string key = (*parts)[i];
  const size_t bracket = key.find('[');
  if (bracket == key.npos || key.back() != ']' || !at.is_object() || at.find(key) != nullptr) return;
  const Json* list = at.find(key.substr(0, bracket));
  if (list == nullptr || !list->is_array()) return;
  (*parts)[i] = key.substr(0, bracket);
  parts->insert(parts->begin() + static_cast<std::ptrdiff_t>(i) + 1, key.substr(bracket + 1, key.size() - bracket - 2));
}

// Layers may be called by their names, automatic ones included.
Json* element_named(Json& list, const std::vector<std::string>& before, const std::string& key) {
  for (Json& item : list.as_array())
    if (const Json* name = item.find("name"); name != nullptr && name->is_string() && name->as_string() == key) return &item;
  if (before.empty() || before.front() != "network" || before.back() == "nodes") return nullptr;
  try {
    const std::vector<LayerText> layers = read_sequence(list, "", "");
    for (size_t i = 0; i < layers.size(); ++i)
      if (layers[i].name == key) return &list.as_array()[i];
  } catch (const Error&) {
    // Not a list of layers; the network's build will report the fault.
  }
  return nullptr;
}

Json& step_into(Json& at, const std::string& path, const std::vector<std::string>& before, const std::string& key, bool last) {
  if (at.is_array()) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    const size_t count = at.as_array().size();
    if (error == std::errc() && end == key.data() + key.size() && index >= 1 && index <= count) return at.as_array()[index - 1];
    if (Json* named = element_named(at, before, key)) return *named;
    const bool layers = !before.empty() && before.front() == "network" && before.back() != "nodes";
    throw Error(ErrorKind::usage, {.where = path,
                                   .what = "the list has no element '" + key + "'",
                                   .expected = count == 0 ? "nothing: it is empty"
                                                          : "1 to " + std::to_string(count) +
                                                                (layers ? ", or a layer's name, as in network.layers.dense1.out" : ""),
                                   .hint = key == "0" ? "places count from 1" : ""});
  }
  if (at.is_string()) {  // "adamw" is short for {"type": "adamw"}
    Json object = Json::object();
    object.set("type", at);
    at = std::move(object);
  }
  if (!at.is_object()) unknown_key(path, key, {});
  if (Json* found = at.find(key)) return *found;
  std::vector<std::string> known = keys_below(before, at);
  const bool closed = !known.empty();
  const bool allowed = std::find(known.begin(), known.end(), key) != known.end() || is_option_of_type(at, key);
  for (const auto& [name, value] : at.as_object())
    if (!name.starts_with('@') && std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
  // Elsewhere an option that was left out may be given, unless it looks like a misspelt one; its reader refuses what it does not know.
  if (!allowed && (closed || !last || !nearest_hint(key, known).empty())) unknown_key(path, key, known);
  return at.set(key, last ? Json() : Json::object());
}

// JSON, a table as in a script, or else a text.
Json parsed_value(const std::string& path, const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  const bool braces = begin != std::string::npos && (text[begin] == '{' || text[begin] == '[');
  try {
    return Json::parse(text, "value");
  } catch (const Error& error) {
    if (!braces) return Json(text);
    if (std::optional<Json> table = read_lua_table(text)) return *std::move(table);
    throw Error(ErrorKind::usage, {.where = path,
                                   .what = "the value is neither JSON nor a table of plain values",
                                   .got = text.substr(0, 100),
                                   .hint = "write '{\"type\": \"norm\"}' or '{ type = \"norm\" }', in quotes of the shell"});
  }
}

size_t rank_of(const std::string& key, bool top) {
  if (const Option* option = top ? job_schema.find(key) : nullptr) return static_cast<size_t>(option - job_schema.options.data());
  if (!top && key == "type") return 0;
  if (!top && key == "name") return 1;
  return 1000;
}

// Keys in a fixed order, no positions, no nulls, and whole numbers as integers: Lua has no others.
Json canonical_form(const Json& json, bool top) {
  if (json.is_array()) {
    Json list = Json::array();
    for (const Json& item : json.as_array()) list.push(canonical_form(item, false));
    return list;
  }
  if (json.is_object()) {
    std::vector<const Json::Member*> members;
    for (const Json::Member& member : json.as_object())
      if (!member.first.starts_with('@') && !member.second.is_null()) members.push_back(&member);
    std::sort(members.begin(), members.end(), [&](const Json::Member* a, const Json::Member* b) {
      const size_t x = rank_of(a->first, top), y = rank_of(b->first, top);
      return x != y ? x < y : a->first < b->first;
    });
    Json object = Json::object();
    for (const Json::Member* member : members) object.set(member->first, canonical_form(member->second, false));
    return object;
  }
  if (!json.is_number() || json.is_int()) return json;
  const double number = json.as_number();
  return std::trunc(number) == number && std::fabs(number) < 0x1p53 ? Json(static_cast<int64_t>(number)) : json;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::usage, {.where = path, .what = "cannot be read"});
  std::string text;
  char buffer[1 << 16];
  while (file.read(buffer, sizeof buffer) || file.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes)
      throw Error(ErrorKind::model, {.where = path, .what = "is too large for a job", .expected = "at most 64 MiB"});
  }
  return text;
}

std::string precision_name(const Job& job) {
  constexpr std::pair<const char*, const char*> kShort[] = {
      {"fp32", "float32"}, {"fp64", "float64"}, {"bfloat16", "bf16"}, {"float16", "fp16"}};
  const std::string name = Config(job.json(), job.where()).string("precision", "float32");  // the schema has checked it
  for (const auto& [other, same] : kShort)
    if (name == other) return same;
  return name;
}

}  // namespace

int64_t accumulate_of(const Job& job) { return Config(job.json(), job.where()).integer_in("accumulate", 1, 65536, 1); }

DataPlacement read_placement(const Config& data) {
  const std::string at = data.choice("at", "worker", {"worker", "coordinator", "partitions"});
  return {.at_coordinator = at != "worker",
          .in_partitions = at == "partitions",
          .verify_full = data.choice("verify", "sample", {"sample", "full"}) == "full",
          .shards = data.integer_in("shards", 1, ShardedOrder::kMaxShards, 1)};
}

Job::Job(Json description, std::string where, std::string folder)
    : json_(std::move(description)), where_(std::move(where)), folder_(std::move(folder)) {
  check_job(&json_, where_);
  hold_arrays();
}

void Job::hold_arrays() {
  Json* data = json_.find("data");
  if (!data) return;
  arrays_.take_numbers(data, where_ + ": data");
  arrays_.hold_named(*data);
}

Job Job::load(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string text = read_text(path);
  const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
  return Job(yaml ? parse_yaml(text, path) : Json::parse(text, path), path, folder);
}

std::string Job::name() const {
  const Json* name = json_.find("name");
  if (name != nullptr && name->is_string()) return name->as_string();
  const size_t slash = where_.rfind('/');
  const std::string file = slash == std::string::npos ? where_ : where_.substr(slash + 1);
  const size_t dot = file.rfind('.');
  return dot == std::string::npos || dot == 0 ? file : file.substr(0, dot);
}

Dtype Job::precision() const { return precision_name(*this) == "float64" ? Dtype::f64 : Dtype::f32; }

std::optional<Dtype> Job::half() const {
  const std::string name = precision_name(*this);
  if (name == "bf16") return Dtype::bf16;
  return name == "fp16" ? std::optional(Dtype::f16) : std::nullopt;
}

bool Job::tf32() const { return precision_name(*this) == "tf32"; }

void Job::set(const std::string& path, const std::string& value) {
  std::vector<std::string> parts = split(path);
  if (parts.empty() || std::find(parts.begin(), parts.end(), "") != parts.end())
    throw Error(ErrorKind::usage,
                {.where = path, .what = "has an empty name", .expected = "keys with dots between them, as in optimizer.lr"});
  Json changed = json_;
  Json* at = &changed;
  std::vector<std::string> before;
  for (size_t i = 0; i < parts.size(); ++i) {
    split_place(*at, &parts, i);
    at = &step_into(*at, path, before, parts[i], i + 1 == parts.size());
    before.push_back(parts[i]);
  }
  *at = parsed_value(path, value);
  check_job(&changed, where_);
  json_ = std::move(changed);
  hold_arrays();
}

Error Job::placed(const Error& error) const {
  const Json* places = json_.find("@places");
  const std::string& where = error.parts().where;
  if (places == nullptr || !where.starts_with(where_ + ": ")) return error;
  const std::string key = where.substr(where_.size() + 2, where.find_first_of(":.[", where_.size() + 2) - where_.size() - 2);
  const Json* place = places->find(key);
  if (place == nullptr || !place->is_string()) return error;
  Error::Parts parts = error.parts();
  parts.where = place->as_string() + where.substr(where_.size());
  return Error(error.kind(), std::move(parts));
}

Json canonical_part(const Json& part) { return canonical_form(part, false); }

Json Job::canonical() const {
  Json json = canonical_form(json_, true);
  if (json.find("perigee") == nullptr) {
    json.set("perigee", kFormat);
    json = canonical_form(json, true);
  }
  return json;
}

}  // namespace perigee
