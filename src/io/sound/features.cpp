#include "src/io/sound/features.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace perigee {
namespace {

double mel_of(double hertz, bool htk) {
  if (htk) return 2595 * std::log10(1 + hertz / 700);
  return hertz < 1000 ? hertz * 3 / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
}
double hertz_of(double mel, bool htk) {
  if (htk) return 700 * (std::pow(10, mel / 2595) - 1);
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

// Triangles between equal distances on a mel scale. In librosa's form they are straight in hertz, in HTK's in mel.
std::vector<MelFilter> mel_filters(const FeatureOptions& options, double rate, double low, double high, bool htk_scale, bool equal_area) {
  const double first = mel_of(low, htk_scale), step = (mel_of(high, htk_scale) - first) / static_cast<double>(options.mels + 1);
  std::vector<MelFilter> filters;
  for (int64_t m = 0; m < options.mels; ++m) {
    double at[3];
    for (int i = 0; i < 3; ++i) {
      at[i] = first + step * static_cast<double>(m + i);
      if (!options.htk) at[i] = hertz_of(at[i], htk_scale);
    }
    MelFilter filter;
    for (int64_t k = 0; k < stft_bins(options.stft); ++k) {
      const double hertz = rate * static_cast<double>(k) / static_cast<double>(options.stft.fft),
                   x = options.htk ? mel_of(hertz, htk_scale) : hertz;
      double weight = std::min((x - at[0]) / (at[1] - at[0]), (at[2] - x) / (at[2] - at[1]));
      if (!(weight > 0) || (options.htk && k == 0)) continue;
      if (equal_area) weight *= 2 / (at[2] - at[0]);
      if (filter.weights.empty()) filter.first = k;
      filter.weights.push_back(static_cast<float>(weight));
    }
    // HTK passes over the first bin above a lower limit that is not 0.
    if (options.htk && low > 0 && m == 0 && !filter.weights.empty()) filter.weights[0] = 0;
    filters.push_back(std::move(filter));
  }
  return filters;
}

// DCT-II. librosa's is orthonormal; HTK's gives the first row the factor of the others and lifts from the second one on.
std::vector<float> cosine_table(const FeatureOptions& options, double lifter) {
  std::vector<float> table;
  const auto n = static_cast<double>(options.mels);
  for (int64_t k = 0; k < options.coefficients; ++k)
    for (int64_t m = 0; m < options.mels; ++m) {
      double value = std::sqrt((k == 0 && !options.htk ? 1 : 2) / n) *
                     std::cos(std::numbers::pi * static_cast<double>(k) * (static_cast<double>(m) + .5) / n);
      if (lifter > 0) value *= 1 + lifter / 2 * std::sin(std::numbers::pi * static_cast<double>(options.htk ? k : k + 1) / lifter);
      table.push_back(static_cast<float>(value));
    }
  return table;
}

// A length in the unit of the options, as steps.
int64_t steps_option(const Config& config, const char* key, double fallback_ms, double rate) {
  const bool samples = config.string("unit") == "samples";
  const double given = config.number(key, samples ? fallback_ms * rate / 1000 : fallback_ms), steps = samples ? given : given * rate / 1000;
  if (steps < 1 || steps > 32768) config.fail(key, "is out of range", std::to_string(std::llround(steps)) + " steps", "1 to 32768");
  return std::llround(steps);
}

Taper taper_named(const std::string& name) {
  return name == "hann"              ? Taper::hann
         : name == "hamming"         ? Taper::hamming
         : name == "blackman"        ? Taper::blackman
         : name == "blackman_harris" ? Taper::blackman_harris
         : name == "bartlett"        ? Taper::bartlett
                                     : Taper::none;
}

StftParams read_stft_options(const Config& config, bool htk, double rate) {
  StftParams stft;
  stft.window = steps_option(config, "window", 25, rate), stft.hop = steps_option(config, "hop", 10, rate);
  const auto least = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(stft.window, 4))));
  stft.fft = config.integer("fft", least);
  if (stft.fft < least || !std::has_single_bit(static_cast<uint64_t>(stft.fft)))
    config.fail("fft", "does not fit", std::to_string(stft.fft), "a power of two, at least the window's " + std::to_string(stft.window));
  stft.power = static_cast<int32_t>(config.integer("power")), stft.center = config.boolean("center", !htk);
  stft.reflect = stft.center && config.string("pad") == "reflect";
  stft.preemphasis = config.number("preemphasis");
  stft.taper = taper_named(config.string("taper", htk ? "hamming" : "hann")), stft.symmetric = htk;
  return stft;
}

void read_mel_options(const Config& config, double rate, FeatureOptions& options) {
  options.mels = config.integer("mels");
  const double low = config.number("low"), high = config.number("high", rate / 2);
  if (!(low < high) || high > rate / 2)
    config.fail("high", "is out of range", Json(high).dump(), "above low, at most " + Json(rate / 2).dump());
  const bool htk_scale = config.string("scale", options.htk ? "htk" : "slaney") == "htk";
  options.filters = mel_filters(options, rate, low, high, htk_scale, config.boolean("equal_area", !options.htk));
}

}  // namespace

float FeatureOptions::factor() const { return log == db ? static_cast<float>(10 / std::numbers::ln10) : 1; }

FeatureOptions read_features(const Config& config, Feature feature, double rate, const char* who_knows) {
  rate = config.number("rate", rate);
  if (!(rate > 0)) config.fail("rate", "is missing", "", std::string("steps a second") + who_knows);
  FeatureOptions options;
  options.feature = feature, options.htk = config.string("form") == "htk";
  options.stft = read_stft_options(config, options.htk, rate);
  options.floor = static_cast<float>(config.number("floor"));
  const std::string log = config.string("log", feature == Feature::spectrogram ? "none" : options.htk ? "ln" : "db");
  options.log = log == "db" ? FeatureOptions::db : log == "ln" ? FeatureOptions::ln : FeatureOptions::none;
  options.range =
      options.log == FeatureOptions::none ? 0 : static_cast<float>(config.number("range", options.log == FeatureOptions::db ? 80 : 0));
  options.deltas = config.integer("deltas"), options.delta_reach = config.integer("delta_reach");
  options.standardize = config.boolean("standardize");
  if (feature != Feature::spectrogram) read_mel_options(config, rate, options);
  if (feature == Feature::mfcc) {
    options.coefficients = config.integer("coefficients"), options.energy = config.boolean("energy");
    if (options.coefficients > options.mels)
      config.fail("coefficients", "are more than the mels", std::to_string(options.coefficients),
                  "at most " + std::to_string(options.mels));
    options.cosines = cosine_table(options, config.number("lifter"));
  }
  return options;
}

}  // namespace perigee
