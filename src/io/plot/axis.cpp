#include "src/io/plot/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace perigee {
namespace {

constexpr double kDecades = 2;            // beyond it an axis that is fitted is logarithmic
constexpr double kCrowded = .05;          // of the axis, which holds half of the values
constexpr size_t kFewestToCut = 8;        // values, to tell one that lies far out
constexpr double kTrimmed = .05;          // of the values at each end, at least one: the rest is the body
constexpr double kFar = 8, kFarLog = 20;  // bodies that all values must span before some of them are left outside

bool is_place(const std::pair<double, double>& point) { return std::isfinite(point.first) && std::isfinite(point.second); }

size_t trimmed(size_t values) { return std::max<size_t>(1, static_cast<size_t>(kTrimmed * static_cast<double>(values))); }

// Whether half of the values, which ascend, lie on a small part of a linear axis, and not for a few that are far away: a loss that falls
// from 60,000 to 900.
bool is_crowded(const std::vector<double>& values) {
  if (values.size() < kFewestToCut) return false;
  const size_t trim = trimmed(values.size());
  const double low = values[trim], high = values[values.size() - 1 - trim];
  return high > 10 * low && values[values.size() / 2] - low < kCrowded * (high - low);
}

// Steps of 1, 2 or 5 times a power of ten, about five of them.
std::vector<double> linear_ticks(double low, double high) {
  const double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = rough / power < 1.5 ? power : rough / power < 3.5 ? 2 * power : rough / power < 7.5 ? 5 * power : 10 * power;
  std::vector<double> out;
  for (int i = 0; i < 12; ++i) {
    const double tick = (std::ceil(low / step - 1e-9) + i) * step;
    if (tick > high + step * 1e-9) break;
    out.push_back(std::fabs(tick) < step * 1e-9 ? 0 : tick);
  }
  return out;
}

// Powers of ten; with 2 and 5 times them where there are few. The limits are logarithms.
std::vector<double> log_ticks(double low, double high) {
  if (high - low < 1) return linear_ticks(std::pow(10, low), std::pow(10, high));
  const int every = std::max(1, static_cast<int>((high - low) / 6));
  const std::vector<double> factors = high - low < 2.5 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  std::vector<double> out;
  for (int power = static_cast<int>(std::floor(low)); power <= high; ++power)
    for (const double factor : factors) {
      const double tick = factor * std::pow(10, power), at = std::log10(tick);
      if (power % every == 0 && at >= low - 1e-9 && at <= high + 1e-9) out.push_back(tick);
    }
  return out;
}

}  // namespace

std::string axis_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

double Axis::place(double value) const { return !log_ ? value : value > 0 ? std::log10(value) : NAN; }
double Axis::value_at(double place) const { return log_ ? std::pow(10, place) : place; }
double Axis::pixel(double value) const { return from_ + (place(value) - low_) / (high_ - low_) * (to_ - from_); }
std::vector<double> Axis::ticks() const { return log_ ? log_ticks(low_, high_) : linear_ticks(low_, high_); }

void Axis::set_limits(double low, double high) {
  log_ = false, outside_ = 0;
  low_ = low, high_ = high;
}

void Axis::fit(std::vector<double> values, AxisScale scale) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  std::sort(values.begin(), values.end());
  const bool positive = !values.empty() && values.front() > 0;
  log_ = scale == AxisScale::log ||
         (scale == AxisScale::fitted && positive && (values.back() > values.front() * std::pow(10, kDecades) || is_crowded(values)));
  if (log_) std::erase_if(values, [](double value) { return value <= 0; });
  values_ = values.size(), outside_ = 0;
  if (values.empty()) {
    low_ = 0, high_ = 1;
    return;
  }
  least_ = values.front(), greatest_ = values.back();
  low_ = place(least_), high_ = place(greatest_);
  if (scale == AxisScale::fitted && values.size() >= kFewestToCut) {
    const size_t trim = trimmed(values.size());
    const double body_low = place(values[trim]), body_high = place(values[values.size() - 1 - trim]), body = body_high - body_low;
    if (body > 0 && high_ - low_ > (log_ ? kFarLog : kFar) * body)
      low_ = std::max(low_, body_low - body), high_ = std::min(high_, body_high + body);
  }
  const double low = low_, high = high_;
  const auto is_outside = [&](double value) { return place(value) < low || place(value) > high; };
  outside_ = static_cast<size_t>(std::count_if(values.begin(), values.end(), is_outside));
  if (low_ == high_) {
    const double room = log_ ? .3 : low_ == 0 ? .5 : std::fabs(low_) * .05;  // of a constant, such as a learning rate of 0.001
    low_ -= room, high_ += room;
  }
}

std::string Axis::note() const {
  std::string text = log_ ? "log axis" : "";
  if (outside_ == 0) return text;
  text += (text.empty() ? "" : ", ") + std::to_string(outside_) + " of " + std::to_string(values_) +
          (outside_ == 1 ? " values lies" : " values lie") + " outside, ";
  const bool above = place(greatest_) > high_, below = place(least_) < low_;
  if (above) text += "the greatest is " + axis_number(greatest_);
  if (below) text += std::string(above ? ", " : "") + "the least is " + axis_number(least_);
  return text;
}

AxisPoints cut_lines(const AxisPoints& points, double top, double bottom) {
  AxisPoints out;
  const auto inside = [&](const auto& point) { return is_place(point) && point.second >= top && point.second <= bottom; };
  const auto gap = [&] {
    if (!out.empty() && is_place(out.back())) out.emplace_back(out.back().first, NAN);
  };
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& here = points[i];
    if (i > 0 && is_place(points[i - 1]) && is_place(here) && !(inside(points[i - 1]) && inside(here))) {
      const auto& before = points[i - 1];
      std::vector<double> shares;  // of the way where the line crosses a border
      for (const double border : {top, bottom})
        if ((before.second - border) * (here.second - border) < 0)
          shares.push_back((border - before.second) / (here.second - before.second));
      std::sort(shares.begin(), shares.end());
      for (const double share : shares) {
        out.emplace_back(before.first + share * (here.first - before.first),
                         std::clamp(before.second + share * (here.second - before.second), top, bottom));
      }
    }
    if (inside(here)) out.push_back(here);
    else gap();
  }
  return out;
}

AxisPoints thinned_points(const AxisPoints& points, size_t most) {
  if (points.size() <= most) return points;
  AxisPoints out;
  const size_t group = (points.size() + most / 2 - 1) / (most / 2);
  for (size_t begin = 0; begin < points.size(); begin += group) {
    const size_t none = points.size(), end = std::min(begin + group, points.size());
    size_t kept[3] = {none, none, none};  // the least, the greatest, the first gap
    for (size_t i = begin; i < end; ++i) {
      if (!is_place(points[i])) {
        kept[2] = std::min(kept[2], i);
        continue;
      }
      if (kept[0] == none || points[i].second < points[kept[0]].second) kept[0] = i;
      if (kept[1] == none || points[i].second > points[kept[1]].second) kept[1] = i;
    }
    std::sort(kept, kept + 3);
    for (size_t k = 0; k < 3; ++k)
      if (kept[k] != none && (k == 0 || kept[k] != kept[k - 1])) out.push_back(points[kept[k]]);
  }
  return out;
}

}  // namespace perigee
