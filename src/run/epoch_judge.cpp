#include "src/run/epoch_judge.h"

#include <algorithm>
#include <cmath>

#include "src/core/warning.h"
#include "src/model/evaluator.h"

namespace perigee {
namespace {

constexpr const char* kParts[] = {"validation", "test"};

// "test.accuracy" of {"test": {"accuracy": ...}}, "train.loss" of {"loss": ...}; NaN when it is not there.
double figure_at(const Json& event, const std::string& path) {
  const size_t dot = path.find('.');
  const std::string name = path.substr(0, dot);
  const Json* part = dot == std::string::npos ? nullptr : name == "train" ? &event : event.find(name);
  const Json* value = part ? part->find(path.substr(dot + 1)) : nullptr;
  return value && value->is_number() ? value->as_number() : NAN;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

std::vector<std::string> figures_on(const Job& job, const std::string& part, const EvaluationTask& task) {
  if (part == "train") return task.classes > 0 ? std::vector<std::string>{"loss", "accuracy"} : std::vector<std::string>{"loss"};
  const Json* metrics = job.json().find("metrics");
  return figures_of(metrics ? *metrics : Json(), task, job.where());
}

// "roc.auc" for "auc", and the other way round; a near name; an evaluation that would give the figure.
std::string figure_hint(const std::string& part, const std::string& figure, const std::vector<std::string>& known,
                        const EvaluationTask& task) {
  for (const std::string& name : known)
    if (name.ends_with("." + figure) || figure.ends_with("." + name)) return "did you mean '" + part + "." + name + "'?";
  std::vector<std::string> near;
  for (const std::string& name : known)
    if (!nearest_hint(figure, {name}).empty()) near.push_back(part + "." + name);
  if (!near.empty()) return nearest_hint(part + "." + figure, near);
  const std::string evaluation = evaluation_with(figure, task);
  return evaluation.empty() ? "" : "the evaluation '" + evaluation + "' measures it: metrics = { \"" + evaluation + "\" }";
}

// The part is there, and something measures such a figure on it.
void check_watched(const Job& job, const Config& config, const char* key, const std::string& metric, const EpochJudge::TaskOf& task_of) {
  const size_t dot = metric.find('.');
  const std::string part = metric.substr(0, dot), figure = dot == std::string::npos ? "" : metric.substr(dot + 1);
  const bool is_part = part == "train" || std::ranges::find(kParts, part) != std::end(kParts);
  const std::optional<EvaluationTask> task = is_part ? task_of(part) : std::nullopt;
  if (!task) {
    std::vector<std::string> there{"train"};
    for (const char* name : kParts)
      if (task_of(name)) there.emplace_back(name);
    const auto measured = [&] { return figures_on(job, there.back(), *task_of(there.back())); };
    const auto watched = [&](const std::vector<std::string>& known) {
      return std::ranges::find(known, figure) == known.end() ? "loss" : figure;
    };
    std::string hint = is_part ? "give data = { " + part + " = ... }, or watch '" + there.back() + "." + watched(measured()) + "'"
                               : nearest_hint(part, there);
    if (hint.empty()) {  // perhaps the figure alone
      const std::string judged = std::ranges::find(there, "validation") != there.end() ? "validation" : there.back();
      hint = figure_hint(judged, metric, figures_on(job, judged, *task_of(judged)), *task_of(judged));
    }
    config.fail(key, "names a part of the data that the job does not have", "'" + part + "'", "one of " + quoted(there), hint);
  }
  const std::vector<std::string> known = figures_on(job, part, *task);
  if (std::ranges::find(known, figure) != known.end()) return;
  config.fail(key, "names a figure that nothing measures on the " + part + " data", "'" + figure + "'", "one of " + quoted(known),
              figure_hint(part, figure, known, *task));
}

}  // namespace

EpochJudge::EpochJudge(const Job& job, const TaskOf& task_of) {
  try {
    read(job, task_of);
  } catch (const Error& error) {
    throw job.placed(error);
  }
}

void EpochJudge::read(const Job& job, const TaskOf& task_of) {
  const Json* metrics = job.json().find("metrics");
  const std::optional<EvaluationTask> on_training = task_of("train");
  if (metrics && !metrics->is_null() && on_training) figures_of(*metrics, *on_training, job.where());  // says which of them there is not
  const Json* early = job.json().find("early_stopping");
  if (early && early->is_object()) {
    const Config config(*early, job.where() + ": early_stopping");
    rules_ = EarlyStopping(config);
    config.reject_unread();
    stops_early_ = true;
    check_watched(job, config, "metric", rules_.metric(), task_of);
  }
  if (stops_early_) best_metric_ = rules_.metric();
  if (const Json* checkpoint = job.json().find("checkpoint"); checkpoint && checkpoint->is_object()) {
    const Config config(*checkpoint, job.where() + ": checkpoint");
    best_metric_ = config.string("best", best_metric_);
    if (config.has("best")) check_watched(job, config, "best", best_metric_, task_of);
  }
  if (!stops_early_ && !best_metric_.empty()) {  // no rule stops the run, but the best epoch is kept
    const Json rules = Json(Json::Object{{"metric", best_metric_}});
    rules_ = EarlyStopping(Config(rules, job.where() + ": checkpoint"));
  }
  if (const Json* plateau = job.json().find("reduce_on_plateau"); plateau && plateau->is_object()) {
    const Config config(*plateau, job.where() + ": reduce_on_plateau");
    plateau_ = Plateau(config);
    check_watched(job, config, "metric", plateau_.metric(), task_of);
  }
  const bool has_validation = task_of("validation").has_value();
  for (const std::string part : kParts) {
    if (task_of(part) && (part != "test" || !has_validation || watches(part))) parts_.push_back(part);
  }
}

bool EpochJudge::watches(const std::string& part) const {
  return best_metric_.starts_with(part + ".") || (stops_early_ && rules_.metric().starts_with(part + ".")) ||
         plateau_.metric().starts_with(part + ".");
}

Json EpochJudge::state() const {
  Json state = rules_.state();
  if (plateau_.active()) state.set("plateau", plateau_.state());
  return state;
}

void EpochJudge::restore(const Json& state) {
  rules_.restore(state);
  if (const Json* plateau = state.find("plateau"); plateau && plateau_.active()) plateau_.restore(*plateau);
}

std::string EpochJudge::after_epoch(int64_t epoch, const Json& event, double seconds) {
  rate_changed_ = plateau_.active() && plateau_.after_epoch(figure_at(event, plateau_.metric()));
  if (stops_early_) {
    if (!rules_.due(epoch)) return "";
    const double value = figure_at(event, rules_.metric());
    if (std::isnan(value)) warn("early stopping watches '" + rules_.metric() + "', which the evaluation does not give");
    return rules_.after_epoch(epoch, value, seconds);
  }
  const double value = figure_at(event, best_metric_);
  if (best_metric_.empty() || !std::isfinite(value)) return "";
  rules_.after_epoch(epoch, value, seconds);
  return "";
}

bool EpochJudge::is_best(int64_t epoch) const { return !best_metric_.empty() && rules_.improved() && rules_.best_epoch() == epoch; }

}  // namespace perigee
