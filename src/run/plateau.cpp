#include "src/run/plateau.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/job/job_schema.h"
#include "src/run/early_stopping.h"

namespace perigee {

Plateau::Plateau(const Config& given) : active_(true) {
  const Config options = given.with(plateau_schema);
  metric_ = options.string("metric");
  lower_is_better_ = options.boolean("lower_is_better", figure_is_error(metric_));
  reduction_ = options.number("factor");
  patience_ = options.integer("patience");
  min_improvement_ = options.number("min_improvement");
  cooldown_ = options.integer("cooldown");
  min_factor_ = options.number("min_factor");
}

bool Plateau::after_epoch(double value) {
  if (std::isnan(value)) return false;
  const bool improved = !has_best_ || (lower_is_better_ ? value < best_ - min_improvement_ : value > best_ + min_improvement_);
  if (improved) best_ = value, has_best_ = true;
  without_ = improved ? 0 : without_ + 1;
  if (cooling_ > 0) --cooling_, without_ = 0;
  if (without_ < patience_) return false;
  without_ = 0;
  cooling_ = cooldown_;
  const double before = std::exchange(factor_, std::max(factor_ * reduction_, min_factor_));
  return factor_ != before;
}

Json Plateau::state() const {
  Json state(Json::Object{{"factor", factor_}, {"without_improvement", without_}, {"cooling", cooling_}});
  if (has_best_) state.set("best", best_);
  return state;
}

void Plateau::restore(const Json& state) {
  const Config config(state, "state of reduce_on_plateau", ErrorKind::data);
  factor_ = config.number_in("factor", 0, 1, 1);
  without_ = config.integer_in("without_improvement", 0, INT64_MAX);
  cooling_ = config.integer_in("cooling", 0, INT64_MAX);
  has_best_ = config.has("best");
  best_ = config.number("best", 0);
}

}  // namespace perigee
