// The options of one thing: names, types, defaults, ranges, texts. Each definition of a registry embeds a Schema, and so do the job and its
// sections. Reading, checking, help, completion, annotations, C++ structs, JSON Schema and the tables of the documentation come from it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/error.h"
#include "src/core/json.h"

namespace perigee {

// JSON values that a type takes, as a set of bits.
using ValueSet = uint8_t;
namespace takes {
inline constexpr ValueSet boolean = 1, integer = 2, number = 4 | integer, string = 8, list = 16, object = 32, anything = 63;
}

// A type is called by its text, as help shows it.
struct OptionType {
  const char* text = nullptr;
  ValueSet values = takes::anything;
  const char* family = nullptr;      // "activation": a string names a member of that family, an object with "type" describes one
  ValueSet items = takes::anything;  // elements of a list
};

// A new kind of value is a new line here; a definition that names no line does not compile.
inline constexpr OptionType kOptionTypes[] = {
    {"any", takes::anything},
    {"boolean", takes::boolean},
    {"integer", takes::integer},
    {"number", takes::number},
    {"string", takes::string},
    {"name", takes::string},
    {"file", takes::string},
    {"table", takes::object},
    {"function", takes::object},
    {"boolean or table", takes::boolean | takes::object},
    {"file or table", takes::string | takes::object},
    {"boolean or program", takes::boolean | takes::number | takes::object},
    {"number or program", takes::boolean | takes::number | takes::object},
    {"integer or \"auto\"", takes::integer | takes::string},
    {"number or \"dynamic\"", takes::number | takes::string},
    {"number or text", takes::number | takes::string},
    {"integer or {height, width}", takes::integer | takes::list, nullptr, takes::integer},
    {"integer, {height, width} or {top, bottom, left, right}", takes::integer | takes::list, nullptr, takes::integer},
    {"integer, {height, width} or \"same\"", takes::integer | takes::list | takes::string, nullptr, takes::integer},
    {"integer, {height, width}, \"same\" or, in 1-D, \"causal\"", takes::integer | takes::list | takes::string, nullptr, takes::integer},
    {"integer or list of integers", takes::integer | takes::list, nullptr, takes::integer},
    {"integer or name", takes::integer | takes::string},
    {"number or list of numbers", takes::number | takes::list, nullptr, takes::number},
    {"list", takes::list},
    {"list of integers", takes::list, nullptr, takes::integer},
    {"list of numbers", takes::list, nullptr, takes::number},
    {"list of names", takes::list | takes::string, nullptr, takes::string},  // one name stands for a list of it
    {"list of {name, layer, inputs}", takes::list, nullptr, takes::object},
    {"list of {op, in, out, attrs}", takes::list, nullptr, takes::object},
    {"list of {name, shape, init, role}", takes::list, nullptr, takes::object},
    {"list of {until, schedule}", takes::list, nullptr, takes::object},
    {"list of transforms", takes::list, "transform", takes::object},
    {"column", takes::integer | takes::string | takes::boolean},
    {"list of columns", takes::list | takes::string | takes::integer, nullptr, takes::integer | takes::string},
    {"{name: text, ...}", takes::object},
    {"{name: number, ...}", takes::object},
    {"{field: field, ...}", takes::object},
    {"field or {field: field, ...}", takes::object | takes::string},
    {"table of options", takes::object},
    {"{type, ...}", takes::object, "weight_noise"},
    {"layer", takes::object | takes::string, "layer"},
    {"list of layers", takes::list, "layer", takes::object | takes::string},
    {"layer or list of layers", takes::list | takes::object | takes::string, "layer", takes::object | takes::string},
    {"network", takes::list | takes::object | takes::string, "layer", takes::object | takes::string},
    {"number or dropout layer", takes::number | takes::object | takes::string, "layer"},
    {"activation", takes::object | takes::string, "activation"},
    {"initializer", takes::number | takes::object | takes::string, "initializer"},
    {"regularization", takes::object, "regularization"},
    {"constraint", takes::list | takes::object, "constraint", takes::object},
    {"clip", takes::object, "clip"},
    {"optimizer", takes::object | takes::string, "optimizer"},
    {"schedule", takes::number | takes::object, "schedule"},
    {"number or schedule", takes::number | takes::object, "schedule"},
    {"list of schedules", takes::list, "schedule", takes::number | takes::object},
    {"loss", takes::object | takes::string, "loss"},
    {"loss or {output: loss, ...}", takes::object | takes::string, "loss"},
    {"list of evaluations", takes::list | takes::object | takes::string, "metric", takes::object | takes::string},
    {"source", takes::object, "source"},
    {"list of sources", takes::list, "source", takes::object},
    {"transform or list of transforms", takes::list | takes::object, "transform", takes::object},
    {"codec", takes::object | takes::string, "codec"},
    {"policy", takes::object | takes::string, "policy"},
    {"policy or {layers: policy, ...}", takes::object | takes::string, "policy"},
    {"topology", takes::string},
    {"group", takes::integer | takes::string},
    {"cut", takes::integer | takes::string},
};

// Finds the line of kOptionTypes.
constexpr const OptionType* option_type(std::string_view text) {
  for (const OptionType& type : kOptionTypes)
    if (text == type.text) return &type;
  throw std::logic_error("no such type of option: add a line to kOptionTypes");
}

class TypeName {
 public:
  constexpr TypeName() : type_(&kOptionTypes[0]) {}
  constexpr TypeName(const char* text) : type_(option_type(text)) {}  // NOLINT: definitions write the text
  constexpr const OptionType& operator*() const { return *type_; }
  constexpr const OptionType* operator->() const { return type_; }
  constexpr bool operator==(const TypeName& other) const { return type_ == other.type_; }

