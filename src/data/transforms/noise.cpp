// {"type": "noise", "least": 10, "most": 40}: white noise at a signal-to-noise ratio between these decibels.
#include <algorithm>
#include <cmath>

#include "src/data/sound/sequence.h"

namespace perigee {
namespace {

class Noise : public SequenceTransform {
 public:
  Noise(const Config& config, const DataSource& source, size_t field)
      : SequenceTransform(config, source, field),
        least_(static_cast<float>(config.number("least"))),
        most_(static_cast<float>(config.number("most"))) {
    if (most_ < least_) config.fail("most", "is less than 'least'");
  }

 protected:
  int64_t change(const float* in, float* out, int64_t there, Draw& draw) const override {
    double power = 0;
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t t = 0; t < there; ++t) power += in[row * steps_ + t] * in[row * steps_ + t];
    const double mean = power / static_cast<double>(std::max<int64_t>(1, rows_ * there));
    const float deviation = static_cast<float>(std::sqrt(mean)) * std::pow(10.f, -draw.between(least_, most_) / 20);
    std::copy_n(in, elements(), out);
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t t = 0; t < there; t += 2) {  // Box and Muller's pair
        const float radius = deviation * std::sqrt(-2 * std::log(1 - draw.uniform())), angle = 6.2831853f * draw.uniform();
        out[row * steps_ + t] += radius * std::cos(angle);
        if (t + 1 < there) out[row * steps_ + t + 1] += radius * std::sin(angle);
      }
    return there;
  }

 private:
  float least_, most_;
};

constexpr const char* kNoisePositional[] = {"least"};
constexpr Option kNoiseOptions[] = {{"least", "number", "10", "least ratio of the signal to the noise, in decibels", {-100, 200}},
                                    {"most", "number", "40", "greatest ratio", {-100, 200}}};

}  // namespace

extern const TransformDef transform_noise;
const TransformDef transform_noise{
    .type = "noise",
    .doc = "Adds white noise to recordings at random. Options: least (10), most (40): signal-to-noise ratio in decibels",
    .schema = {.options = kNoiseOptions, .positional = kNoisePositional, .common = &common_transform_schema},
    .open = open_sequence<Noise>,
    .random = true};

}  // namespace perigee
