#include "src/data/sound/spectrum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "kernels/sound_loops.h"
#include "src/core/host_isa.h"
#include "src/data/sound/rated.h"

namespace perigee {
namespace {

constexpr int64_t kLanes = kSoundLanes;
constexpr double kPi = std::numbers::pi;

struct Options {
  Feature feature = Feature::mel;
  int64_t window = 0, hop = 0, fft = 0, mels = 0, coefficients = 0, deltas = 0, delta_reach = 2, power = 2;
  bool center = true, reflect = false, htk = false, energy = false, utterance = false;
  float preemphasis = 0, floor = 1e-10f, range = 80;
  enum { none, db, ln } log = none;

  int64_t bins() const { return fft / 2 + 1; }
  int64_t features() const { return feature == Feature::spectrogram ? bins() : feature == Feature::mel ? mels : coefficients; }
  int64_t frames(int64_t steps) const { return center ? 1 + steps / hop : steps < window ? 1 : 1 + (steps - window) / hop; }
};

// A filter's weights on neighbouring bins.
struct Filter {
  int64_t first = 0;
  std::vector<float> weights;
};

// Tables of transforms of real numbers of size 2^k: as complex ones of half the size.
struct Fourier {
  explicit Fourier(int64_t size) : half(size / 2) {
    for (int64_t i = 0; i < size; ++i) {
      int64_t reversed = 0;
      for (int64_t bit = 1; bit < half; bit *= 2) reversed = 2 * reversed + ((i / 2 & bit) != 0);
      places.push_back(static_cast<int32_t>(2 * reversed + i % 2));
    }
    for (int64_t k = 0; k < half * 3 / 2; ++k) {
      const double angle = -kPi * static_cast<double>(k) / static_cast<double>(half);
      cosine.push_back(static_cast<float>(std::cos(angle))), sine.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  int64_t half;
  std::vector<int32_t> places;  // number i of the input is row places[i]
  std::vector<float> cosine, sine;
};

// --- Tables --------------------------------------------------------------------------------------------------------------------

double mel_of(double hertz, bool htk) {
  if (htk) return 2595 * std::log10(1 + hertz / 700);
  return hertz < 1000 ? hertz * 3 / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
}
double hertz_of(double mel, bool htk) {
  if (htk) return 700 * (std::pow(10, mel / 2595) - 1);
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

// Triangles between equal distances on a mel scale. In librosa's form they are straight in hertz, in HTK's in mel.
std::vector<Filter> mel_filters(const Options& options, double rate, double low, double high, bool htk_scale, bool equal_area) {
  const double first = mel_of(low, htk_scale), step = (mel_of(high, htk_scale) - first) / static_cast<double>(options.mels + 1);
  std::vector<Filter> filters;
  for (int64_t m = 0; m < options.mels; ++m) {
    double at[3];
    for (int i = 0; i < 3; ++i) {
      at[i] = first + step * static_cast<double>(m + i);
      if (!options.htk) at[i] = hertz_of(at[i], htk_scale);
    }
    Filter filter;
    for (int64_t k = 0; k < options.bins(); ++k) {
      const double hertz = rate * static_cast<double>(k) / static_cast<double>(options.fft),
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

std::vector<float> taper_of(const std::string& name, int64_t size, bool symmetric) {
  const double period = static_cast<double>(symmetric ? std::max<int64_t>(size - 1, 1) : size);
  std::vector<float> window;
  for (int64_t i = 0; i < size; ++i) {
    const double a = 2 * kPi * static_cast<double>(i) / period;
    window.push_back(static_cast<float>(name == "hann"       ? .5 - .5 * std::cos(a)
                                        : name == "hamming"  ? .54 - .46 * std::cos(a)
                                        : name == "blackman" ? .42 - .5 * std::cos(a) + .08 * std::cos(2 * a)
                                        : name == "blackman_harris"
                                            ? .35875 - .48829 * std::cos(a) + .14128 * std::cos(2 * a) - .01168 * std::cos(3 * a)
                                        : name == "bartlett" ? 1 - std::abs(a / kPi - 1)
                                                             : 1));
  }
  return window;
}

// DCT-II. librosa's is orthonormal; HTK's gives the first row the factor of the others and lifts from the second one on.
std::vector<float> cosine_table(const Options& options, double lifter) {
  std::vector<float> table;
  const auto n = static_cast<double>(options.mels);
  for (int64_t k = 0; k < options.coefficients; ++k)
    for (int64_t m = 0; m < options.mels; ++m) {
      double value =
          std::sqrt((k == 0 && !options.htk ? 1 : 2) / n) * std::cos(kPi * static_cast<double>(k) * (static_cast<double>(m) + .5) / n);
      if (lifter > 0) value *= 1 + lifter / 2 * std::sin(kPi * static_cast<double>(options.htk ? k : k + 1) / lifter);
      table.push_back(static_cast<float>(value));
    }
  return table;
}

// --- The transform -------------------------------------------------------------------------------------------------------------

class Spectrum : public Transform {
 public:
  Spectrum(const Field& field, const Options& options, std::vector<float> window, std::vector<Filter> filters, std::vector<float> cosines)
      : field_(field),
        options_(options),
        fourier_(options.fft),
        window_(std::move(window)),
        filters_(std::move(filters)),
        cosines_(std::move(cosines)),
        steps_(field.shape[1]),
        loops_(sound_loops(host_isa())) {
    frames_ = options.frames(steps_);
    field_.shape = {field.shape[0] * options.features() * (1 + options.deltas), frames_};
  }
  Field output() const override { return field_; }
  bool draws() const override { return false; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    int64_t all = -1;
    apply_steps(in, out, &all, draw);
  }

  void apply_steps(const std::byte* in, std::byte* out, int64_t* steps, Draw&) const override {
    const int64_t there = *steps < 0 ? steps_ : std::min(*steps, steps_), frames = there == 0 ? 0 : options_.frames(there);
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
      if (cepstra) loops_.combine(cosines_.data(), options_.coefficients, options_.mels, work, frames_, frames, to);
      if (options_.energy) energies(from, there, frames, work + options_.mels * frames_, to);
      for (int64_t row = 0; row < options_.deltas * rows; ++row) {
        const int64_t order = 1 + row / rows;
        delta(to, row, row - (order - 1) * rows, frames, order, to + (row + rows) * frames_);
      }
      if (options_.utterance)
        for (int64_t row = 0; row < all; ++row) standardize(to + row * frames_, frames);
    }
    if (*steps >= 0) *steps = frames;
  }

 private:
  // Frames `first` on, `count` of them, as columns of power or of mels.
  void block(const float* from, int64_t there, int64_t first, int64_t count, float* to) const {
    const int64_t size = options_.fft, bins = options_.bins();
    const Scratch scratch(static_cast<size_t>((size + bins + options_.window) * kLanes) * sizeof(float));
    float *z = reinterpret_cast<float*>(scratch.data()), *power = z + size * kLanes, *cut = power + bins * kLanes;
    const float* frames[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane)
      frames[lane] = frame(from, there, first + std::min(lane, count - 1), cut + lane * options_.window, options_.preemphasis);
    loops_.load(frames, window_.data(), fourier_.places.data(), options_.window, z);
    for (int64_t i = options_.window; i < size; ++i) std::fill_n(z + fourier_.places[static_cast<size_t>(i)] * kLanes, kLanes, 0.f);
    loops_.power(fourier_.half, fourier_.cosine.data(), fourier_.sine.data(), z, power);
    if (options_.power == 1)
      for (int64_t i = 0; i < bins * kLanes; ++i) power[i] = std::sqrt(power[i]);
    if (options_.feature == Feature::spectrogram)
      for (int64_t k = 0; k < bins; ++k) std::copy_n(power + k * kLanes, count, to + k * frames_ + first);
    for (size_t m = 0; m < filters_.size(); ++m) {
      float sum[kLanes];
      loops_.weigh(filters_[m].weights.data(), static_cast<int64_t>(filters_[m].weights.size()), power + filters_[m].first * kLanes, sum);
      std::copy_n(sum, count, to + static_cast<int64_t>(m) * frames_ + first);
    }
  }

  // Where the frame's samples lie: in the recording, or in `cut` where something is put around it or it is emphasised.
  const float* frame(const float* from, int64_t there, int64_t number, float* cut, float emphasis) const {
    const int64_t start = number * options_.hop - (options_.center ? options_.window / 2 : 0), size = options_.window;
    if (start >= 0 && start + size <= there && emphasis == 0) return from + start;
    for (int64_t i = 0; i < size; ++i) {
      int64_t at = start + i;
      // A mirror stands at each end, as often as it takes.
      if (options_.reflect && there > 1 && (at < 0 || at >= there)) {
        at = std::abs(at) % (2 * (there - 1));
        if (at >= there) at = 2 * (there - 1) - at;
      }
      cut[i] = at >= 0 && at < there ? from[at] : 0;
    }
    if (emphasis != 0)
      for (int64_t i = size - 1; i >= 0; --i) cut[i] -= emphasis * cut[std::max<int64_t>(i - 1, 0)];
    return cut;
  }

  // The first coefficients become the logarithms of the frames' energies before emphasis and taper.
  void energies(const float* from, int64_t there, int64_t frames, float* values, float* to) const {
    const Scratch scratch(static_cast<size_t>(options_.window) * sizeof(float));
    for (int64_t t = 0; t < frames; ++t) {
      const float* samples = frame(from, there, t, reinterpret_cast<float*>(scratch.data()), 0);
      values[t] = loops_.dot(samples, samples, options_.window);
    }
    loops_.logarithm(values, frames, factor(), options_.floor);
    std::copy_n(values, frames, to);
  }

  float factor() const { return options_.log == Options::db ? static_cast<float>(10 / std::numbers::ln10) : 1; }

  void take_logarithm(float* values, int64_t rows, int64_t frames) const {
    if (options_.log == Options::none) return;
    float highest = -1e30f;
    for (int64_t row = 0; row < rows; ++row)
      highest = std::max(highest, loops_.logarithm(values + row * frames_, frames, factor(), options_.floor));
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
  Options options_;
  Fourier fourier_;
  std::vector<float> window_;
  std::vector<Filter> filters_;
  std::vector<float> cosines_;
  int64_t steps_, frames_ = 0;
  const SoundLoops& loops_;
};

// A length in the unit of the options, as steps.
int64_t steps_option(const Config& config, const char* key, double fallback_ms, double rate) {
  const bool samples = config.string("unit") == "samples";
  const double given = config.number(key, samples ? fallback_ms * rate / 1000 : fallback_ms), steps = samples ? given : given * rate / 1000;
  if (steps < 1 || steps > 32768) config.fail(key, "is out of range", std::to_string(std::llround(steps)) + " steps", "1 to 32768");
  return std::llround(steps);
}

}  // namespace

std::unique_ptr<Transform> open_spectrum(const Config& config, const DataSource& source, size_t field, Feature feature) {
  const Field& input = source.fields()[field];
  if (input.dtype != Dtype::f32 || input.shape.rank() != 2 || input.shape.elements() == 0)
    throw Error(ErrorKind::data, {.where = config.where(),
                                  .what = "field '" + input.name + "' is no recording",
                                  .got = Type{input.dtype, input.shape}.text(),
                                  .expected = "f32 of channels x steps"});
  const double rate = config.number("rate", rate_of(source));
  if (!(rate > 0)) config.fail("rate", "is missing", "", "steps a second; the source 'audio' knows it");
  Options options{.feature = feature, .htk = config.string("form") == "htk"};
  options.window = steps_option(config, "window", 25, rate), options.hop = steps_option(config, "hop", 10, rate);
  options.fft = config.integer("fft", static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(options.window, 4)))));
  if (options.fft < options.window || options.fft < 4 ||
      options.fft != static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(options.fft))))
    config.fail("fft", "does not fit", std::to_string(options.fft),
                "a power of two, at least the window's " + std::to_string(options.window));
  options.power = config.integer("power"), options.center = config.boolean("center", !options.htk);
  options.reflect = options.center && config.string("pad") == "reflect";
  options.preemphasis = static_cast<float>(config.number("preemphasis")), options.floor = static_cast<float>(config.number("floor"));
  const std::string log = config.string("log", feature == Feature::spectrogram ? "none" : options.htk ? "ln" : "db");
  options.log = log == "db" ? Options::db : log == "ln" ? Options::ln : Options::none;
  options.range = static_cast<float>(config.number("range", options.log == Options::db ? 80 : 0));
  options.deltas = config.integer("deltas"), options.delta_reach = config.integer("delta_reach");
  options.utterance = config.boolean("standardize");
  std::vector<Filter> filters;
  std::vector<float> cosines;
  if (feature != Feature::spectrogram) {
    options.mels = config.integer("mels");
    const double low = config.number("low"), high = config.number("high", rate / 2);
    if (!(low < high) || high > rate / 2)
      config.fail("high", "is out of range", Json(high).dump(), "above low, at most " + Json(rate / 2).dump());
    const bool htk_scale = config.string("scale", options.htk ? "htk" : "slaney") == "htk";
    filters = mel_filters(options, rate, low, high, htk_scale, config.boolean("equal_area", !options.htk));
  }
  if (feature == Feature::mfcc) {
    options.coefficients = config.integer("coefficients"), options.energy = config.boolean("energy");
    if (options.coefficients > options.mels)
      config.fail("coefficients", "are more than the mels", std::to_string(options.coefficients),
                  "at most " + std::to_string(options.mels));
    cosines = cosine_table(options, config.number("lifter"));
  }
  std::vector<float> window = taper_of(config.string("taper", options.htk ? "hamming" : "hann"), options.window, options.htk);
  return std::make_unique<Spectrum>(input, options, std::move(window), std::move(filters), std::move(cosines));
}

constexpr Option kOptions[] = {
    {"window", "number", "25", "length of a frame", {1e-3, 1e6}},
    {"hop", "number", "10", "from the beginning of a frame to that of the next", {1e-3, 1e6}},
    {"unit", "name", "ms", "of window and hop", {}, {"ms", "samples"}},
    {"rate", "number", "the source's", "steps a second", {1, 1e6}},
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
const Schema spectrum_schema{.options = kOptions, .common = &common_transform_schema};

}  // namespace perigee
