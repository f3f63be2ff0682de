#include "src/core/json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "src/core/error.h"
#include "src/core/utf8.h"

namespace perigee {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kLinearMembers = 16;  // up to here a scan finds a duplicate key faster than a set

// from_chars says "out of range" for overflow and underflow alike; only the first is an error. The decimal position of the
// first significant digit tells them apart.
bool underflows(std::string_view text) {
  int64_t position = 0;  // of the decimal point, relative to the first significant digit
  bool significant = false, fraction = false;
  size_t i = text.starts_with('-') ? 1 : 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') fraction = true;
    else if (text[i] != '0' || significant) {
      significant = true;
      if (!fraction) ++position;
    } else if (fraction) --position;
  }
  int64_t exponent = 0;
  if (i < text.size()) {
    ++i;
    if (i < text.size() && text[i] == '+') ++i;
    const auto result = std::from_chars(text.data() + i, text.data() + text.size(), exponent);
    if (result.ec != std::errc()) return i < text.size() && text[i] == '-';
  }
  return exponent < 0 ? position < -exponent : position + exponent < 0;
}

// The text itself was validated, but RapidJSON lets an escaped low surrogate stand alone.
bool is_utf8(std::string_view text) {
  for (size_t i = 0, length = 0; i < text.size(); i += length) {
    length = utf8_length(text, i);
    if (length == 0) return false;
  }
  return true;
}

// Builds the value from SAX events on a stack of its own, so that depth costs heap and is bounded.
class Builder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Builder> {
 public:
  explicit Builder(size_t max_values) : left_(max_values) {}

  bool Null() { return add(Json()); }
  bool Bool(bool value) { return add(Json(value)); }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    if (!is_utf8({text, size})) return refuse("the string has half of a surrogate pair");
    return add(Json(std::string(text, size)));
  }

  bool RawNumber(const char* data, rapidjson::SizeType size, bool) {
    const std::string_view text(data, size);
    if (text.find_first_of(".eE") == text.npos) {
      int64_t value = 0;
      if (text == "-0") return add(Json(-0.0));
      if (std::from_chars(data, data + size, value).ec != std::errc()) return refuse("the integer is larger than 64 bits hold");
      return add(Json(value));
    }
    double value = 0;
    if (std::from_chars(data, data + size, value).ec == std::errc::result_out_of_range) {
      if (!underflows(text)) return refuse("the number is larger than a double holds");
      value = text.starts_with('-') ? -0.0 : 0.0;
    }
    return add(Json(value));
  }

  bool StartObject() { return open(Json::object()); }
  bool StartArray() { return open(Json::array()); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }

  bool Key(const char* text, rapidjson::SizeType size, bool) {
    Level& level = stack_.back();
    std::string key(text, size);
    if (!is_utf8(key)) return refuse("the key has half of a surrogate pair");
    const Json::Object& members = level.value.as_object();
    bool duplicate = false;
    if (members.size() < kLinearMembers) {
      duplicate = level.value.find(key) != nullptr;
    } else {
      if (level.keys.empty())
        for (const auto& member : members) level.keys.insert(member.first);
      duplicate = !level.keys.insert(key).second;
    }
    if (duplicate) return refuse("the key '" + key.substr(0, 64) + "' appears twice");
    level.key = std::move(key);
    return true;
  }

  Json take() { return std::move(root_); }
  const std::string& refusal() const { return refusal_; }

 private:
  struct Level {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  bool refuse(std::string why) {
    refusal_ = std::move(why);
    return false;
  }

  bool count() {
    if (left_ == 0) return refuse("there are too many values");
    --left_;
    return true;
  }

  bool add(Json value) {
    if (!count()) return false;
    place(std::move(value));
    return true;
  }

  void place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = stack_.back();
    if (level.value.is_array()) level.value.as_array().push_back(std::move(value));
    else level.value.as_object().emplace_back(std::move(level.key), std::move(value));
  }

  bool open(Json value) {
    if (!count()) return false;
    if (stack_.size() == kMaxDepth) return refuse("objects and arrays are nested deeper than " + std::to_string(kMaxDepth));
    stack_.push_back({std::move(value), {}, {}});
    return true;
  }

  bool close() {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    place(std::move(value));
    return true;
  }

  std::vector<Level> stack_;
  Json root_;
  std::string refusal_;
  size_t left_;
};

