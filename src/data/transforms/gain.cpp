// {"type": "gain", "decibels": 6}: each recording louder or softer by up to so much.
#include <algorithm>
#include <cmath>

#include "src/data/sound/sequence.h"

namespace perigee {
namespace {

class Gain : public SequenceTransform {
 public:
  Gain(const Config& config, const DataSource& source, size_t field)
      : SequenceTransform(config, source, field), decibels_(static_cast<float>(config.number("decibels"))) {}

 protected:
  int64_t change(const float* in, float* out, int64_t there, Draw& draw) const override {
    const float factor = std::pow(10.f, draw.between(-decibels_, decibels_) / 20);
    for (int64_t i = 0; i < elements(); ++i) out[i] = factor * in[i];
    return there;
  }

 private:
  float decibels_;
};

constexpr const char* kGainPositional[] = {"decibels"};
constexpr Option kGainOptions[] = {{"decibels", "number", "6", "largest change", {0, 100}}};

}  // namespace

extern const TransformDef transform_gain;
const TransformDef transform_gain{.type = "gain",
                                  .doc = "Makes recordings louder or softer at random. Options: decibels (6)",
                                  .schema = {.options = kGainOptions, .positional = kGainPositional, .common = &common_transform_schema},
                                  .open = open_sequence<Gain>,
                                  .random = true};

}  // namespace perigee