 private:
  const OptionType* type_;
};

// Inclusive limits of a number, or of each number of a list.
struct OptionRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

struct Schema;

inline constexpr size_t kMaxChoices = 12;

struct Option {
  const char* name = nullptr;
  TypeName type;
  const char* fallback = nullptr;  // as help shows it: a value ("0.001", "true", "nearest") or words ("the kernel"); null: required
  const char* doc = nullptr;
  OptionRange range = {};
  const char* choices[kMaxChoices] = {};  // strings that are allowed, null after the last; none: any
  const char* units = nullptr;            // "ms"
  const Schema* inside = nullptr;         // of an object, or of each object of a list

  bool required() const { return fallback == nullptr; }
  std::span<const char* const> allowed() const;  // choices without the nulls
};

struct Schema {
  std::span<const Option> options = {};
  std::span<const char* const> positional = {};  // options that need no name, in order
  const Schema* common = nullptr;                // options that the whole family takes; own ones of the same name come first
  bool open = false;                             // other keys are allowed: names of fields, numbers of a program

  const Option* find(std::string_view name) const;  // null: there is none
  std::vector<const Option*> all() const;           // own options, then the common ones that no own one replaces
  std::vector<std::string> names() const;           // of all()
};

// A kind that a "type" names where one reader knows all of them.
struct NamedSchema {
  const char* name = nullptr;
  const char* doc = nullptr;
  Schema schema = {};
};

// The default as a value; null where help shows words.
Json fallback_value(const Option& option);

// The type as help shows it: the choices where there are some.
std::string type_text(const Option& option);
// "an integer from 1 to 8": for messages.
std::string expected_text(const Option& option);
// The value as messages show it, cut off.
std::string shown(const Json& json);

// Checks the keys of `object` and the type, range and choice of each value; "type" and keys that start with '@' are passed over, and null
// counts as absent. Required options are not asked for: the reader may have another source for them. Error of `kind` at `where`, or at the
// position that the object carries ("@").
void check_options(const Json& object, const Schema& schema, const std::string& where, ErrorKind kind = ErrorKind::model);
void check_option(const Json& value, const Option& option, const std::string& where, ErrorKind kind = ErrorKind::model);
// The Error of a key that is none of the schema's.
Error unknown_key(const std::string& key, const Json& object, const Schema& schema, const std::string& where, ErrorKind kind);

}  // namespace perigee
