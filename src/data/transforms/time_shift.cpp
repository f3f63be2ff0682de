// {"type": "time_shift", "steps": 800}: each sequence begins up to so many steps later, after zeros, or lacks as many at its beginning.
#include <algorithm>
#include <cmath>

#include "src/data/sound/sequence.h"

namespace perigee {
namespace {

class TimeShift : public SequenceTransform {
 public:
  TimeShift(const Config& config, const DataSource& source, size_t field)
      : SequenceTransform(config, source, field), most_(config.integer("steps")) {
    if (most_ >= steps_) config.fail("steps", "is out of range", std::to_string(most_), "0 to " + std::to_string(steps_ - 1));
  }

 protected:
  int64_t change(const float* in, float* out, int64_t there, Draw& draw) const override {
    // At least one step stays.
    const int64_t by = std::max(draw.integer(2 * most_ + 1) - most_, 1 - std::max<int64_t>(there, 1));
    const int64_t left = std::clamp<int64_t>(there + by, 0, steps_);
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t t = 0; t < steps_; ++t) out[row * steps_ + t] = t >= by && t < left ? in[row * steps_ + t - by] : 0;
    return left;
  }

 private:
  int64_t most_;
};

constexpr const char* kTimeShiftPositional[] = {"steps"};
constexpr Option kTimeShiftOptions[] = {{"steps", "integer", "800", "largest way, either way", {0, 8388607}}};

}  // namespace

extern const TransformDef transform_time_shift;
const TransformDef transform_time_shift{
    .type = "time_shift",
    .doc = "Moves sequences in time at random. Options: steps (800)",
    .schema = {.options = kTimeShiftOptions, .positional = kTimeShiftPositional, .common = &common_transform_schema},
    .open = open_sequence<TimeShift>,
    .random = true};

}  // namespace perigee
