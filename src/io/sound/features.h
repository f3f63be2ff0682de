// Features of recordings, frame by frame: the options of spectrograms, mel bands and cepstral coefficients, and their tables. The
// transforms (src/data/sound/spectrum.h) and the layers (src/nn/layers/sound.h) of these names read the same ones and give the same numbers.
#pragma once

#include <vector>

#include "kernels/ops/stft.h"
#include "src/core/config.h"

namespace perigee {

enum class Feature { spectrogram, mel, mfcc };

// A filter's weights on neighbouring bins.
struct MelFilter {
  int64_t first = 0;
  std::vector<float> weights;
};

struct FeatureOptions {
  Feature feature = Feature::mel;
  StftParams stft;
  int64_t mels = 0, coefficients = 0, deltas = 0, delta_reach = 2;
  bool htk = false, energy = false, standardize = false;
  float floor = 1e-10f, range = 80;
  enum { none, db, ln } log = none;
  std::vector<MelFilter> filters;
  std::vector<float> cosines;  // [coefficients, mels]

  // Rows of one channel, without slopes.
  int64_t features() const { return feature == Feature::spectrogram ? stft_bins(stft) : feature == Feature::mel ? mels : coefficients; }
  float factor() const;  // that natural logarithms are multiplied by
};

// `rate`: the steps a second where the options do not say; 0: not known. `who_knows` goes into the error of a rate that is missing.
FeatureOptions read_features(const Config& config, Feature feature, double rate, const char* who_knows);

inline constexpr Option kFeatureOptions[] = {
    {"window", "number", "25", "length of a frame", {1e-3, 1e6}},
    {"hop", "number", "10", "from the beginning of a frame to that of the next", {1e-3, 1e6}},
    {"unit", "name", "ms", "of window and hop", {}, {"ms", "samples"}},
    {"form", "name", "librosa", "whose definitions the defaults follow", {}, {"librosa", "htk"}},
    {"fft", "integer", "a power of two that holds the window", "size of the Fourier transform", {4, 32768}},
    {"taper",
     "name",
     "hann, of form htk hamming",
     "what a frame is multiplied by",
     {},
     {"hann", "hamming", "blackman", "blackman_harris", "bartlett", "none"}},
    {"center", "boolean", "true, of form htk false", "frame t has its middle at t * hop"},
    {"pad", "name", "zeros", "what stands around the recording with center", {}, {"zeros", "reflect"}},
    {"preemphasis", "number", "0", "so much of the sample before is taken off, within a frame", {0, 1}},
    {"power", "integer", "2", "1: magnitude; 2: power", {1, 2}},
    {"log", "name", "db, of form htk ln, of spectrogram none", "the logarithm that is taken", {}, {"none", "db", "ln"}},
    {"floor", "number", "1e-10", "what is less counts as this, before the logarithm", {1e-30, 1e30}},
    {"range", "number", "80 for db, else 0", "what is more than this below the greatest counts as that; 0: all counts", {0, 1e6}},
    {"deltas", "integer", "0", "1: also slopes; 2: also second ones", {0, 2}},
    {"delta_reach", "integer", "2", "frames on each side that a slope looks at", {1, 100}},
    {"standardize", "boolean", "false", "each feature has mean 0 and deviation 1 in each recording"}};

inline constexpr Option kMelOptions[] = {{"mels", "integer", "40", "number of filters", {1, 1024}},
                                         {"low", "number", "0", "least frequency, in hertz", {0, 1e6}},
                                         {"high", "number", "half the rate", "greatest frequency, in hertz", {0, 1e6}},
                                         {"scale", "name", "slaney, of form htk htk", "the mel scale", {}, {"slaney", "htk"}},
                                         {"equal_area", "boolean", "true, of form htk false", "filters have area 1 instead of height 1"}};

inline constexpr const char* kMfccPositional[] = {"coefficients"};
inline constexpr Option kMfccOptions[] = {{"coefficients", "integer", "13", "how many, from c0 on", {1, 1024}},
                                          {"energy", "boolean", "false", "the first one is the logarithm of the frame's energy"},
                                          {"lifter", "number", "0", "lifts high coefficients; 0: does not", {0, 1000}}};

}  // namespace perigee