std::string position_text(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = newline == before.npos ? offset + 1 : offset - newline;
  return std::to_string(line) + ":" + std::to_string(column);
}

[[noreturn]] void fail_json(std::string_view text, std::string_view where, size_t offset, std::string what) {
  throw Error(ErrorKind::model, {.where = std::string(where) + ":" + position_text(text, offset), .what = std::move(what)});
}

void write_string(std::string& out, std::string_view text) {
  static const char* const hex = "0123456789abcdef";
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      const size_t length = utf8_length(text, i);
      if (length == 0) out += "\xEF\xBF\xBD";  // U+FFFD: what cannot be read back must not be written
      else out += text.substr(i, length);
      i += std::max<size_t>(length, 1);
      continue;
    }
    ++i;
    if (c == '"' || c == '\\') (out += '\\') += static_cast<char>(c);
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\r') out += "\\r";
    else if (c < 0x20) ((out += "\\u00") += hex[c >> 4]) += hex[c & 15];
    else out += static_cast<char>(c);
  }
  out += '"';
}

void write_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  const std::string_view text(buffer, end - buffer);
  out += text;
  if (text.find_first_of(".e") == text.npos) out += ".0";  // so that it is read back as a double
}

void write(std::string& out, const Json& json, int indent, int depth) {
  const auto line = [&](int levels) {
    if (indent > 0) (out += '\n').append(static_cast<size_t>(indent) * levels, ' ');
  };
  if (json.is_null()) out += "null";
  else if (json.is_bool()) out += json.as_bool() ? "true" : "false";
  else if (json.is_int()) out += std::to_string(json.as_int());
  else if (json.is_number()) write_number(out, json.as_number());
  else if (json.is_string()) write_string(out, json.as_string());
  else if (json.is_array()) {
    const auto& items = json.as_array();
    // A list of plain values stays on one line: shapes and kernels read better so.
    const bool flat = std::none_of(items.begin(), items.end(), [](const Json& i) { return i.is_object() || i.is_array(); });
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) out += indent > 0 && flat ? ", " : ",";
      if (!flat) line(depth + 1);
      write(out, items[i], indent, depth + 1);
    }
    if (!flat) line(depth);
    out += ']';
  } else {
    const auto& members = json.as_object();
    out += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      if (i) out += ',';
      line(depth + 1);
      write_string(out, members[i].first);
      out += indent > 0 ? ": " : ":";
      write(out, members[i].second, indent, depth + 1);
    }
    if (!members.empty()) line(depth);
    out += '}';
  }
}

}  // namespace

Json::Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;
// Not defaulted: clang 14 ends in an endless recursion over the variant that holds Json.
bool Json::operator==(const Json& other) const { return value_ == other.value_; }

const char* Json::type_name() const {
  static const char* const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  return names[value_.index()];
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& member : as_object())
    if (member.first == key) return &member.second;
  return nullptr;
}

Json* Json::find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  if (Json* found = find(key)) return *found = std::move(value);
  return as_object().emplace_back(std::string(key), std::move(value)).second;
}

void Json::erase(std::string_view key) {
  if (!is_object()) return;
  std::erase_if(as_object(), [&](const Member& member) { return member.first == key; });
}

void Json::push(Json value) {
  if (is_null()) value_ = Array{};
  as_array().push_back(std::move(value));
}

Json Json::parse(std::string_view text, std::string_view where, size_t max_values) {
  // RapidJSON takes a zero byte for the end of the text.
  if (const size_t zero = text.find('\0'); zero != text.npos) fail_json(text, where, zero, "a zero byte");
  constexpr unsigned flags = rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag;
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  Builder builder(max_values);
  if (!reader.Parse<flags>(stream, builder)) {
    if (!builder.refusal().empty()) fail_json(text, where, stream.Tell(), builder.refusal());
    fail_json(text, where, reader.GetErrorOffset(), std::string("not JSON: ") + rapidjson::GetParseError_En(reader.GetParseErrorCode()));
  }
  return builder.take();
}

std::string Json::dump(int indent) const {
  std::string out;
  write(out, *this, indent, 0);
  return out;
}

}  // namespace perigee
