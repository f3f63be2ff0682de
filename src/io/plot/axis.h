// An axis of a chart: its limits, its ticks, where values lie. Limits may be fitted to most values, so that a few that lie far out do not
// flatten all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace perigee {

enum class AxisScale : uint8_t {
  linear,  // from the least value to the greatest
  log,     // the same of the positive ones
  fitted   // log where all values are positive and span more than two decades; values far from the others may lie outside
};

class Axis {
 public:
  // An axis between two pixels: `from` is that of the lower limit.
  Axis(double from, double to) : from_(from), to_(to) {}
  // Chooses the limits. Values that are not finite do not count.
  void fit(std::vector<double> values, AxisScale scale);
  void set_limits(double low, double high);  // linear

  bool is_log() const { return log_; }
  size_t outside() const { return outside_; }
  double low() const { return value_at(low_); }
  double high() const { return value_at(high_); }
  double from() const { return from_; }
  double to() const { return to_; }
  double pixel(double value) const;   // NaN where the axis has no place for it; may lie beyond its ends
  std::vector<double> ticks() const;  // about five
  // "log axis", "2 of 120 values lie outside, the greatest is 58514", both or nothing.
  std::string note() const;

 private:
  double place(double value) const;
  double value_at(double place) const;

  double from_, to_;
  double low_ = 0, high_ = 1;  // log10 of the limits where log_
  bool log_ = false;
  size_t values_ = 0, outside_ = 0;
  double least_ = 0, greatest_ = 0;  // of the values
};

std::string axis_number(double value);  // "0.05", "1e-06"

using AxisPoints = std::vector<std::pair<double, double>>;
// Cuts lines at the horizontals `top` and `bottom`: what lies beyond becomes a gap. NaN is a gap.
AxisPoints cut_lines(const AxisPoints& points, double top, double bottom);
// At most about `most` points: of each group of neighbours the least and the greatest stay, so that spikes stay visible, and so do gaps.
AxisPoints thinned_points(const AxisPoints& points, size_t most);

}  // namespace perigee
