#include "src/optim/line_search.h"

#include <algorithm>
#include <cmath>

namespace perigee {
namespace {

struct Point {
  double step = 0, value = 0, slope = 0;
};

// The minimiser of the cubic through both points with both slopes, seen from `from`; `sign` chooses the root. Moré and Thuente, section 4.
double cubic_step(const Point& from, const Point& to, bool clamp, bool* flat = nullptr) {
  const double theta = 3 * (from.value - to.value) / (to.step - from.step) + from.slope + to.slope;
  const double scale = std::max({std::fabs(theta), std::fabs(from.slope), std::fabs(to.slope)});
  double square = (theta / scale) * (theta / scale) - (from.slope / scale) * (to.slope / scale);
  if (clamp) square = std::max(0.0, square);
  double gamma = scale * std::sqrt(square);
  if (to.step < from.step) gamma = -gamma;
  const double ratio = ((gamma - from.slope) + theta) / (((gamma - from.slope) + gamma) + to.slope);
  if (flat) *flat = !(ratio < 0 && gamma != 0);
  return from.step + ratio * (to.step - from.step);
}

double secant_step(const Point& from, const Point& to) {
  return from.step + (from.slope / (from.slope - to.slope)) * (to.step - from.step);
}

// The interval of uncertainty: the best point so far, the other end, and whether they bracket a minimiser.
struct Interval {
  Point best, other;
  bool bracketed = false;

  // Takes in a trial and gives the next step, within [low, high].
  double take(const Point& trial, double low, double high) {
    double next = 0;
    const bool opposite = trial.slope * (best.slope / std::fabs(best.slope)) < 0;
    if (trial.value > best.value) {  // a minimiser lies between
      const double cubic = cubic_step(best, trial, false);
      const double quadratic =
          best.step + best.slope / ((best.value - trial.value) / (trial.step - best.step) + best.slope) / 2 * (trial.step - best.step);
      next = std::fabs(cubic - best.step) < std::fabs(quadratic - best.step) ? cubic : cubic + (quadratic - cubic) / 2;
      bracketed = true;
    } else if (opposite) {
      const double cubic = cubic_step(trial, best, false), secant = secant_step(trial, best);
      next = std::fabs(cubic - trial.step) > std::fabs(secant - trial.step) ? cubic : secant;
      bracketed = true;
    } else if (std::fabs(trial.slope) < std::fabs(best.slope)) {
      next = by_falling_slope(trial, low, high);
    } else {
      next = bracketed ? cubic_step(trial, other, false) : trial.step > best.step ? high : low;
    }
    if (trial.value > best.value) {
      other = trial;
    } else {
      if (opposite) other = best;
      best = trial;
    }
    return next;
  }

 private:
  // The cubic may have no minimiser beyond the trial.
  double by_falling_slope(const Point& trial, double low, double high) const {
    bool flat = false;
    double cubic = cubic_step(trial, best, true, &flat);
    if (flat) cubic = trial.step > best.step ? high : low;
    const double secant = secant_step(trial, best);
    const bool nearer = std::fabs(cubic - trial.step) < std::fabs(secant - trial.step);
    if (!bracketed) return std::clamp(nearer ? secant : cubic, low, high);
    const double next = nearer ? cubic : secant, limit = trial.step + 0.66 * (other.step - trial.step);
    return trial.step > best.step ? std::min(limit, next) : std::max(limit, next);
  }
};

class WolfeSearch {
 public:
  WolfeSearch(const LineSearchOptions& options, const LineValue& start)
      : options_(options),
        start_(start),
        test_(options.decrease * start.slope),
        width_(options.longest),
        width_before_(2 * options.longest) {
    interval_.best = interval_.other = {0, start.value, start.slope};
  }

