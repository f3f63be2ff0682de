#include "src/nn/layers/sound.h"

#include <algorithm>

#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

const char* name_of(Taper taper) {
  constexpr const char* kNames[] = {"none", "hann", "hamming", "blackman", "blackman_harris", "bartlett"};
  return kNames[static_cast<size_t>(taper)];
}

Json stft_attrs(const StftParams& p) {
  return Json(Json::Object{{"window", p.window},
                           {"hop", p.hop},
                           {"fft", p.fft},
                           {"taper", name_of(p.taper)},
                           {"symmetric", p.symmetric},
                           {"center", p.center},
                           {"pad", p.reflect ? "reflect" : "zeros"},
                           {"preemphasis", p.preemphasis},
                           {"power", static_cast<int64_t>(p.power)}});
}

Value table(LayerContext& context, const Shape& shape, const std::vector<float>& numbers) {
  return context.graph().constant(Tensor::from(shape, numbers).to(context.dtype()));
}

// So much of a recording counts, and of its frames. Without a mask all are empty.
struct Counted {
  Counted(LayerContext& context, Value input, const StftParams& p, int64_t frames) {
    const Value before = context.mask(input);
    if (!before) return;
    const Value there = reduce_sum(before, {1}, true);
    steps = cast(reshape(there, Shape{before.shape()[0]}), Dtype::i64);
    // Frame f is there from so many steps on.
    std::vector<float> needed;
    for (int64_t f = 0; f < frames; ++f) needed.push_back(static_cast<float>(f == 0 ? 1 : f * p.hop + (p.center ? 0 : p.window)));
    const Value least = table(context, Shape{1, frames}, needed);
    const Value zero = context.graph().constant(0, {before.dtype(), Shape()}), one = context.graph().constant(1, {before.dtype(), Shape()});
    mask = where(greater_equal(there, least), one, zero);
    this->frames = cast(reduce_sum(mask, {1}), Dtype::i64);
  }
  // `x` [N, channels, rows, frames] with `other` in place of the frames that are not there.
  Value kept(Value x, double other) const {
    if (!mask) return x;
    const Value there = mask_over(mask, x);
    return where(greater(there, full_like(there, .5)), x, x.graph().constant(other, {x.dtype(), Shape()}));
  }
  Value mask, steps, frames;  // [N, frames], [N] of i64, [N] of i64
};

Value stft(Value x, const Counted& counted, Value filters, const StftParams& p) {
  const Value operands[] = {x, filters, counted.steps};
  return x.graph().apply("stft", operands, stft_attrs(p));
}

Value logarithm(Value x, const FeatureOptions& options) {
  const Value ln = log(maximum(x, x.graph().constant(static_cast<double>(options.floor), {x.dtype(), Shape()})));
  return options.factor() == 1 ? ln : ln * static_cast<double>(options.factor());
}

// Numbers more than `range` below a channel's largest count as that.
Value in_range(Value x, const Counted& counted, const FeatureOptions& options) {
  if (options.range <= 0) return x;
  const Value largest = reduce_max(counted.kept(x, kBelowAll), {2, 3}, true);
  return maximum(x, largest - static_cast<double>(options.range));
}

// The logarithms of the frames' energies, before emphasis and taper: by Parseval's theorem, sums over all bins.
Value energies(LayerContext& context, Value x, const Counted& counted, const FeatureOptions& options) {
  StftParams p = options.stft;
  p.taper = Taper::none, p.preemphasis = 0, p.power = 2;
  const auto all = static_cast<float>(p.fft);
  std::vector<float> weights(static_cast<size_t>(stft_bins(p)), 2 / all);
  weights.front() = weights.back() = 1 / all;
  return logarithm(stft(x, counted, table(context, Shape{1, stft_bins(p)}, weights), p), options);
}

Value with_deltas(Value x, const Counted& counted, const FeatureOptions& options) {
  const Shape shape = x.shape();
  const Value rows = reshape(x, Shape{shape[0], shape[1] * shape[2], shape[3]});
  std::vector<Value> parts{x};
  for (int64_t order = 1; order <= options.deltas; ++order) {
    const Value operands[] = {rows, counted.frames};
    Json attrs(Json::Object{{"reach", options.delta_reach}, {"order", order}, {"polynomial", !options.htk}});
    parts.push_back(reshape(x.graph().apply("deltas", operands, std::move(attrs)), shape));
  }
  return parts.size() == 1 ? x : concatenate(parts, 2);
}

// Each row with mean 0 and deviation 1 over the frames that are there; one that hardly changes is only moved.
Value standardized(Value x, const Counted& counted) {
  const auto mean = [&](Value values) {
    const Value sum = reduce_sum(counted.kept(values, 0), {3}, true);
    if (!counted.mask) return sum / static_cast<double>(values.shape()[3]);
    const Value there = reduce_sum(mask_over(counted.mask, values), {3}, true);
    return sum / maximum(there, ones_like(there));
  };
  const Value centered = counted.kept(x - mean(x), 0), variance = mean(square(centered));
  return centered / sqrt(where(greater(variance, full_like(variance, 1e-12)), variance, ones_like(variance)));
}

Value filter_table(LayerContext& context, const FeatureOptions& options) {
  const auto bins = static_cast<size_t>(stft_bins(options.stft));
  std::vector<float> weights(options.filters.size() * bins, 0);
  for (size_t row = 0; row < options.filters.size(); ++row)
    std::copy(options.filters[row].weights.begin(), options.filters[row].weights.end(),
              weights.begin() + static_cast<ptrdiff_t>(row * bins) + options.filters[row].first);
  return table(context, Shape{options.mels, static_cast<int64_t>(bins)}, weights);
}

}  // namespace

std::vector<Value> build_sound(LayerContext& context, Value input, Feature feature) {
  require_steps(context, input, "put reshape {channels, steps} in front");
  const FeatureOptions options = read_features(context.options(), feature, 0, "");
  const Shape& shape = input.shape();
  const int64_t frames = stft_frames(options.stft, shape[2]);
  const Counted counted(context, input, options.stft, frames);
  const Value x = masked(context, input);
  Value y = stft(x, counted, feature == Feature::spectrogram ? Value() : filter_table(context, options), options.stft);
  if (options.log != FeatureOptions::none) y = in_range(logarithm(y, options), counted, options);
  if (feature == Feature::mfcc) {
    y = matmul(table(context, Shape{options.coefficients, options.mels}, options.cosines), y);
    if (options.energy) {
      const Value first = energies(context, x, counted, options);
      y = options.coefficients == 1 ? first : concatenate(std::array{first, part_of(y, 2, 1, options.coefficients)}, 2);
    }
  }
  y = with_deltas(counted.kept(y, 0), counted, options);
  if (options.standardize) y = standardized(y, counted);
  y = reshape(y, Shape{shape[0], shape[1] * y.shape()[2], frames});
  if (counted.mask) context.set_mask(y, counted.mask);
  return {y};
}

}  // namespace perigee
