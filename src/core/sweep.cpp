#include "src/core/sweep.h"

#include <algorithm>

#include "src/core/error.h"

namespace perigee {
namespace {

struct Sweep {
  std::string name;
  std::vector<std::string> values;
};

Sweep parse_sweep(const std::string& text, const std::string& where) {
  const size_t equals = text.find('=');
  Sweep sweep{.name = text.substr(0, equals), .values = {}};
  for (size_t at = equals; at < text.size();) {
    const size_t comma = std::min(text.find(',', at + 1), text.size());
    sweep.values.push_back(text.substr(at + 1, comma - at - 1));
    at = comma;
  }
  if (sweep.name.empty() || sweep.values.empty() || std::find(sweep.values.begin(), sweep.values.end(), "") != sweep.values.end())
    throw Error(ErrorKind::usage, {where, "a sweep has the form name=value,value", "", "", "for example --sweep every=1,5,50"});
  return sweep;
}

}  // namespace

std::vector<SweepPoint> sweep_points(const std::vector<std::string>& sweeps, size_t most, const std::string& option) {
  std::vector<SweepPoint> points(1);
  for (const std::string& text : sweeps) {
    const std::string where = option + " " + text;
    const Sweep sweep = parse_sweep(text, where);
    const size_t count = points.size() * sweep.values.size();
    if (count > most)
      throw Error(ErrorKind::usage, {where, "these are too many combinations", std::to_string(count), "at most " + std::to_string(most)});
    std::vector<SweepPoint> product;
    for (const SweepPoint& point : points)
      for (const std::string& value : sweep.values) {
        product.push_back(point);
        product.back().emplace_back(sweep.name, value);
      }
    points = std::move(product);
  }
  return points;
}

}  // namespace perigee
