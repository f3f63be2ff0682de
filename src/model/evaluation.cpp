#include "src/model/evaluation.h"

#include <algorithm>

namespace perigee {

std::unique_ptr<Evaluation> make_evaluation(const Json& description, const EvaluationTask& task, const std::string& where) {
  Json object = description;
  if (description.is_string()) object = Json(Json::Object{{"type", description}});
  const Config options(object, where);
  const std::string type = options.string("type");
  std::vector<std::string> known;
  for (const EvaluationDef* def : all_evaluations()) {
    if (type == def->name) {
      return def->make(Config(object, def->schema, where + ": evaluation '" + type + "'"), task);
    }
    known.emplace_back(def->name);
  }
  std::string all, hint = nearest_hint(type, known);
  for (const std::string& name : known) all += (all.empty() ? "'" : ", '") + name + "'";
  if (const std::string with = evaluation_with(type, task); !with.empty())
    hint = "it is a figure of '" + with + "': metrics = { \"" + with + "\" }";
  throw Error(ErrorKind::model, {where, "there is no evaluation '" + type + "'", "", "one of " + all, hint});
}

std::string evaluation_with(const std::string& figure, const EvaluationTask& task) {
  const Json none = Json::object();
  for (const EvaluationDef* def : all_evaluations()) {
    const std::span<const Option> options = def->schema.options;
    if (std::any_of(options.begin(), options.end(), [](const Option& option) { return option.fallback == nullptr; })) continue;
    const Json given = def->make(Config(none, def->schema, def->name), task)->result();
    const Json* value = given.find(figure);
    if (value != nullptr && (value->is_number() || value->is_null())) return def->name;
  }
  return "";
}

Json default_evaluations(const EvaluationTask& task) {
  if (task.blank) return Json(Json::Array{"transcription"});
  if (task.sequence) return Json::array();
  return Json(Json::Array{task.classes > 0 ? "classification" : "regression"});
}

}  // namespace perigee
