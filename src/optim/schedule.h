// A number that changes while training runs: learning rates, momenta, decays. A pure function of progress, so that it is the
// same on any number of workers and after any resume. One file in schedules/ defines one kind.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/core/config.h"

namespace perigee {

// Where a run stands before a step.
struct StepProgress {
  double progress = 0;  // examples committed / examples planned, 0 to 1; 0 when nothing is planned (an endless run)
  double epoch = 0;     // examples committed / examples of an epoch: 1.5 is the middle of the second epoch
  int64_t step = 0;     // steps made so far
  int64_t skipped = 0;  // of them, those that changed nothing: a rule counts the others
};

// The shape of a schedule, as one file in schedules/ makes it.
class Curve {
 public:
  virtual ~Curve() = default;
  virtual double at(const StepProgress& now) const = 0;
};

struct ScheduleDef {
  const char* name = nullptr;     // "cosine"
  const char* doc = nullptr;      // one sentence with the formula
  const char* example = nullptr;  // a worked example, as JSON
  Schema schema = {};
  // Reads the options, which the schema has checked; Error(model).
  std::unique_ptr<Curve> (*read)(const Config& options) = nullptr;
};

std::span<const ScheduleDef* const> all_schedules();

class Schedule {
 public:
  Schedule(double value = 0);  // a number is a fixed schedule
  // A number, or {"type": "cosine", "from": 2e-3, "to": 0, "warmup": 0.05}. `where` begins error paths. Error(model) with the nearest
  // known name.
  Schedule(const Json& description, const std::string& where);
  // The option `key` of `options`, or `fallback`.
  static Schedule option(const Config& options, std::string_view key, double fallback);
  static Schedule required(const Config& options, std::string_view key);

  double at(const StepProgress& now) const { return curve_ ? curve_->at(now) : value_; }
  bool fixed() const { return curve_ == nullptr; }

 private:
  double value_ = 0;
  std::shared_ptr<const Curve> curve_;
};

// For schedules over time: how far `now` is in the unit that the option "by" names: "epoch" (whole epochs), "step" or
// "progress".
class Clockwork {
 public:
  explicit Clockwork(const Config& options);
  double at(const StepProgress& now) const;

 private:
  enum class Unit { epoch, step, progress } unit_;
};

}  // namespace perigee
