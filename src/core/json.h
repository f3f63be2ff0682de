// JSON values and their strict reader and writer. Everything Perigee stores or sends as a description is one of these.
// Reader: iterative, depth at most 64, duplicate keys and trailing text refused, integers kept as int64, NaN/Inf refused.
// Writer: numbers round-trip exactly; object keys keep their order; NaN and Inf, which JSON lacks, become null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace perigee {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in order of appearance, keys unique

  Json();
  // Not inline, as those of a variant are long and many files would have them all.
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(int64_t value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  const char* type_name() const;  // "null", "boolean", "integer", "number", "string", "array", "object"

  // Each asserts its type; what comes from outside is read through Config, which checks and names the path.
  bool as_bool() const { return std::get<bool>(value_); }
  int64_t as_int() const { return std::get<int64_t>(value_); }
  double as_number() const { return is_int() ? static_cast<double>(std::get<int64_t>(value_)) : std::get<double>(value_); }
  const std::string& as_string() const { return std::get<std::string>(value_); }
  const Array& as_array() const { return std::get<Array>(value_); }
  Array& as_array() { return std::get<Array>(value_); }
  const Object& as_object() const { return std::get<Object>(value_); }
  Object& as_object() { return std::get<Object>(value_); }

  const Json* find(std::string_view key) const;  // null when absent or not an object
  Json* find(std::string_view key);
  Json& set(std::string_view key, Json value);  // replaces in place or appends; a null Json becomes an object
  void erase(std::string_view key);
  void push(Json value);  // a null Json becomes an array

  bool operator==(const Json& other) const;

  // Throws Error(model) with line and column; `where` names the text ("job.json"). A value costs 40 bytes or more however short
  // its text is, so that their number is bounded as well.
  static Json parse(std::string_view text, std::string_view where, size_t max_values = 4'000'000);
  std::string dump(int indent = 0) const;  // indent 0: one line

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace perigee
