#include "src/train/target_check.h"

#include <algorithm>
#include <string_view>

#include "src/io/csv.h"
#include "src/model/widen_hint.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

constexpr size_t kMostNames = 4;  // that a message lists

std::string names_text(const Field& field) {
  std::string text;
  for (size_t i = 0; i < field.class_names.size() && i < kMostNames; ++i)
    text += (i ? ", '" : "'") + field.class_names[i].substr(0, 40) + "'";
  return text + (field.class_names.size() > kMostNames ? ", ..." : "");
}

std::string count_text(int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// The field, if it has named classes; else null.
const Field* classes_of(const DataSource& source, const std::string& name) {
  for (const Field& field : source.fields())
    if (field.name == name) return field.classes > 0 && !field.class_names.empty() ? &field : nullptr;
  return nullptr;
}

// Whether the number of a class is no target of the loss. Those that choose an output by it say so; those of yes or no take two classes.
bool takes_amounts(const Model& model, const std::string& field, std::string_view loss, int64_t classes) {
  const bool chooses =
      std::ranges::any_of(model.choosing(), [&](const ChoosingInput& input) { return input.name == field && input.scope == "loss"; });
  if (chooses) return false;
  if (loss == "lambda" || loss == "none" || loss == "composite") return false;  // what they take is not known
  const std::string_view target = loss_named(loss).example_target;
  if (target == "class" || target == "labels" || target == "boxes") return false;
  return classes > 2 || (target != "binary" && target != "probability");
}

bool all_numbers(const std::vector<std::string>& names) {
  double value = 0;
  return std::ranges::all_of(names, [&](const std::string& name) { return csv_number(name, value); });
}

std::string remedy(const Model& model, const Field& field, int64_t outputs) {
  std::string text = "for classes take loss = \"cross_entropy\" and " + count_text(field.classes, "output", "outputs");
  if (outputs != field.classes) text += ": " + widen_hint(model, outputs, field.classes);
  if (all_numbers(field.class_names)) text += "; if the column holds amounts, say so where it is read: task = \"regress\"";
  return text;
}

void refuse_head(const Model& model, const DataSource& source, const Json& loss, int output, const std::string& target,
                 const std::string& where) {
  const Field* field = classes_of(source, target);
  if (field == nullptr || loss.is_null()) return;
  const Json* type = loss.is_object() ? loss.find("type") : &loss;
  if (type == nullptr || !type->is_string() || !takes_amounts(model, field->name, type->as_string(), field->classes)) return;
  const std::vector<ModelOutput>& outputs = model.outputs();
  const auto at = static_cast<size_t>(output);
  const int64_t count = at < outputs.size() && outputs[at].type.shape.rank() > 0 ? outputs[at].type.shape[0] : 1;
  throw Error(ErrorKind::model, {.where = where,
                                 .what = "'" + type->as_string() + "' is of amounts, and the target is one of classes",
                                 .got = count_text(field->classes, "class", "classes") + " (" + names_text(*field) + ") in field '" +
                                        field->name + "' of " + source.traits().description,
                                 .expected = "numbers",
                                 .hint = remedy(model, *field, count)});
}

}  // namespace

void refuse_classes_as_amounts(const Model& model, const DataSource& source, const std::string& where) {
  const ModelSpec& spec = model.spec();
  refuse_head(model, source, spec.loss, spec.loss_output, spec.target.name, where);
  for (const LossHead& head : spec.more_heads) refuse_head(model, source, head.loss, head.output, head.target.name, where);
}

std::vector<std::string> lines_of_classes(const Model& model, const DataSource& source) {
  std::vector<std::string> lines;
  for (const ChoosingInput& input : model.choosing()) {
    const Field* field = input.scope == "loss" ? classes_of(source, input.name) : nullptr;
    if (field == nullptr) continue;
    if (field->classes == 1)
      lines.push_back("all examples are of one class, " + names_text(*field) + ": there is nothing to tell apart; see whether '" +
                      field->name + "' is the column that is meant, and whether the training part has all classes");
    else if (input.low == 0 && input.count > field->classes)
      lines.push_back("the network has " + std::to_string(input.count) + " outputs, and the data have " + std::to_string(field->classes) +
                      " classes (" + names_text(*field) + "): " + widen_hint(model, input.count, field->classes));
  }
  return lines;
}

}  // namespace perigee
