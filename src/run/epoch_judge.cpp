#include "src/run/epoch_judge.h"

#include <cmath>

#include "src/core/warning.h"

namespace perigee {
namespace {

// "test.accuracy" of {"test": {"accuracy": ...}}; NaN when it is not there.
double figure_at(const Json& event, const std::string& path) {
  const size_t dot = path.find('.');
  const Json* part = dot == std::string::npos ? nullptr : event.find(path.substr(0, dot));
  const Json* value = part ? part->find(path.substr(dot + 1)) : nullptr;
  return value && value->is_number() ? value->as_number() : NAN;
}

}  // namespace

EpochJudge::EpochJudge(const Job& job, const std::function<bool(const std::string& part)>& has_part) {
  const Json* early = job.json().find("early_stopping");
  if (early && early->is_object()) {
    const Config config(*early, job.where() + ": early_stopping");
    rules_ = EarlyStopping(config);
    config.reject_unread();
    stops_early_ = true;
    const std::string part = rules_.metric().substr(0, rules_.metric().find('.'));
    if (!has_part(part)) config.fail("metric", "names a part of the data that the job does not have", "'" + part + "'");
  }
  if (stops_early_) best_metric_ = rules_.metric();
  if (const Json* checkpoint = job.json().find("checkpoint"); checkpoint && checkpoint->is_object())
    best_metric_ = Config(*checkpoint, job.where() + ": checkpoint").string("best", best_metric_);
  if (!stops_early_ && !best_metric_.empty()) {  // no rule stops the run, but the best epoch is kept
    const Json rules = Json(Json::Object{{"metric", best_metric_}});
    rules_ = EarlyStopping(Config(rules, job.where() + ": checkpoint"));
  }
  for (const std::string part : {"validation", "test"}) {
    const bool asked = best_metric_.starts_with(part + ".") || (stops_early_ && rules_.metric().starts_with(part + "."));
    if (has_part(part) && (part != "test" || !has_part("validation") || asked)) parts_.push_back(part);
  }
}

std::string EpochJudge::after_epoch(int64_t epoch, const Json& event, double seconds) {
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