  LineSearchResult run(double first, const std::function<LineValue(double)>& at) {
    LineSearchResult result{.step = std::min(first, options_.longest)};
    low_ = 0;
    high_ = 5 * result.step;
    while (result.evaluations < options_.evaluations) {
      result.at = at(result.step);
      ++result.evaluations;
      if (!std::isfinite(result.at.value) || !std::isfinite(result.at.slope)) {
        result.step = interval_.best.step + 0.1 * (result.step - interval_.best.step);
        continue;
      }
      if (is_over(result)) return result;
      result.step = next({result.step, result.at.value, result.at.slope});
    }
    return result;
  }

 private:
  // The conditions hold, or the interval has become too small to go on.
  bool is_over(LineSearchResult& result) {
    const double enough = start_.value + result.step * test_;
    const LineValue& at = result.at;
    const double bend = options_.bends_early ? std::min(options_.decrease, options_.curvature) * start_.slope : 0;
    if (first_stage_ && at.value <= enough && at.slope >= bend) first_stage_ = false;
    const bool rounding =
        interval_.bracketed && (result.step <= low_ || result.step >= high_ || high_ - low_ <= options_.precision * high_);
    const bool end = result.step == options_.longest && at.value <= enough && at.slope <= test_;
    const bool wolfe = at.value <= enough && std::fabs(at.slope) <= options_.curvature * -start_.slope;
    result.found = wolfe || ((rounding || end) && at.value <= start_.value);
    return wolfe || rounding || end;
  }

  double next(const Point& trial) {
    double step = 0;
    // While no step has a decrease that is sufficient and a slope above 0, the function minus the line of sufficient decrease is looked at.
    if (first_stage_ && trial.value <= interval_.best.value && trial.value > start_.value + trial.step * test_) {
      Interval modified{.best = minus_line(interval_.best), .other = minus_line(interval_.other), .bracketed = interval_.bracketed};
      step = modified.take(minus_line(trial), low_, high_);
      interval_ = {.best = plus_line(modified.best), .other = plus_line(modified.other), .bracketed = modified.bracketed};
    } else {
      step = interval_.take(trial, low_, high_);
    }
    const double &best = interval_.best.step, &other = interval_.other.step;
    if (interval_.bracketed) {
      if (std::fabs(other - best) >= 0.66 * width_before_) step = best + 0.5 * (other - best);
      width_before_ = width_;
      width_ = std::fabs(other - best);
      low_ = std::min(best, other), high_ = std::max(best, other);
    } else {
      low_ = step + 1.1 * (step - best), high_ = step + 4 * (step - best);
    }
    step = std::clamp(step, 0.0, options_.longest);
    const bool stuck = interval_.bracketed && (step <= low_ || step >= high_ || high_ - low_ <= options_.precision * high_);
    return stuck ? best : step;
  }

  Point minus_line(const Point& p) const { return {p.step, p.value - p.step * test_, p.slope - test_}; }
  Point plus_line(const Point& p) const { return {p.step, p.value + p.step * test_, p.slope + test_}; }

  const LineSearchOptions& options_;
  const LineValue start_;
  const double test_;  // slope of the line of sufficient decrease
  Interval interval_;
  bool first_stage_ = true;
  double low_ = 0, high_ = 0, width_, width_before_;
};

LineSearchResult back_track(const LineSearchOptions& options, const LineValue& start, double first,
                            const std::function<LineValue(double)>& at) {
  LineSearchResult result{.step = first};
  while (result.evaluations < options.evaluations) {
    result.at = at(result.step);
    ++result.evaluations;
    result.found = result.at.value <= start.value + options.decrease * result.step * start.slope;
    if (result.found) return result;
    // The minimiser of the parabola through both values, within bounds.
    const double rise = result.at.value - start.value - result.step * start.slope;
    const double shrink = std::isfinite(rise) && rise > 0 ? -start.slope * result.step / (2 * rise) : 0.1;
    result.step *= std::clamp(shrink, 0.1, 0.5);
  }
  return result;
}

}  // namespace

LineSearchResult search_line(const LineSearchOptions& options, const LineValue& start, double first,
                             const std::function<LineValue(double step)>& at) {
  if (!options.wolfe) return back_track(options, start, first, at);
  return WolfeSearch(options, start).run(first, at);
}

}  // namespace perigee
