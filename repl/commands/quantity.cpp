#include "repl/commands/quantity.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>
#include <vector>

#include "repl/display/display.h"
#include "src/core/error.h"

namespace perigee {
namespace {

struct Unit {
  const char* name;
  double factor;
};

constexpr Unit kBandwidths[] = {{"bit", 1},      {"kbit", 1e3},   {"Mbit", 1e6},   {"Gbit", 1e9},   {"Tbit", 1e12},
                                {"B/s", 8},      {"kB/s", 8e3},   {"MB/s", 8e6},   {"GB/s", 8e9},   {"bit/s", 1},
                                {"kbit/s", 1e3}, {"Mbit/s", 1e6}, {"Gbit/s", 1e9}, {"Tbit/s", 1e12}};
constexpr Unit kDurations[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};

double parse(const std::string& text, const std::string& option, std::span<const Unit> units, const char* example) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string unit(end, text.data() + text.size());
  if (status != std::errc() || !std::isfinite(number) || number < 0)
    throw Error(ErrorKind::usage, {option, "this is no number with a unit", "'" + text + "'", example});
  for (const Unit& known : units)
    if (unit == known.name) return number * known.factor;
  std::vector<std::string> names;
  for (const Unit& known : units) names.emplace_back(known.name);
  throw Error(ErrorKind::usage, {option, unit.empty() ? "the unit is missing" : "there is no unit '" + unit + "' here", "'" + text + "'",
                                 example, unit == "m" ? "minutes are 'min'" : nearest_hint(unit, names)});
}

std::string quantity_scaled(double value, std::span<const char* const> units) {
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < units.size()) value /= 1000, ++unit;
  char text[48];
  std::snprintf(text, sizeof text, value == std::floor(value) ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

}  // namespace

double parse_bandwidth(const std::string& text, const std::string& option) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  const double bits = parse(text, option, kBandwidths, "a number with a unit, such as 100Mbit, 1Gbit/s, 10MB/s, or inf");
  if (bits < 1) throw Error(ErrorKind::usage, {option, "nothing would ever arrive", "'" + text + "'", "more than nothing, such as 1Mbit"});
  return bits;
}

double parse_duration(const std::string& text, const std::string& option) {
  return parse(text, option, kDurations, "a number with a unit, such as 200us, 2ms, 30s, 15min, 1h, 2d");
}

std::string bandwidth_text(double bits_per_s) {
  static constexpr const char* kUnits[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
  return std::isinf(bits_per_s) ? "unlimited bandwidth" : quantity_scaled(bits_per_s, kUnits);
}

std::string span_text(double seconds) {
  if (seconds >= 120) return duration_text(seconds);
  static constexpr const char* kUnits[] = {"us", "ms", "s"};
  char text[32];
  if (seconds >= 0.9995) std::snprintf(text, sizeof text, "%.1f s", seconds);
  return seconds >= 0.9995 ? text : quantity_scaled(seconds * 1e6, kUnits);
}

std::string amount_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  return quantity_scaled(std::floor(bytes), kUnits);
}

}  // namespace perigee
