#include "src/core/config.h"

#include <cassert>
#include <cmath>
#include <utility>

namespace perigee {
namespace {

// A double that holds an integer counts as one: Lua has no other numbers.
bool integral(const Json& json, int64_t& value) {
  if (json.is_int()) {
    value = json.as_int();
    return true;
  }
  if (!json.is_number()) return false;
  const double number = json.as_number();
  if (std::trunc(number) != number || std::fabs(number) >= 9007199254740992.0) return false;  // 2^53: exact beyond doubt
  value = static_cast<int64_t>(number);
  return true;
}

std::string range_text(int64_t low, int64_t high) {
  if (high == INT64_MAX) return "an integer of at least " + std::to_string(low);
  return "an integer from " + std::to_string(low) + " to " + std::to_string(high);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text = "one of ";
  for (size_t i = 0; i < names.size(); ++i) text += (i ? ", '" : "'") + names[i] + "'";
  return text;
}

// A missing option is told in the words of help.
std::string doc_of(const Schema* schema, std::string_view key) {
  const Option* option = schema != nullptr ? schema->find(key) : nullptr;
  return option != nullptr && *option->doc != 0 ? std::string(key) + ": " + option->doc : "";
}

}  // namespace

Config::Config(const Json& json, std::string where, ErrorKind kind)
    : json_(&json), where_(std::move(where)), kind_(kind), asked_(std::make_shared<std::set<std::string, std::less<>>>()) {
  if (!json.is_object()) throw Error(kind_, {.where = where_, .what = "this must be an object", .got = shown(json)});
}

Config::Config(const Json& json, const Schema& schema, std::string where, ErrorKind kind) : Config(json, std::move(where), kind) {
  schema_ = &schema;
  check_options(json, schema, where_, kind_);
}

Config Config::with(const Schema& schema) const {
  Config checked = *this;
  checked.schema_ = &schema;
  check_options(*json_, schema, where_, kind_);
  return checked;
}

void Config::fail(std::string_view key, std::string what, std::string got, std::string expected, std::string hint) const {
  throw Error(kind_, {where_, "'" + std::string(key) + "' " + std::move(what), std::move(got), std::move(expected), std::move(hint)});
}

const Json* Config::lookup(std::string_view key) const {
  // A reader that asks for what its schema does not tell would make it useless.
  assert(schema_ == nullptr || schema_->open || key == "type" || schema_->find(key) != nullptr);
  asked_->emplace(key);
  return json_->find(key);
}

const Json* Config::value_or_default(std::string_view key, Json* kept) const {
  const Json* found = lookup(key);
  if (found != nullptr && !found->is_null()) return found;
  if (const Option* option = schema_ ? schema_->find(key) : nullptr) *kept = fallback_value(*option);
  return kept->is_null() ? nullptr : kept;
}

bool Config::has(std::string_view key) const {
  const Json* found = lookup(key);
  return found != nullptr && !found->is_null();
}

const Json* Config::raw(std::string_view key) const { return lookup(key); }

int64_t Config::integer(std::string_view key) const { return integer_in(key, INT64_MIN, INT64_MAX); }
int64_t Config::integer(std::string_view key, int64_t fallback) const { return integer_in(key, INT64_MIN, INT64_MAX, fallback); }

int64_t Config::integer_in(std::string_view key, int64_t low, int64_t high) const {
  Json kept;
  const Json* found = value_or_default(key, &kept);
  const std::string expected = low == INT64_MIN && high == INT64_MAX ? "an integer" : range_text(low, high);
  if (found == nullptr) fail(key, "is missing", "", expected, doc_of(schema_, key));
  int64_t value = 0;
  if (!integral(*found, value)) fail(key, "has the wrong type", shown(*found), expected);
  if (value < low || value > high) fail(key, "is out of range", std::to_string(value), expected);
  return value;
}

int64_t Config::integer_in(std::string_view key, int64_t low, int64_t high, int64_t fallback) const {
  return has(key) ? integer_in(key, low, high) : fallback;
}

double Config::number(std::string_view key) const {
  Json kept;
  const Json* found = value_or_default(key, &kept);
  if (found == nullptr) fail(key, "is missing", "", "a number", doc_of(schema_, key));
  if (!found->is_number()) fail(key, "has the wrong type", shown(*found), "a number");
  return found->as_number();
}

double Config::number(std::string_view key, double fallback) const { return has(key) ? number(key) : fallback; }

double Config::number_in(std::string_view key, double low, double high, double fallback) const {
  if (!has(key)) return fallback;
  const double value = number(key);
  if (!(value >= low && value <= high))
    fail(key, "is out of range", Json(value).dump(), "a number from " + Json(low).dump() + " to " + Json(high).dump());
  return value;
}

bool Config::boolean(std::string_view key, bool fallback) const { return has(key) ? boolean(key) : fallback; }

bool Config::boolean(std::string_view key) const {
  Json kept;
  const Json* found = value_or_default(key, &kept);
  if (found == nullptr) fail(key, "is missing", "", "true or false", doc_of(schema_, key));
  if (!found->is_bool()) fail(key, "has the wrong type", shown(*found), "true or false");
  return found->as_bool();
}

std::string Config::string(std::string_view key) const {
  Json kept;
  const Json* found = value_or_default(key, &kept);
  if (found == nullptr) fail(key, "is missing", "", "a string", doc_of(schema_, key));
  if (!found->is_string()) fail(key, "has the wrong type", shown(*found), "a string");
  return found->as_string();
}

std::string Config::string(std::string_view key, std::string_view fallback) const { return has(key) ? string(key) : std::string(fallback); }

std::string Config::choice(std::string_view key, std::string_view fallback, const std::vector<std::string>& known) const {
  std::string value = string(key, fallback);
  for (const auto& name : known)
    if (name == value) return value;
  fail(key, "has an unknown value", "'" + value + "'", listed(known), nearest_hint(value, known));
}

std::vector<int64_t> Config::integers(std::string_view key, size_t count, int64_t fallback) const {
  if (!has(key)) return std::vector<int64_t>(count, fallback);
  const Json* found = lookup(key);
  const std::string expected = "an integer or " + std::to_string(count) + " of them";
  int64_t value = 0;
  if (integral(*found, value)) return std::vector<int64_t>(count, value);
  if (!found->is_array() || found->as_array().size() != count) fail(key, "has the wrong type", shown(*found), expected);
  return integer_list(key);
}

std::vector<int64_t> Config::integer_list(std::string_view key) const {
  std::vector<int64_t> values;
  if (!has(key)) return values;
  const Json* found = lookup(key);
  if (!found->is_array()) fail(key, "has the wrong type", shown(*found), "a list of integers");
  for (const Json& item : found->as_array()) {
    int64_t value = 0;
    if (!integral(item, value)) fail(key, "has an element of the wrong type", shown(item), "an integer");
    values.push_back(value);
  }
  return values;
}

std::vector<std::string> Config::string_list(std::string_view key) const {
  std::vector<std::string> values;
  if (!has(key)) return values;
  const Json* found = lookup(key);
  if (found->is_string()) return {found->as_string()};
  if (!found->is_array()) fail(key, "has the wrong type", shown(*found), "a list of strings");
  for (const Json& item : found->as_array()) {
    if (!item.is_string()) fail(key, "has an element of the wrong type", shown(item), "a string");
    values.push_back(item.as_string());
  }
  return values;
}

Config Config::object(std::string_view key) const {
  const Json* found = lookup(key);
  if (found == nullptr || found->is_null()) fail(key, "is missing", "", "an object");
  return element(*found, std::string(key));
}

Config Config::element(const Json& item, const std::string& label) const {
  const bool again = where_ == label || where_.ends_with(": " + label);  // a source of a source of a source
  return Config(item, where_.empty() || again ? (again ? where_ : label) : where_ + ": " + label, kind_);
}

void Config::reject_unread() const {
  std::vector<std::string> known;
  for (const auto& [key, value] : json_->as_object())
    if (!key.starts_with('@') && !asked_->contains(key)) {
      for (const auto& asked : *asked_)
        if (json_->find(asked) == nullptr) known.push_back(asked);  // a key that is there already cannot have been meant
      throw Error(kind_, {.where = where_, .what = "unknown key '" + key + "'", .hint = nearest_hint(key, known)});
    }
}

Config with_kind(const Config& config, std::span<const NamedSchema> kinds) {
  std::vector<std::string> names;
  for (const NamedSchema& kind : kinds) names.emplace_back(kind.name);
  for (const std::string& name : names)  // clip = { norm = 1 }
    if (!config.has("type") && config.json().find(name) != nullptr)
      config.fail(name, "is no option but a type", "", "", "write { type = \"" + name + "\" }");
  if (!config.has("type")) config.fail("type", "is missing", "", listed(names));
  const std::string type = config.choice("type", "", names);
  for (const NamedSchema& kind : kinds)
    if (type == kind.name) return config.with(kind.schema);
  return config;  // not reached: choice() refuses unknown names
}

}  // namespace perigee
