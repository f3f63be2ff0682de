#include "src/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/optim/run_end.h"

namespace perigee {
namespace {

const ScheduleDef& schedule_named(const Config& options) {
  std::vector<std::string> names;
  for (const ScheduleDef* def : all_schedules()) names.emplace_back(def->name);
  if (!options.has("type")) options.fail("type", "is missing", "", "the kind of schedule", "for example \"cosine\"");
  const std::string name = options.choice("type", "", names);
  for (const ScheduleDef* def : all_schedules())
    if (name == def->name) return *def;
  return *all_schedules()[0];  // not reached: choice() refuses unknown names
}

}  // namespace

Schedule::Schedule(double value) : value_(value) {}

Schedule::Schedule(const Json& description, const std::string& where) {
  if (description.is_number()) {
    value_ = description.as_number();
    return;
  }
  if (!description.is_object()) {
    throw Error(ErrorKind::model, {.where = where,
                                   .what = "this must be a number or a schedule",
                                   .got = description.dump(),
                                   .expected = R"(for example 0.001 or {"type": "cosine", "from": 0.001})"});
  }
  const Config options(description, where);
  const ScheduleDef& def = schedule_named(options);
  curve_ = def.read(options.with(def.schema));
}

Schedule Schedule::option(const Config& options, std::string_view key, double fallback) {
  return options.has(key) ? required(options, key) : Schedule(fallback);
}

Schedule Schedule::required(const Config& options, std::string_view key) {
  if (!options.has(key)) options.fail(key, "is missing", "", "a number or a schedule");
  return Schedule(*options.raw(key), options.where() + ": " + std::string(key));
}

double at_run_end(const Json& schedule, const std::string& where) {
  return std::max(0.0, Schedule(schedule, where).at({.progress = 1, .epoch = 1e6, .step = 1'000'000'000}));
}

Clockwork::Clockwork(const Config& options) {
  const std::string unit = options.choice("by");
  unit_ = unit == "epoch" ? Unit::epoch : unit == "step" ? Unit::step : Unit::progress;
}

double Clockwork::at(const StepProgress& now) const {
  switch (unit_) {
    case Unit::epoch: return std::floor(now.epoch);
    case Unit::step: return static_cast<double>(now.step);
    case Unit::progress: return now.progress;
  }
  return 0;
}

}  // namespace perigee
