#include "src/data/sound/spectrum.h"

#include <algorithm>
#include <cmath>

#include "kernels/sound_frames.h"
#include "src/core/host_isa.h"
#include "src/data/sound/rated.h"

namespace perigee {
namespace {

constexpr int64_t kLanes = kSoundLanes;

class Spectrum : public Transform {
 public:
  Spectrum(const Field& field, FeatureOptions options)
      : field_(field),
        options_(std::move(options)),
        steps_(field.shape[1]),
        loops_(sound_loops(host_isa())),
        tables_(SoundFrames::table_bytes(options_.stft)),
        transforms_(options_.stft, loops_, tables_.data()) {
    frames_ = stft_frames(options_.stft, steps_);
    field_.shape = {field.shape[0] * options_.features() * (1 + options_.deltas), frames_};
  }
  Field output() const override { return field_; }
  bool draws() const override { return false; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    int64_t all = -1;
    apply_steps(in, out, &all, draw);
  }

  void apply_steps(const std::byte* in, std::byte* out, int64_t* steps, Draw&) const override {
    const int64_t there = *steps < 0 ? steps_ : std::min(*steps, steps_), frames = stft_frames(options_.stft, there);
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    if (frames < frames_) std::fill(to, to + field_.shape.elements(), 0.f);
    const int64_t rows = options_.features(), all = rows * (1 + options_.deltas);
    const bool cepstra = options_.feature == Feature::mfcc;
    const Scratch scratch(cepstra ? static_cast<size_t>((options_.mels + 1) * frames_) * sizeof(float) : 1);
    for (int64_t channel = 0; channel < field_.shape[0] / all; ++channel, from += steps_, to += all * frames_) {
      float* work = cepstra ? reinterpret_cast<float*>(scratch.data()) : to;
      for (int64_t first = 0; first < frames; first += kLanes) block(from, there, first, std::min<int64_t>(kLanes, frames - first), work);
      take_logarithm(work, cepstra ? options_.mels : rows, frames);
      if (cepstra) loops_.combine(options_.cosines.data(), options_.coefficients, options_.mels, work, frames_, frames, to);
      if (options_.energy) energies(from, there, frames, work + options_.mels * frames_, to);
      for (int64_t row = 0; row < options_.deltas * rows; ++row) {
        const int64_t order = 1 + row / rows;
        delta(to, row, row - (order - 1) * rows, frames, order, to + (row + rows) * frames_);
      }
      if (options_.standardize)
        for (int64_t row = 0; row < all; ++row) standardize(to + row * frames_, frames);
    }
    if (*steps >= 0) *steps = frames;
  }

 private:
  // Frames `first` on, `count` of them, as columns of power or of mels.
  void block(const float* from, int64_t there, int64_t first, int64_t count, float* to) const {
    const int64_t bins = stft_bins(options_.stft);
    const size_t work = SoundFrames::scratch_floats(options_.stft);
    const Scratch scratch((work + static_cast<size_t>(bins * kLanes)) * sizeof(float));
    float *z = reinterpret_cast<float*>(scratch.data()), *power = z + work;
    transforms_.power(from, there, first, count, z, power);
    if (options_.stft.power == 1)
      for (int64_t i = 0; i < bins * kLanes; ++i) power[i] = std::sqrt(power[i]);
    if (options_.feature == Feature::spectrogram)
      for (int64_t k = 0; k < bins; ++k) std::copy_n(power + k * kLanes, count, to + k * frames_ + first);
    int64_t row = 0;
    for (const MelFilter& filter : options_.filters) {
      float sum[kLanes];
      loops_.weigh(filter.weights.data(), static_cast<int64_t>(filter.weights.size()), power + filter.first * kLanes, sum);
      std::copy_n(sum, count, to + row++ * frames_ + first);
    }
  }

