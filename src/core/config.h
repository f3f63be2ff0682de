// A typed view of a JSON object that knows its path and which keys were read, so that a typo is an error and not a silent default. With a
// schema, defaults, ranges and choices come from it, and an unknown key is an error at once.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/core/schema.h"

namespace perigee {

class Config {
 public:
  // `where` is the path so far: "job.json", "lenet.lua:7: conv2d 'conv1'". `json` must outlive the Config.
  Config(const Json& json, std::string where, ErrorKind kind = ErrorKind::model);
  // Checks the object against `schema`, which must outlive the Config.
  Config(const Json& json, const Schema& schema, std::string where, ErrorKind kind = ErrorKind::model);
  // The same object checked against `schema`: for a "type" that is read first.
  Config with(const Schema& schema) const;

  const Json& json() const { return *json_; }
  const std::string& where() const { return where_; }

  bool has(std::string_view key) const;
  // Without a fallback: the schema's when absent or null, else an Error. With one: that. Error when the type or range is wrong.
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t fallback) const;
  int64_t integer_in(std::string_view key, int64_t low, int64_t high) const;
  int64_t integer_in(std::string_view key, int64_t low, int64_t high, int64_t fallback) const;
  double number(std::string_view key) const;
  double number(std::string_view key, double fallback) const;
  double number_in(std::string_view key, double low, double high, double fallback) const;
  bool boolean(std::string_view key) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::string string(std::string_view key) const;
  std::string string(std::string_view key, std::string_view fallback) const;
  // One of `known`, else an Error with the nearest known name.
  std::string choice(std::string_view key, std::string_view fallback, const std::vector<std::string>& known) const;
  std::string choice(std::string_view key) const { return string(key); }  // the schema has checked it
  // An integer stands for `count` equal ones: kernel = 5 is {5, 5}.
  std::vector<int64_t> integers(std::string_view key, size_t count, int64_t fallback) const;
  std::vector<int64_t> integer_list(std::string_view key) const;     // any length; empty when absent
  std::vector<std::string> string_list(std::string_view key) const;  // a string stands for a list of one; empty when absent
  const Json* raw(std::string_view key) const;                       // null when absent; counts as read
  Config object(std::string_view key) const;                         // required object
  Config element(const Json& item, const std::string& label) const;  // a view of something inside, `where()` extended by `label`

  // Every key that was asked for, whether it is there or not.
  const std::set<std::string, std::less<>>& asked() const { return *asked_; }
  // Throws an Error that names the first unread key and the nearest key that was asked for.
  void reject_unread() const;
  [[noreturn]] void fail(std::string_view key, std::string what, std::string got = "", std::string expected = "",
                         std::string hint = "") const;

 private:
  const Json* lookup(std::string_view key) const;
  // The value, or the schema's default, which `kept` holds; null when there is neither.
  const Json* value_or_default(std::string_view key, Json* kept) const;

  const Json* json_;
  const Schema* schema_ = nullptr;
  std::string where_;
  ErrorKind kind_;
  std::shared_ptr<std::set<std::string, std::less<>>> asked_;
};

// `config` checked against the kind that its "type" names. Error with the nearest name for an unknown one.
Config with_kind(const Config& config, std::span<const NamedSchema> kinds);

}  // namespace perigee
