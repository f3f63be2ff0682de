#include <algorithm>
#include <charconv>
#include <vector>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Map : Curve {
  explicit Map(const Config& options) : clock(options) {
    const Config values = options.object("values");
    for (const auto& [key, value] : values.json().as_object()) {
      double t = 0;
      const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), t);
      if (status != std::errc() || end != key.data() + key.size()) values.fail(key, "is not a time", key, "a number of epochs or steps");
      points.emplace_back(t, values.number(key));
    }
    std::sort(points.begin(), points.end());
    if (points.empty() || points.front().first > 0) options.fail("values", "has no value to begin with", "", "a value for time 0");
  }
  double at(const StepProgress& now) const override {
    const double t = clock.at(now);
    double value = points.front().second;
    for (const auto& [start, next] : points)
      if (start <= t) value = next;
    return value;
  }
  std::vector<std::pair<double, double>> points;
  Clockwork clock;
};

constexpr Option kMapScheduleOptions[] = {{"values", "{name: number, ...}", nullptr, "value from each time on; time 0 must be there"},
                                          {"by", "name", "epoch", "unit of time", {}, {"epoch", "step", "progress"}}};

}  // namespace

extern const ScheduleDef schedule_map;
const ScheduleDef schedule_map{
    .name = "map",
    .doc = "`values` holds what is in force from each time on, in units of `by` (epoch, step or progress); time 0 must be there.",
    .example = R"({"type": "map", "values": {"0": 0.01, "10": 0.001}})",
    .schema = {.options = kMapScheduleOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Map>(options); },
};

}  // namespace perigee
