// Another number of steps a second.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perigee {

struct SoundLoops;

// Sample rate conversion by up / down: a sinc of `zeros` zero crossings on each side under a Kaiser window of shape `beta`, cut off at `cutoff`
// times the lower of both Nyquist rates. Polyphase, with the filter's delay taken out (as scipy.signal.resample_poly).
class Resampler {
 public:
  static constexpr int64_t kMostTaps = int64_t{1} << 22;
  Resampler() = default;
  // Error(data) with `where` when the ratio of the rates needs more than kMostTaps.
  Resampler(int64_t from, int64_t to, const std::string& where, int zeros = 32, double beta = 9, double cutoff = .95);
  bool same() const { return up_ == down_; }  // nothing is to be done
  int64_t output_frames(int64_t frames) const { return (frames * up_ + down_ - 1) / down_; }
  // Frames of the input that `frames` of the output look at.
  int64_t input_frames(int64_t frames) const { return (frames * down_ + up_ - 1) / up_ + reach_ + 1; }
  void apply(std::span<const float> in, std::span<float> out) const;

 private:
  // An output that lies so far behind an input: `count` taps from `taps` on, for the inputs from `first` places behind that one on.
  struct Phase {
    int64_t first = 0;
    size_t taps = 0;
    int64_t count = 0;
  };
  void apply_phase(const SoundLoops& loops, std::span<const float> in, std::span<float> out, int64_t first, int64_t end) const;

  int64_t up_ = 1, down_ = 1, reach_ = 0;
  std::vector<Phase> phases_;
  std::vector<float> taps_;
};

}  // namespace perigee
