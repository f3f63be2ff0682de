#include "src/model/evaluation.h"

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
  throw Error(ErrorKind::model, {where, "there is no evaluation '" + type + "'", "", "", nearest_hint(type, known)});
}

Json default_evaluations(const EvaluationTask& task) {
  if (task.sequence) return Json::array();
  return Json(Json::Array{task.classes > 0 ? "classification" : "regression"});
}

}  // namespace perigee
