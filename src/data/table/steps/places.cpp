#include "src/data/table/steps/places.h"

#include <charconv>
#include <cmath>
#include <numbers>

namespace perigee::tables {
namespace {

constexpr double kDegree = std::numbers::pi / 180;

std::string shortest(double x) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

}  // namespace

bool PlaceMean::add(std::string_view text) {
  const auto number = [&](double& value) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(result.ptr - text.data()));
    return true;
  };
  double latitude = 0, longitude = 0;
  if (!number(latitude)) return false;
  const std::string_view rest = text;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!text.empty() && (text[0] == ',' || text[0] == ';' || text[0] == ':')) text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view between = rest.substr(0, rest.size() - text.size());
  if (between.empty() || !number(longitude) || text.find_first_not_of(' ') != text.npos) return false;
  if (!(std::abs(latitude) <= 90) || !(std::abs(longitude) <= 360)) return false;
  const double across = std::cos(latitude * kDegree);
  x_ += across * std::cos(longitude * kDegree);
  y_ += across * std::sin(longitude * kDegree);
  z_ += std::sin(latitude * kDegree);
  if (count_++ == 0) between_ = between;
  return true;
}

std::string PlaceMean::result() const {
  const double length = std::sqrt(x_ * x_ + y_ * y_ + z_ * z_);
  // Opposite places leave what rounding does.
  if (count_ == 0 || length <= 1e-12 * static_cast<double>(count_)) return "";
  return shortest(std::atan2(z_, std::hypot(x_, y_)) / kDegree) + between_ + shortest(std::atan2(y_, x_) / kDegree);
}

}  // namespace perigee::tables
