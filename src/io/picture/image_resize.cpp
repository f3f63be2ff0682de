#include <algorithm>
#include <cmath>

#include "src/core/host_isa.h"
#include "src/io/image.h"
#include "src/io/picture/resample.h"

namespace perigee {

void ResampleTaps::reserve(int64_t to, int64_t most) {
  view_.stride = most;
  view_.size = to;
  first_.resize(static_cast<size_t>(to));
  count_.resize(static_cast<size_t>(to));
  weights_.resize(static_cast<size_t>(to * most));
  view_.shares = nullptr;
  view_.first = first_.data(), view_.count = count_.data(), view_.weights = weights_.data();
}

// A triangle as wide as a target pixel, at least as a source pixel: bilinear when growing, an average when shrinking.
const Taps& ResampleTaps::resize(double from, double length, int64_t whole, int64_t to) {
  const double ratio = length / static_cast<double>(to), reach = std::max(ratio, 1.0);
  reserve(to, 2 * static_cast<int64_t>(std::ceil(reach)) + 1);
  const auto least = std::max<int64_t>(0, static_cast<int64_t>(std::floor(from)));
  const auto most = std::min<int64_t>(whole, static_cast<int64_t>(std::ceil(from + length))) - 1;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = from + (static_cast<double>(i) + .5) * ratio - .5;
    auto low = std::max<int64_t>(least, static_cast<int64_t>(std::ceil(centre - reach)));
    auto high = std::min<int64_t>(most, static_cast<int64_t>(std::floor(centre + reach)));
    low = std::min(low, most), high = std::max(low, high);
    float* weight = weights_.data() + i * view_.stride;
    double sum = 0;
    const auto share = [&](int64_t k) { return std::max(0.0, 1 - std::fabs(static_cast<double>(k) - centre) / reach); };
    if (low < high && share(low) == 0) ++low;
    for (int64_t k = low; k <= high; ++k) sum += share(k);
    for (int64_t k = low; k <= high; ++k) weight[k - low] = static_cast<float>(sum > 0 ? share(k) / sum : k == low);
    // Where a share is nothing at an end, its element is not read.
    int32_t count = static_cast<int32_t>(high - low + 1);
    while (count > 1 && weight[count - 1] == 0) --count;
    first_[static_cast<size_t>(i)] = static_cast<int32_t>(low);
    count_[static_cast<size_t>(i)] = count;
  }
  share();
  return view_;
}

void ResampleTaps::share() {
  if (*std::max_element(count_.begin(), count_.end()) > kMostShares) return;
  whole_.resize(weights_.size());
  for (size_t i = 0; i < weights_.size(); ++i) whole_[i] = static_cast<int16_t>(std::min(32767l, std::lround(weights_[i] * 32768)));
  view_.shares = whole_.data();
}

// Values beyond an end are those mirrored at it.
const Taps& ResampleTaps::gauss(double deviation, int64_t reach, int64_t length) {
  reach = std::min(reach, length - 1);
  reserve(length, std::min<int64_t>(2 * reach + 1, length));
  shares_.resize(static_cast<size_t>(reach + 1));
  double sum = 0;
  for (int64_t k = 0; k <= reach; ++k) {
    shares_[static_cast<size_t>(k)] = std::exp(-.5 * static_cast<double>(k * k) / (deviation * deviation));
    sum += (k == 0 ? 1 : 2) * shares_[static_cast<size_t>(k)];
  }
  std::fill(weights_.begin(), weights_.end(), 0.f);
  for (int64_t i = 0; i < length; ++i) {
    const int64_t low = std::max<int64_t>(0, i - reach), high = std::min(length - 1, i + reach);
    for (int64_t k = -reach; k <= reach; ++k) {
      const int64_t from = i + k, at = from < 0 ? -from : from >= length ? 2 * (length - 1) - from : from;
      weights_[static_cast<size_t>(i * view_.stride + at - low)] += static_cast<float>(shares_[static_cast<size_t>(std::abs(k))] / sum);
    }
    first_[static_cast<size_t>(i)] = static_cast<int32_t>(low);
    count_[static_cast<size_t>(i)] = static_cast<int32_t>(high - low + 1);
  }
  return view_;
}

void resample(ResampleCall call, bool bytes) {
  thread_local std::vector<float> scratch;
  const int64_t last = call.columns.size - 1;
  const auto size = static_cast<size_t>(
      resample_scratch(call.channels, call.columns.first[last] + call.columns.count[last] - call.columns.first[0], call.columns.size));
  if (scratch.size() < size) scratch.resize(size);
  call.scratch = scratch.data();
  const PictureLoops& loops = picture_loops(host_isa());
  (bytes ? loops.resample_u8 : loops.resample_f32)(call);
}