  // The first coefficients become the logarithms of the frames' energies before emphasis and taper.
  void energies(const float* from, int64_t there, int64_t frames, float* values, float* to) const {
    const Scratch scratch(static_cast<size_t>(options_.stft.window) * sizeof(float));
    for (int64_t t = 0; t < frames; ++t) {
      const float* samples = transforms_.frame(from, there, t, reinterpret_cast<float*>(scratch.data()), 0);
      values[t] = loops_.dot(samples, samples, options_.stft.window);
    }
    loops_.logarithm(values, frames, options_.factor(), options_.floor);
    std::copy_n(values, frames, to);
  }

  void take_logarithm(float* values, int64_t rows, int64_t frames) const {
    if (options_.log == FeatureOptions::none) return;
    float highest = -1e30f;
    for (int64_t row = 0; row < rows; ++row)
      highest = std::max(highest, loops_.logarithm(values + row * frames_, frames, options_.factor(), options_.floor));
    if (options_.range <= 0) return;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t t = 0; t < frames; ++t) values[row * frames_ + t] = std::max(values[row * frames_ + t], highest - options_.range);
  }

  // HTK takes the slope of the line through the values around each, those at the ends repeated; and slopes of slopes. librosa (scipy's
  // savgol_filter) takes the slope, or the second derivative, of a polynomial through them; at the ends that of the outermost whole window.
  void delta(const float* rows, int64_t before, int64_t first, int64_t frames, int64_t order, float* out) const {
    const int64_t reach = options_.delta_reach;
    const bool repeat = options_.htk || frames < 2 * reach + 1;
    const float* in = rows + (repeat ? before : first) * frames_;
    const auto square = [](int64_t d) { return static_cast<double>(d * d); };
    double squares = 0, norm = 0;
    for (int64_t d = -reach; d <= reach; ++d) squares += square(d);
    const bool second = order == 2 && !repeat;
    const double mean = squares / static_cast<double>(2 * reach + 1);
    for (int64_t d = -reach; d <= reach; ++d) norm += second ? .5 * (square(d) - mean) * (square(d) - mean) : square(d);
    for (int64_t t = 0; t < frames; ++t) {
      const int64_t middle = repeat ? t : std::clamp(t, reach, frames - 1 - reach);
      double sum = 0;
      for (int64_t d = -reach; d <= reach; ++d)
        sum += (second ? square(d) - mean : static_cast<double>(d)) * in[std::clamp<int64_t>(middle + d, 0, frames - 1)];
      out[t] = static_cast<float>(sum / norm);
    }
  }

  static void standardize(float* row, int64_t frames) {
    double sum = 0, squares = 0;
    for (int64_t t = 0; t < frames; ++t) sum += row[t];
    const double mean = sum / static_cast<double>(std::max<int64_t>(frames, 1));
    for (int64_t t = 0; t < frames; ++t) squares += (row[t] - mean) * (row[t] - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(std::max<int64_t>(frames, 1)));
    for (int64_t t = 0; t < frames; ++t) row[t] = static_cast<float>((row[t] - mean) / (deviation > 1e-6 ? deviation : 1));
  }

  Field field_;
  FeatureOptions options_;
  int64_t steps_, frames_ = 0;
  const SoundLoops& loops_;
  std::vector<std::byte> tables_;
  SoundFrames transforms_;
};

}  // namespace

std::unique_ptr<Transform> open_spectrum(const Config& config, const DataSource& source, size_t field, Feature feature) {
  const Field& input = source.fields()[field];
  if (input.dtype != Dtype::f32 || input.shape.rank() != 2 || input.shape.elements() == 0)
    throw Error(ErrorKind::data, {.where = config.where(),
                                  .what = "field '" + input.name + "' is no recording",
                                  .got = Type{input.dtype, input.shape}.text(),
                                  .expected = "f32 of channels x steps"});
  return std::make_unique<Spectrum>(input, read_features(config, feature, rate_of(source), "; the source 'audio' knows it"));
}

constexpr Option kRateOptions[] = {{"rate", "number", "the source's", "steps a second", {1, 1e6}}};
constexpr Schema kRateSchema{.options = kRateOptions, .common = &common_transform_schema};
const Schema spectrum_schema{.options = kFeatureOptions, .common = &kRateSchema};
const Schema mel_schema{.options = kMelOptions, .common = &spectrum_schema};

}  // namespace perigee
