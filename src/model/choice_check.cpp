#include "src/model/choice_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/model/widen_hint.h"
#include "src/tensor/bytes.h"

namespace perigee {
namespace {

constexpr int64_t kSampled = 256;  // examples that are looked at where reading one takes time

std::string range_text(int64_t low, int64_t count) { return std::to_string(low) + " to " + std::to_string(low + count - 1); }

// A buffer for one example of a source, and where its fields lie.
struct ExampleRoom {
  explicit ExampleRoom(const DataSource& source) {
    for (const Field& field : source.fields()) bytes.emplace_back(byte_size(field));
    for (auto& each : bytes) slots.push_back(each.data());
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> slots;
};

// The first example whose label is wanted, and its label; -1: none was found.
template <class Wanted>
int64_t find_label(const DataSource& source, size_t field, int64_t* label, Wanted wanted) {
  const SourceTraits traits = source.traits();
  if (traits.live || traits.read_ahead > 0 || source.fields()[field].dtype != Dtype::i64) return -1;
  ExampleRoom room(source);
  const int64_t size = source.size(), step = traits.cheap ? 1 : std::max<int64_t>(1, size / kSampled);
  for (int64_t i = 0; i < size; i += step) {
    source.read({.index = i}, room.slots);
    std::memcpy(label, room.slots[field], sizeof *label);
    if (wanted(*label)) return i;
  }
  return -1;
}

// An example whose target is a number and no class; -1: none was found.
int64_t find_fraction(const DataSource& source, size_t index, double* value) {
  const SourceTraits traits = source.traits();
  const Field& field = source.fields()[index];
  if (traits.live || traits.read_ahead > 0 || field.classes > 0 || !is_floating(field.dtype) || field.shape.elements() == 0) return -1;
  ExampleRoom room(source);
  const int64_t size = source.size(), step = std::max<int64_t>(1, size / kSampled);
  for (int64_t i = 0; i < size; i += step) {
    source.read({.index = i}, room.slots);
    convert(field.dtype, room.slots[index], Dtype::f64, value, 1);
    if (std::trunc(*value) != *value) return i;
  }
  return -1;
}

void refuse_numbers(const DataSource& source, size_t index, const std::string& where) {
  double value = 0;
  const int64_t example = find_fraction(source, index, &value);
  if (example < 0) return;
  throw Error(ErrorKind::model, {.where = where,
                                 .what = "the loss is of classes, and the target has other numbers",
                                 .got = Json(value).dump() + " in field '" + source.fields()[index].name + "' of " +
                                        source.traits().description + " (example " + std::to_string(example) + ")",
                                 .hint = "for numbers take loss = \"mse\", and as many outputs as the target has numbers"});
}

std::string class_text(const Field& field, int64_t label) {
  const auto at = static_cast<size_t>(label);
  return at < field.class_names.size() ? "'" + field.class_names[at] + "'" : std::to_string(label);
}

// Labels of a program's own numbers that begin with 1: the last of them is beyond the outputs, and 0 is nobody's.
bool counts_from_one(const DataSource& source, size_t field, int64_t outputs) {
  const Field& described = source.fields()[field];
  if (!described.class_names.empty() || described.classes != outputs + 1) return false;
  int64_t label = 0;
  return find_label(source, field, &label, [](int64_t each) { return each == 0; }) < 0;
}

void refuse_surplus(const Model& model, const DataSource& source, size_t index, int64_t outputs, const std::string& where) {
  const Field& field = source.fields()[index];
  int64_t label = 0;
  const int64_t example = find_label(source, index, &label, [&](int64_t each) { return each >= outputs; });
  if (example < 0) return;
  throw Error(ErrorKind::model,
              {.where = where,
               .what = "the data have more classes than the network has outputs",
               .got = std::to_string(field.classes) + " classes in field '" + field.name + "' of " + source.traits().description +
                      " (example " + std::to_string(example) + " is " + class_text(field, label) + ") and " + std::to_string(outputs) +
                      (outputs == 1 ? " output" : " outputs"),
               .hint = counts_from_one(source, index, outputs)
                           ? "labels count from 0, and none of these is 0: give the field " + field.name + " - 1"
                           : widen_hint(model, outputs, field.classes)});
}

}  // namespace

std::string widen_hint(const Model& model, int64_t outputs, int64_t classes) {
  const std::string wanted = classes > 0 ? std::to_string(classes) : "more";
  for (auto layer = model.layers().rbegin(); layer != model.layers().rend(); ++layer) {
    if (layer->parameters == 0 || layer->outputs.empty() || layer->outputs[0].rank() == 0 || layer->outputs[0][0] != outputs) continue;
    const std::string spelling = layer->type == "dense" && classes > 0 ? ": pg.dense { " + wanted + " }" : "";
    return "give layer '" + layer->name + "' " + wanted + " outputs" + spelling;
  }
  return "give the network " + wanted + " outputs";
}

ChoiceCheck::ChoiceCheck(const Model& model, const DataSource& source, const std::string& where) {
  for (const ChoosingInput& input : model.choosing()) {
    const auto& fields = source.fields();
    const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == input.name; });
    if (found == fields.end()) continue;
    const auto index = static_cast<size_t>(found - fields.begin());
    if (input.low == 0 && found->classes > 0 && found->classes <= input.count) continue;
    if (input.scope == "loss") refuse_numbers(source, index, where);
    if (input.low == 0 && input.scope == "loss" && found->classes > input.count) refuse_surplus(model, source, index, input.count, where);
    choices_.push_back({.field = index,
                        .name = found->name,
                        .elements = found->shape.elements(),
                        .low = input.low,
                        .count = input.count,
                        .hint = input.scope == "loss" ? "correct the label, or " + widen_hint(model, input.count, 0) : "",
                        .scope = input.scope});
  }
}

int64_t ChoiceCheck::first_wrong(const Choice& choice, const Batch& batch) {
  if (batch.fields.empty()) return -1;  // a device has them: check_all() saw them
  return first_outside(batch.fields[choice.field].view(), batch.size * choice.elements, choice.low, choice.count);
}

void ChoiceCheck::refuse(const Choice& choice, const View& view, int64_t at, int64_t example, const std::string& where) {
  double value = 0;
  convert(view.dtype, view.as<std::byte>() + static_cast<size_t>(at) * dtype_bytes(view.dtype), Dtype::f64, &value, 1);
  const bool label = choice.scope == "loss";
  std::string place = "example " + std::to_string(example);
  if (choice.elements > 1) place += ", element " + std::to_string(at % choice.elements);
  const bool next = value == static_cast<double>(choice.low + choice.count);
  throw Error(ErrorKind::data, {.where = where,
                                .what = "field '" + choice.name + "' of " + place +
                                        (label ? " is no class of the network's output" : " is no index of " + choice.scope),
                                .got = std::trunc(value) == value ? std::to_string(static_cast<int64_t>(value)) : Json(value).dump(),
                                .expected = range_text(choice.low, choice.count),
                                .hint = (label && next ? "classes count from 0: " : "") + choice.hint});
}

void ChoiceCheck::check_all(const DataSource& source, const std::string& where) const {
  if (choices_.empty()) return;
  ExampleRoom room(source);
  for (int64_t i = 0; i < source.size(); ++i) {
    source.read({.index = i}, room.slots);
    for (const Choice& choice : choices_) {
      const View view = contiguous_view(room.slots[choice.field], source.fields()[choice.field].dtype, Shape{choice.elements});
      if (const int64_t at = first_outside(view, choice.elements, choice.low, choice.count); at >= 0) refuse(choice, view, at, i, where);
    }
  }
}

}  // namespace perigee