void resize_image(const Picture& image, int64_t height, int64_t width, float scale, float* planes) {
  resize_part(image, {0, 0, static_cast<double>(image.height), static_cast<double>(image.width)}, height, width, scale, planes,
              height * width, width);
}

void resize_part(const Picture& image, const ImagePart& part, int64_t height, int64_t width, float scale, float* planes, int64_t to_plane,
                 int64_t to_row) {
  thread_local ResampleTaps rows, columns;
  resample({.from = image.pixels.data(),
            .row = image.width * image.channels,
            .channels = image.channels,
            .rows = rows.resize(part.top, part.height, image.height, height),
            .columns = columns.resize(part.left, part.width, image.width, width),
            .scale = scale,
            .to = planes,
            .to_plane = to_plane,
            .to_row = to_row},
           true);
}

namespace {

ImagePart middle(int64_t height, int64_t width, const FitOptions& fit) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  const double shrink = std::min(h / static_cast<double>(fit.height), w / static_cast<double>(fit.width));
  const double rows = std::max(1., std::round(shrink * static_cast<double>(fit.height)));
  const double columns = std::max(1., std::round(shrink * static_cast<double>(fit.width)));
  return {std::floor((h - rows) / 2), std::floor((w - columns) / 2), rows, columns};
}

ImagePart image_resize_part_of(int64_t height, int64_t width, const FitOptions& fit) {
  if (fit.fit == Fit::crop) return middle(height, width, fit);
  return {0, 0, static_cast<double>(height), static_cast<double>(width)};
}

FitPlace image_resize_place_of(const ImagePart& part, const FitOptions& fit) {
  FitPlace place{.part = part, .height = fit.height, .width = fit.width};
  if (fit.fit != Fit::pad) return place;
  const double grow = std::min(static_cast<double>(fit.height) / part.height, static_cast<double>(fit.width) / part.width);
  place.height = std::clamp<int64_t>(std::llround(part.height * grow), 1, fit.height);
  place.width = std::clamp<int64_t>(std::llround(part.width * grow), 1, fit.width);
  place.top = (fit.height - place.height) / 2;
  place.left = (fit.width - place.width) / 2;
  return place;
}

// Where the part goes, and its size there; what lies around it is filled.
float* lay_bars(const ImagePart& part, int64_t channels, const FitOptions& fit, float* planes, int64_t& height, int64_t& width) {
  const FitPlace place = image_resize_place_of(part, fit);
  height = place.height, width = place.width;
  if (fit.fit == Fit::pad) std::fill(planes, planes + channels * fit.height * fit.width, fit.fill);
  return planes + place.top * fit.width + place.left;
}

}  // namespace

FitPlace fit_place(int64_t from_height, int64_t from_width, const FitOptions& fit, const ImagePart* chosen) {
  return image_resize_place_of(chosen != nullptr ? *chosen : image_resize_part_of(from_height, from_width, fit), fit);
}

void fit_image(std::span<const std::byte> bytes, const std::string& where, int64_t channels, const FitOptions& fit,
               const ChoosePart* choose, Picture& image, float* planes) {
  const WantedPart wanted{
      [&](int64_t h, int64_t w) -> ImagePart { return choose != nullptr ? (*choose)(h, w) : image_resize_part_of(h, w, fit); }, fit.height,
      fit.width, fit.scaled};
  const ImagePart part = decode_part(bytes, where, channels, wanted, image);
  int64_t height, width;
  float* to = lay_bars(part, channels, fit, planes, height, width);
  resize_part(image, part, height, width, fit.scale, to, fit.height * fit.width, fit.width);
}

void fit_planes(const float* from, int64_t channels, int64_t height, int64_t width, const FitOptions& fit, const ImagePart* chosen,
                float* planes) {
  const ImagePart part = chosen != nullptr ? *chosen : image_resize_part_of(height, width, fit);
  int64_t to_height, to_width;
  float* to = lay_bars(part, channels, fit, planes, to_height, to_width);
  thread_local ResampleTaps rows, columns;
  ResampleCall call{.row = width,
                    .rows = rows.resize(part.top, part.height, height, to_height),
                    .columns = columns.resize(part.left, part.width, width, to_width),
                    .scale = fit.scale,
                    .to_plane = fit.height * fit.width,
                    .to_row = fit.width};
  for (int64_t c = 0; c < channels; ++c) {
    call.from = from + c * height * width, call.to = to + c * call.to_plane;
    resample(call, false);
  }
}

}  // namespace perigee
