#include "src/core/schema.h"

#include <algorithm>
#include <cmath>

#include "src/core/elsewhere.h"

namespace perigee {
namespace {

bool is_whole(const Json& json) { return json.is_int() || (json.is_number() && std::trunc(json.as_number()) == json.as_number()); }

bool takes_value(ValueSet values, const Json& json) {
  if (json.is_bool()) return values & takes::boolean;
  if (json.is_number()) return (values & takes::number) == takes::number || ((values & takes::integer) && is_whole(json));
  if (json.is_string()) return values & takes::string;
  // An empty table of Lua may be written as a list or as an object.
  if (json.is_array()) return (values & takes::list) || (json.as_array().empty() && (values & takes::object));
  return (values & takes::object) || (json.is_object() && json.as_object().empty() && (values & takes::list));
}

std::string number_text(double value) {
  return std::trunc(value) == value && std::fabs(value) < 9e15 ? std::to_string(static_cast<int64_t>(value)) : Json(value).dump();
}

std::string quoted_list(std::span<const char* const> names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "'" : ", '") + std::string(name) + "'";
  return text;
}

[[noreturn]] void refuse(const Option& option, const std::string& where, ErrorKind kind, const char* what, std::string got,
                         std::string hint = "") {
  throw Error(kind, {where, "'" + std::string(option.name) + "' " + what, std::move(got), expected_text(option), std::move(hint)});
}

// How it is written, where a list is what one tries first.
std::string shape_hint(const Option& option, const Json& value) {
  if (!value.is_array() || option.type != TypeName("loss or {output: loss, ...}")) return "";
  return "a network with several outputs names them: loss = { first = \"mse\", second = { type = \"cross_entropy\", target = \"label\", "
         "weight = 0.5 } }";
}

void check_range(const Json& value, const Option& option, const std::string& where, ErrorKind kind) {
  if (!value.is_number()) return;
  const double number = value.as_number();
  if (!(number >= option.range.low && number <= option.range.high))
    refuse(option, where, kind, "is out of range", is_whole(value) ? number_text(number) : value.dump());
}

void check_items(const Json& list, const Option& option, const std::string& where, ErrorKind kind) {
  for (const Json& item : list.as_array()) {
    if (!takes_value(option.type->items, item)) refuse(option, where, kind, "has an element of the wrong type", shown(item));
    check_range(item, option, where, kind);
    if (option.inside != nullptr && item.is_object()) check_options(item, *option.inside, where + ": " + option.name, kind);
  }
}

}  // namespace

std::span<const char* const> Option::allowed() const {
  const auto* end = std::find(std::begin(choices), std::end(choices), nullptr);
  return {std::begin(choices), end};
}

const Option* Schema::find(std::string_view name) const {
  for (const Option& option : options)
    if (name == option.name) return &option;
  return common ? common->find(name) : nullptr;
}

std::vector<const Option*> Schema::all() const {
  std::vector<const Option*> found;
  for (const Schema* schema = this; schema != nullptr; schema = schema->common)
    for (const Option& option : schema->options)
      if (find(option.name) == &option) found.push_back(&option);
  return found;
}

std::vector<std::string> Schema::names() const {
  std::vector<std::string> found;
  for (const Option* option : all()) found.emplace_back(option->name);
  return found;
}

Json fallback_value(const Option& option) {
  if (option.fallback == nullptr || *option.fallback == 0) return {};
  const std::string_view text = option.fallback;
  for (const char* choice : option.allowed())
    if (text == choice) return Json(choice);
  Json value;
  try {
    value = Json::parse(text, option.name);
  } catch (const Error&) {
    // A word is a value where the option takes one; "none" and several words are a remark.
    if (!(option.type->values & takes::string) || text.find(' ') != text.npos || text == "none") return {};
    value = Json(option.fallback);
  }
  return takes_value(option.type->values, value) ? value : Json();
}

std::string type_text(const Option& option) {
  const auto allowed = option.allowed();
  std::string text;
  for (size_t i = 0; i < allowed.size(); ++i)
    text += std::string(i == 0 ? "\"" : i + 1 < allowed.size() ? ", \"" : " or \"") + allowed[i] + "\"";
  return text.empty() ? option.type->text : text;
}

std::string expected_text(const Option& option) {
  if (*option.choices != nullptr) return "one of " + quoted_list(option.allowed());
  const std::string_view type = option.type->text;
  if (type == "boolean") return "true or false";
  if (type == "table") return "an object";
  std::string text = (type.starts_with("integer") ? "an " : "a ") + std::string(type);
  const auto [low, high] = option.range;
  if (std::isfinite(low) && std::isfinite(high)) return text + " from " + number_text(low) + " to " + number_text(high);
  if (std::isfinite(low)) return text + " of at least " + number_text(low);
  if (std::isfinite(high)) return text + " of at most " + number_text(high);
  return text;
}

std::string shown(const Json& json) {
  std::string text = json.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return json.is_object() || json.is_array() || json.is_null() ? text : std::string(json.type_name()) + " " + text;
}

void check_option(const Json& value, const Option& option, const std::string& where, ErrorKind kind) {
  if (value.is_null()) return;
  if (!takes_value(option.type->values, value)) refuse(option, where, kind, "has the wrong type", shown(value), shape_hint(option, value));
  check_range(value, option, where, kind);
  if (value.is_array()) check_items(value, option, where, kind);
  if (value.is_object() && option.inside != nullptr) check_options(value, *option.inside, where + ": " + option.name, kind);
  if (!value.is_string() || *option.choices == nullptr) return;
  const std::vector<std::string> known(option.allowed().begin(), option.allowed().end());
  if (std::find(known.begin(), known.end(), value.as_string()) == known.end())
    refuse(option, where, kind, "has an unknown value", "'" + value.as_string().substr(0, 100) + "'",
           nearest_hint(value.as_string(), known));
}

Error unknown_key(const std::string& key, const Json& object, const Schema& schema, const std::string& where, ErrorKind kind) {
  std::vector<std::string> others;  // a key that is given cannot have been meant
  for (const std::string& name : schema.names())
    if (object.find(name) == nullptr) others.push_back(name);
  std::string hint = advice_elsewhere(key, others);
  if (hint.empty()) hint = nearest_hint(key, others);
  if (hint.empty()) {
    // The nearest name says enough where there is one.
    std::vector<const char*> own;
    for (const Option& option : schema.options) own.push_back(option.name);
    hint = own.empty() ? "it has no options of its own" : "its options are " + quoted_list(own);
  }
  return Error(kind, {.where = where, .what = "unknown key '" + key.substr(0, 100) + "'", .hint = std::move(hint)});
}

void check_options(const Json& object, const Schema& schema, const std::string& where, ErrorKind kind) {
  const Json* at = object.find("@");
  std::string place = where;
  if (at != nullptr && at->is_string() && !where.starts_with(at->as_string()))
    place = at->as_string().starts_with(where + ":") ? at->as_string() : at->as_string() + ": " + where;
  if (!object.is_object()) return;             // an empty list of Lua
  const Json* lines = object.find("@places");  // of each key
  for (const auto& [key, value] : object.as_object()) {
    if (key == "type" || key.starts_with('@')) continue;
    const Json* line = lines != nullptr ? lines->find(key) : nullptr;
    if (const Option* option = schema.find(key)) check_option(value, *option, line && line->is_string() ? line->as_string() : place, kind);
    else if (!schema.open) throw unknown_key(key, object, schema, place, kind);
  }
}

}  // namespace perigee
