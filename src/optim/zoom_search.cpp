#include "src/optim/zoom_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace perigee {
namespace {

constexpr int kDoublings = 10, kZooms = 10;
constexpr double kCubicMargin = 0.2, kQuadraticMargin = 0.1;  // of the interval, which a minimiser keeps from its ends

struct Trial {
  double step = 0, value = 0, slope = 0;
};

std::optional<double> finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

// The minimum of the parabola through `low`, with its slope, and `high`.
std::optional<double> quadratic_minimum(const Trial& low, const Trial& high) {
  const double width = high.step - low.step;
  const double bend = (high.value - low.value - low.slope * width) / (width * width);
  return finite(low.step - low.slope / (2 * bend));
}

// The minimum of the cubic through `low`, with its slope, and two others.
std::optional<double> cubic_minimum(const Trial& low, const Trial& b, const Trial& c) {
  const double db = b.step - low.step, dc = c.step - low.step;
  const double rise_b = b.value - low.value - low.slope * db, rise_c = c.value - low.value - low.slope * dc;
  const double scale = (db * dc) * (db * dc) * (db - dc);
  const double third = (dc * dc * rise_b - db * db * rise_c) / scale, second = (db * db * db * rise_c - dc * dc * dc * rise_b) / scale;
  return finite(low.step + (-second + std::sqrt(second * second - 3 * third * low.slope)) / (3 * third));
}

class ZoomSearch {
 public:
  ZoomSearch(const LineSearchOptions& options, const LineValue& start, const std::function<LineValue(double)>& at,
             const std::function<bool()>& accepts)
      : options_(options), start_(start), at_(at), accepts_(accepts) {}

  LineSearchResult run(double first) {
    Trial before{0, start_.value, start_.slope}, now = tried(std::min(first, options_.longest));
    for (int i = 0; i < kDoublings && can_go_on(); ++i) {
      if (rises_too_much(now) || (i > 0 && now.value >= before.value)) return zoom(before, now);
      if (is_flat(now) && accepts_()) return found();
      if (now.slope >= 0) return zoom(now, before);
      before = now;
      now = tried(std::min(2 * now.step, options_.longest));
    }
    return result_;
  }

 private:
  Trial tried(double step) {
    result_.step = step;
    result_.at = at_(step);
    ++result_.evaluations;
    return {step, result_.at.value, result_.at.slope};
  }
  bool can_go_on() const { return result_.evaluations < options_.evaluations; }
  bool rises_too_much(const Trial& trial) const { return !(trial.value <= start_.value + options_.decrease * trial.step * start_.slope); }
  bool is_flat(const Trial& trial) const { return std::fabs(trial.slope) <= -options_.curvature * start_.slope; }
  LineSearchResult found() {
    result_.found = true;
    return result_;
  }

  // Between the best step so far and one beyond a minimiser, with the end that was left last.
  LineSearchResult zoom(Trial low, Trial high) {
    Trial left{0, start_.value, start_.slope};
    for (int i = 0; i <= kZooms && can_go_on(); ++i) {
      const Trial trial = tried(between(low, high, i > 0 ? &left : nullptr));
      if (rises_too_much(trial) || trial.value >= low.value) {
        left = high;
        high = trial;
        continue;
      }
      if (is_flat(trial) && accepts_()) return found();
      if (trial.slope * (high.step - low.step) >= 0) {
        left = high;
        high = low;
      } else {
        left = low;
      }
      low = trial;
    }
    return result_;
  }

  static double between(const Trial& low, const Trial& high, const Trial* left) {
    const double width = high.step - low.step, least = std::min(low.step, high.step), most = std::max(low.step, high.step);
    const auto inside = [&](const std::optional<double>& step, double margin) {
      return step && *step <= most - margin * width && *step >= least + margin * width;
    };
    if (left)
      if (const auto cubic = cubic_minimum(low, high, *left); inside(cubic, kCubicMargin)) return *cubic;
    if (const auto quadratic = quadratic_minimum(low, high); inside(quadratic, kQuadraticMargin)) return *quadratic;
    return low.step + 0.5 * width;
  }

  const LineSearchOptions& options_;
  const LineValue start_;
  const std::function<LineValue(double)>& at_;
  const std::function<bool()>& accepts_;
  LineSearchResult result_;
};

}  // namespace

LineSearchResult search_by_zoom(const LineSearchOptions& options, const LineValue& start, double first,
                                const std::function<LineValue(double step)>& at, const std::function<bool()>& accepts_last) {
  return ZoomSearch(options, start, at, accepts_last).run(first);
}

}  // namespace perigee
