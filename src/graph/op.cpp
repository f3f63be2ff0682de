#include "src/graph/op.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

[[noreturn]] void wrong_attr(const Option& option, const Json& value, const char* expected) {
  throw Error(ErrorKind::model,
              {.what = "attribute '" + std::string(option.name) + "' has the wrong type", .got = value.type_name(), .expected = expected});
}

// Null: the attribute is absent and has a default.
const Json* given(const Json& attrs, const Option& option) {
  const Json* value = attrs.find(option.name);
  if (value && !value->is_null()) return value;
  if (option.required())
    throw Error(ErrorKind::model, {.what = "attribute '" + std::string(option.name) + "' is missing", .expected = expected_text(option)});
  return nullptr;
}

template <class T>
T number_of(const Option& option) {
  const std::string_view text = option.fallback;
  T value = 0;
  [[maybe_unused]] const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  assert(read.ec == std::errc() && read.ptr == text.data() + text.size());
  return value;
}

std::vector<int64_t> numbers_of(const char* text) {
  std::vector<int64_t> numbers;
  if (*text != '[') return numbers;
  for (const char* at = text; *at != 0;) {
    int64_t number = 0;
    const auto read = std::from_chars(at, at + std::strlen(at), number);
    if (read.ec == std::errc()) numbers.push_back(number), at = read.ptr;
    else ++at;
  }
  return numbers;
}

}  // namespace

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*> ops = [] {
    std::vector<const OpDef*> all;
    for (const OpList* list : op_lists())
      for (size_t i = 0; i < list->count; ++i) all.push_back(list->first + i);
    return all;
  }();
  return ops;
}

const OpDef* find_op(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OpDef*> by_name;
    for (const OpDef* op : all_ops()) by_name.emplace(op->name, op);
    return by_name;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

const OpDef& op_named(std::string_view name) {
  if (const OpDef* op = find_op(name)) return *op;
  std::vector<std::string> known;
  for (const OpDef* op : all_ops()) known.emplace_back(op->name);
  throw Error(ErrorKind::model, {.what = "unknown op '" + std::string(name) + "'", .hint = nearest_hint(name, known)});
}

bool takes_activation(const OpDef& op, const char* activation) {
  const Option* option = activation == nullptr ? nullptr : op.attributes.find("activation");
  if (option == nullptr || std::string_view(activation) == option->fallback) return false;  // "none"
  return std::ranges::find(option->allowed(), std::string_view(activation)) != option->allowed().end();
}

Sliced sliced_elementwise(const OpCall& call, std::span<const Sliced> inputs) {
  int rank = 0;
  for (const Type& type : call.inputs) rank = std::max(rank, type.shape.rank());
  Sliced result = Sliced::whole;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!call.present[i] || inputs[i] == Sliced::whole) continue;
    if (inputs[i] != Sliced::batch || call.inputs[i].shape.rank() != rank) return Sliced::mixed;
    result = Sliced::batch;
  }
  if (result != Sliced::batch) return result;
  // A value that all slices share must not have the batch's dimension: it is as long as one slice only by chance.
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.present[i] && inputs[i] == Sliced::whole && call.inputs[i].shape.rank() == rank && call.inputs[i].shape[0] != 1)
      return Sliced::mixed;
  return result;
}

Sliced sliced_linear_elementwise(const OpCall& call, std::span<const Sliced> inputs) {
  bool all_partial = !inputs.empty();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.present[i] && inputs[i] != Sliced::partial) all_partial = false;
  return all_partial ? Sliced::partial : sliced_elementwise(call, inputs);
}

Sliced sliced_first_input(const OpCall& call, std::span<const Sliced> inputs) {
  if (inputs.empty()) return Sliced::whole;
  for (size_t i = 1; i < inputs.size(); ++i)
    if (call.present[i] && inputs[i] != Sliced::whole) return Sliced::mixed;
  return inputs[0] == Sliced::partial ? Sliced::mixed : inputs[0];
}

Sliced sliced_never(const OpCall& call, std::span<const Sliced> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.present[i] && inputs[i] != Sliced::whole) return Sliced::mixed;
  return Sliced::whole;
}

void check_attributes(const Schema& schema, const Json& attrs) {
  if (!attrs.is_object()) return;
  for (const auto& [key, value] : attrs.as_object()) {
    if (key.starts_with('@')) continue;  // a position in a script
    const Option* const option = schema.find(key);
    const bool any_number = option && option->type == TypeName("number") && std::isinf(option->range.low) && std::isinf(option->range.high);
    if (any_number && value.is_number()) continue;  // NaN too
    if (option) check_option(value, *option, "", ErrorKind::model);
    else if (!schema.open) throw unknown_key(key, attrs, schema, "", ErrorKind::model);
  }
}

int64_t attr_int(const Json& attrs, const Option& option) {
  const Json* value = given(attrs, option);
  if (!value) return number_of<int64_t>(option);
  if (!value->is_int()) wrong_attr(option, *value, "an integer");
  return value->as_int();
}

double attr_number(const Json& attrs, const Option& option) {
  const Json* value = given(attrs, option);
  if (!value) return number_of<double>(option);
  if (!value->is_number()) wrong_attr(option, *value, "a number");
  return value->as_number();
}

bool attr_bool(const Json& attrs, const Option& option) {
  const Json* value = given(attrs, option);
  if (!value) return std::string_view(option.fallback) == "true";
  if (!value->is_bool()) wrong_attr(option, *value, "true or false");
  return value->as_bool();
}

std::string attr_string(const Json& attrs, const Option& option) {
  const Json* value = given(attrs, option);
  if (!value) return option.fallback;
  if (!value->is_string()) wrong_attr(option, *value, "a string");
  return value->as_string();
}

int axis_of(int64_t axis, const Type& type) {
  const int rank = type.shape.rank();
  if (axis < -rank || axis >= rank)
    throw Error(ErrorKind::model,
                {.what = "axis out of range",
                 .got = std::to_string(axis) + " for " + type.text(),
                 .expected = rank == 0 ? "no axis: it is one number" : std::to_string(-rank) + " to " + std::to_string(rank - 1),
                 .hint = "ops count axes from 0; Lua, in pg.lambda too, from 1"});
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int64_t> attr_ints(const Json& attrs, const Option& option) {
  const Json* value = given(attrs, option);
  if (!value) return numbers_of(option.fallback);
  if (!value->is_array()) wrong_attr(option, *value, "a list of integers");
  std::vector<int64_t> result;
  for (const Json& item : value->as_array()) {
    if (!item.is_int()) wrong_attr(option, item, "a list of integers");
    result.push_back(item.as_int());
  }
  return result;
}

const Option& attribute(const Node& node, std::string_view name) {
  const Option* option = node.op->attributes.find(name);
  assert(option);
  return *option;
}

Json ints_json(std::span<const int64_t> values) {
  Json list = Json::array();
  for (int64_t value : values) list.push(value);
  return list;
}

}  // namespace perigee
