#include "src/io/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxAliased = size_t{64} << 20;  // bytes of texts that aliases repeat

// Values in it, bytes of its texts and keys, and how deep it is.
struct Extent {
  size_t values = 0, bytes = 0, depth = 0;
};

Extent extent_of(const Json& json) {
  Extent all{.values = 1};
  const auto add = [&](const Json& part) {
    const Extent inner = extent_of(part);
    all = {all.values + inner.values, all.bytes + inner.bytes, std::max(all.depth, inner.depth + 1)};
  };
  if (json.is_string()) all.bytes = json.as_string().size();
  if (json.is_array())
    for (const Json& item : json.as_array()) add(item);
  if (json.is_object())
    for (const auto& [key, value] : json.as_object()) add(value), all.bytes += key.size();
  if (json.is_array() || json.is_object()) all.depth = std::max<size_t>(all.depth, 1);
  return all;
}

bool all_digits(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

// The JSON spelling of a number of the core schema ("+.5" is 0.5); empty when the text is none.
std::string json_number(std::string_view text) {
  std::string sign;
  if (text.starts_with('-') || text.starts_with('+')) {
    if (text[0] == '-') sign = "-";
    text.remove_prefix(1);
  }
  std::string exponent;
  if (const size_t e = text.find_first_of("eE"); e != text.npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
    if (!all_digits(digits)) return "";
    exponent = "e" + std::string(text.substr(e + 1));
    text = text.substr(0, e);
  }
  std::string whole(text.substr(0, text.find('.'))), fraction;
  if (const size_t point = text.find('.'); point != text.npos) {
    fraction = text.substr(point + 1);
    if (whole.empty() && fraction.empty()) return "";
    if (!fraction.empty() && !all_digits(fraction)) return "";
    fraction = "." + (fraction.empty() ? "0" : fraction);
    if (whole.empty()) whole = "0";
  }
  if (!all_digits(whole)) return "";
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  return sign + whole + fraction + exponent;
}

std::string yaml_text_of(const unsigned char* text) { return text == nullptr ? "" : reinterpret_cast<const char*>(text); }

std::string yaml_place(std::string_view where, const yaml_mark_t& mark) {
  return std::string(where) + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
}

class YamlReader {
 public:
  YamlReader(std::string_view text, std::string_view where, size_t max_values) : where_(where), left_(max_values) {
    if (!yaml_parser_initialize(&parser_)) throw Error(ErrorKind::resources, {.what = "not enough memory for libyaml"});
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~YamlReader() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  Json read() {
    for (;;) {
      next();
      switch (event_.type) {
        case YAML_STREAM_START_EVENT: break;
        case YAML_DOCUMENT_START_EVENT:
          if (++documents_ > 1) fail("a second document begins");
          break;
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_STREAM_END_EVENT: return std::move(root_);
        case YAML_ALIAS_EVENT: alias(); break;
        case YAML_SCALAR_EVENT: scalar(); break;
        case YAML_MAPPING_START_EVENT: open(Json::object(), event_.data.mapping_start.anchor, event_.data.mapping_start.tag); break;
        case YAML_SEQUENCE_START_EVENT: open(Json::array(), event_.data.sequence_start.anchor, event_.data.sequence_start.tag); break;
        case YAML_MAPPING_END_EVENT:
        case YAML_SEQUENCE_END_EVENT: close(); break;
        case YAML_NO_EVENT: fail("not YAML");
      }
    }
  }

 private:
  struct Level {
    Json value;
    bool has_key = false;
    std::string key;
    std::unordered_set<std::string> keys;
    std::string anchor;  // empty: none
  };

  void next() {
    yaml_event_delete(&event_);
    event_ = {};
    if (yaml_parser_parse(&parser_, &event_)) return;
    throw Error(ErrorKind::model, {.where = yaml_place(where_, parser_.problem_mark),
                                   .what = std::string("not YAML: ") + (parser_.problem != nullptr ? parser_.problem : "unreadable")});
  }

  [[noreturn]] void fail(std::string what) const {
    throw Error(ErrorKind::model, {.where = yaml_place(where_, event_.start_mark), .what = std::move(what)});
  }

  void refuse_tag(const unsigned char* tag) const {
    if (tag != nullptr) fail("tags are not allowed");
  }

  bool key_comes() const { return !stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key; }

  void keep(const std::string& anchor, const Json& value) {
    if (!anchor.empty()) anchors_[anchor] = value;
  }

  // The value of an anchor once more; it counts as if it were written here.
  void alias() {
    const std::string name(reinterpret_cast<const char*>(event_.data.alias.anchor));
    if (key_comes()) fail("a key must be a plain string");
    const auto found = anchors_.find(name);
    if (found == anchors_.end())
      throw Error(ErrorKind::model, {.where = yaml_place(where_, event_.start_mark),
                                     .what = "there is no value with the anchor '" + name + "' before it",
                                     .hint = "write &" + name + " before the value that is meant"});
    const Extent extent = extent_of(found->second);
    if (stack_.size() + extent.depth > kMaxDepth) fail("mappings and sequences are nested deeper than " + std::to_string(kMaxDepth));
    if (extent.values > left_ || extent.bytes > kMaxAliased - aliased_) fail("there are too many values");
    left_ -= extent.values;
    aliased_ += extent.bytes;
    place_value(Json(found->second));
  }

  void scalar() {
    const auto& data = event_.data.scalar;
    refuse_tag(data.tag);
    const std::string anchor = yaml_text_of(data.anchor);
    std::string text(reinterpret_cast<const char*>(data.value), data.length);
    const bool plain = data.style == YAML_PLAIN_SCALAR_STYLE;
    if (key_comes()) {
      if (!anchor.empty()) fail("a key has no anchor");
      if (plain && text == "<<") fail("merge keys are not allowed");
      if (!stack_.back().keys.insert(text).second) fail("the key '" + text.substr(0, 64) + "' appears twice");
      stack_.back().key = std::move(text);
      stack_.back().has_key = true;
      return;
    }
    count();
    Json value = plain ? plain_value(std::move(text)) : Json(std::move(text));
    keep(anchor, value);
    place_value(std::move(value));
  }

  Json plain_value(std::string text) const {
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
    if (text == "true" || text == "True" || text == "TRUE") return Json(true);
    if (text == "false" || text == "False" || text == "FALSE") return Json(false);
    for (const char* name : {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"})
      if (text == name || text == std::string("-") + name || text == std::string("+") + name) fail("infinity and NaN are not allowed");
    const std::string number = json_number(text);
    return number.empty() ? Json(std::move(text)) : Json::parse(number, yaml_place(where_, event_.start_mark));
  }

  void count() {
    if (left_ == 0) fail("there are too many values");
    --left_;
  }

  void open(Json value, const unsigned char* anchor, const unsigned char* tag) {
    refuse_tag(tag);
    if (key_comes()) fail("a key must be a plain string");
    if (stack_.size() == kMaxDepth) fail("mappings and sequences are nested deeper than " + std::to_string(kMaxDepth));
    count();
    stack_.push_back({.value = std::move(value), .key = {}, .keys = {}, .anchor = yaml_text_of(anchor)});
  }

  void close() {
    Json value = std::move(stack_.back().value);
    keep(stack_.back().anchor, value);
    stack_.pop_back();
    place_value(std::move(value));
  }

  void place_value(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = stack_.back();
    if (level.value.is_array()) {
      level.value.push(std::move(value));
    } else {
      level.value.as_object().emplace_back(std::move(level.key), std::move(value));
      level.has_key = false;
    }
  }

  std::string where_;
  size_t left_;
  yaml_parser_t parser_ = {};
  yaml_event_t event_ = {};
  std::vector<Level> stack_;
  std::map<std::string, Json> anchors_;
  size_t aliased_ = 0;
  Json root_;
  int documents_ = 0;
};

}  // namespace

Json parse_yaml(std::string_view text, std::string_view where, size_t max_values) { return YamlReader(text, where, max_values).read(); }

}  // namespace perigee
