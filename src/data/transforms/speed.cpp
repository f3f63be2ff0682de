// {"type": "speed", "percent": [90, 100, 110]}: recordings faster or slower, and higher or lower with that; one of these, drawn.
#include <algorithm>
#include <cmath>

#include "src/data/sound/sequence.h"
#include "src/io/sound/resample.h"

namespace perigee {
namespace {

class Speed : public SequenceTransform {
 public:
  Speed(const Config& config, const DataSource& source, size_t field) : SequenceTransform(config, source, field) {
    std::vector<int64_t> percents = config.integer_list("percent");
    if (percents.empty()) percents = {90, 100, 110};
    for (const int64_t percent : percents) {
      if (percent < 25 || percent > 400) config.fail("percent", "is out of range", std::to_string(percent), "25 to 400");
      resamplers_.emplace_back(percent, 100, config.where(), 16);
    }
  }

 protected:
  int64_t change(const float* in, float* out, int64_t there, Draw& draw) const override {
    const Resampler& resampler = resamplers_[static_cast<size_t>(draw.integer(static_cast<int64_t>(resamplers_.size())))];
    const int64_t left = std::min(steps_, resampler.output_frames(there));
    if (resampler.same()) std::copy_n(in, elements(), out);
    else
      for (int64_t row = 0; row < rows_; ++row, in += steps_, out += steps_) {
        resampler.apply({in, static_cast<size_t>(there)}, {out, static_cast<size_t>(left)});
        std::fill(out + left, out + steps_, 0.f);
      }
    return left;
  }

 private:
  std::vector<Resampler> resamplers_;
};

constexpr const char* kSpeedPositional[] = {"percent"};
constexpr Option kSpeedOptions[] = {{"percent", "list of integers", "{ 90, 100, 110 }", "speeds, of which one is drawn"}};

}  // namespace

extern const TransformDef transform_speed;
const TransformDef transform_speed{.type = "speed",
                                   .doc = "Makes recordings faster or slower at random. Options: percent ({ 90, 100, 110 })",
                                   .schema = {.options = kSpeedOptions, .positional = kSpeedPositional, .common = &common_transform_schema},
                                   .open = open_sequence<Speed>,
                                   .random = true};

}  // namespace perigee
