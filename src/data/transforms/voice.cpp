// {"type": "voice", "decibels": 40}: of each recording what is no silence: from its first to its last loud frame, or all loud frames together.
#include <algorithm>
#include <cmath>

#include "src/data/sound/rated.h"
#include "src/data/sound/sequence.h"

namespace perigee {
namespace {

// A frame is loud when its mean power is at most so far below that of the loudest one; so are those near it.
class Voice : public SequenceTransform {
 public:
  Voice(const Config& config, const DataSource& source, size_t field)
      : SequenceTransform(config, source, field),
        share_(static_cast<float>(std::pow(10, -config.number("decibels") / 10))),
        pauses_(config.boolean("pauses")) {
    const double rate = config.number("rate", rate_of(source));
    if (!(rate > 0)) config.fail("rate", "is missing", "", "steps a second; the source 'audio' knows it");
    frame_ = std::clamp<int64_t>(std::llround(config.number("frame") * rate / 1000), 1, steps_);
    margin_ = std::llround(config.number("margin") * rate / 1000 / static_cast<double>(frame_));
  }
  bool draws() const override { return false; }

 protected:
  int64_t change(const float* in, float* out, int64_t there, Draw&) const override {
    const int64_t frames = (there + frame_ - 1) / frame_;
    const Scratch scratch(static_cast<size_t>(frames + 1) * sizeof(float));
    auto* power = reinterpret_cast<float*>(scratch.data());
    for (int64_t k = 0; k < frames; ++k) power[k] = power_of(in, k * frame_, std::min(there, (k + 1) * frame_));
    const float least = share_ * (frames > 0 ? *std::max_element(power, power + frames) : 0);
    int64_t left = 0, seen = 0, first = -1, last = 0;  // seen: frames before it are in `out`, or are left out
    for (int64_t k = 0; k < frames; ++k) {
      if (power[k] < least) continue;
      if (first < 0) first = std::max<int64_t>(0, k - margin_);
      if (!pauses_) left = copy(in, std::max(seen, k - margin_) * frame_, std::min(there, (k + margin_ + 1) * frame_), out, left);
      seen = std::min(frames, k + margin_ + 1), last = seen;
    }
    if (pauses_ && first >= 0) left = copy(in, first * frame_, std::min(there, last * frame_), out, 0);
    for (int64_t row = 0; row < rows_; ++row) std::fill(out + row * steps_ + left, out + (row + 1) * steps_, 0.f);
    return left;
  }

 private:
  float power_of(const float* in, int64_t begin, int64_t end) const {
    double sum = 0;
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t t = begin; t < end; ++t) sum += in[row * steps_ + t] * in[row * steps_ + t];
    return static_cast<float>(sum / static_cast<double>(end - begin));
  }

  // Appends the steps to the `left` ones that are there; returns how many there are then.
  int64_t copy(const float* in, int64_t begin, int64_t end, float* out, int64_t left) const {
    if (end <= begin) return left;
    for (int64_t row = 0; row < rows_; ++row) std::copy(in + row * steps_ + begin, in + row * steps_ + end, out + row * steps_ + left);
    return left + end - begin;
  }

  float share_;
  bool pauses_;
  int64_t frame_ = 1, margin_ = 0;
};

constexpr const char* kVoicePositional[] = {"decibels"};
constexpr Option kVoiceOptions[] = {{"decibels", "number", "40", "a frame this far below the loudest one is silence", {0, 200}},
                                    {"frame", "number", "10", "length of a frame, in milliseconds", {1e-3, 1e6}},
                                    {"margin", "number", "30", "what is kept around loud frames, in milliseconds", {0, 1e6}},
                                    {"pauses", "boolean", "true", "pauses between loud frames are kept"},
                                    {"rate", "number", "the source's", "steps a second", {1, 1e6}}};

}  // namespace

extern const TransformDef transform_voice;
const TransformDef transform_voice{.type = "voice",
                                   .doc =
                                       "Keeps of recordings what is no silence. Options: decibels (40 below the loudest frame), frame (10 "
                                       "ms), margin (30 ms), pauses (true)",
                                   .schema = {.options = kVoiceOptions, .positional = kVoicePositional, .common = &common_transform_schema},
                                   .open = open_sequence<Voice>};

}  // namespace perigee
