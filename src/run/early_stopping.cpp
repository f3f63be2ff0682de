#include "src/run/early_stopping.h"

#include <cmath>
#include <cstdio>

namespace perigee {
namespace {

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace

bool figure_is_error(const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string figure = dot == std::string::npos ? name : name.substr(dot + 1);
  for (const char* error : {"loss", "mse", "mae", "rmse", "rse", "ece", "mce", "brier", "negative_log_likelihood", "perplexity"})
    if (figure == error) return true;
  return figure.ends_with("_error_rate");
}

EarlyStopping::EarlyStopping(const Config& options)
    : metric_(options.string("metric", "test.loss")),
      lower_is_better_(options.boolean("lower_is_better", figure_is_error(metric_))),
      every_epochs_(options.integer_in("every_epochs", 1, 1000000, 1)),
      patience_(options.integer_in("patience", 1, 1000000000, 1000000000)),
      min_improvement_(options.number_in("min_improvement", 0, 1e300, 0)),
      has_target_(options.has("best")),
      target_(options.number("best", 0)),
      max_epochs_(options.integer_in("max_epochs", 1, 1000000000, 1000000000)),
      max_seconds_(options.number_in("max_seconds", 0, 1e300, 0)),
      max_loss_(options.number_in("max_loss", -1e300, 1e300, 0)) {
  has_max_loss_ = options.has("max_loss");
  if (metric_.find('.') != std::string::npos) return;
  std::string figure = metric_;
  for (const std::string_view part : {"val_", "validation_", "test_", "train_"})  // as other programs name them
    if (figure.starts_with(part)) figure.erase(0, part.size());
  options.fail("metric", "must name a part of the data and a figure", "'" + metric_ + "'", "for example 'test." + figure + "'");
}

std::string EarlyStopping::after_step(double loss, double seconds) const {
  if (!std::isfinite(loss)) return "the loss is not a finite number";
  if (has_max_loss_ && loss > max_loss_) return "the loss " + number_text(loss) + " exceeds " + number_text(max_loss_);
  if (max_seconds_ > 0 && seconds > max_seconds_) return "the time of " + number_text(max_seconds_) + " s is used up";
  return "";
}

std::string EarlyStopping::after_epoch(int64_t epoch, double value, double seconds) {
  improved_ = std::isfinite(value) &&
              (best_epoch_ == 0 || better(value, lower_is_better_ ? best_value_ - min_improvement_ : best_value_ + min_improvement_));
  if (improved_) {
    best_epoch_ = epoch;
    best_value_ = value;
    without_ = 0;
  } else {
    ++without_;
  }
  if (has_target_ && std::isfinite(value) && (value == target_ || better(value, target_)))
    return metric_ + " reached " + number_text(value) + " (wanted " + number_text(target_) + ")";
  if (without_ >= patience_)
    return metric_ + " has not improved for " + std::to_string(without_) + " evaluations (best " + number_text(best_value_) +
           " after epoch " + std::to_string(best_epoch_) + ")";
  if (epoch >= max_epochs_) return "the limit of " + std::to_string(max_epochs_) + " epochs is reached";
  if (max_seconds_ > 0 && seconds > max_seconds_) return "the time of " + number_text(max_seconds_) + " s is used up";
  return "";
}

void EarlyStopping::change(const Config& options) {
  EarlyStopping next(options);
  next.best_epoch_ = best_epoch_;
  next.best_value_ = best_value_;
  next.without_ = without_;
  next.improved_ = improved_;
  *this = std::move(next);
}

Json EarlyStopping::state() const {
  return Json(Json::Object{{"best_epoch", best_epoch_}, {"best_value", best_value_}, {"without_improvement", without_}});
}

void EarlyStopping::restore(const Json& state) {
  const Config config(state, "state of early stopping", ErrorKind::data);
  best_epoch_ = config.integer_in("best_epoch", 0, INT64_MAX);
  best_value_ = config.number("best_value");
  without_ = config.integer_in("without_improvement", 0, INT64_MAX);
}

}  // namespace perigee
