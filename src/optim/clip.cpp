#include "src/optim/clip.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "src/core/config.h"

namespace perigee {
namespace {

std::string layer_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(0, dot);
}

constexpr Option kClipOptions[] = {{"threshold", "number", "1", "the largest value or norm", {1e-30, 1e30}}};
constexpr Schema kSchema{.options = kClipOptions};
constexpr NamedSchema kClipKinds[] = {{"value", "Each element of the gradient is held within the threshold.", kSchema},
                                      {"norm", "The whole gradient is scaled down to the threshold.", kSchema},
                                      {"layer_norm", "Each layer's gradient is scaled down to the threshold.", kSchema},
                                      {"parameter_norm", "Each tensor's gradient is scaled down to the threshold.", kSchema},
                                      {"renormalize_layer", "Each layer's gradient is divided by its norm.", kSchema},
                                      {"renormalize_parameter", "Each tensor's gradient is divided by its norm.", kSchema}};

}  // namespace

std::span<const NamedSchema> clip_kinds() { return kClipKinds; }

Clip::Clip(const Json& description, const std::vector<ParamWindow>& windows, std::span<const UpdatePiece> pieces, const std::string& where)
    : pieces_(pieces) {
  if (description.is_null()) return;
  const Config options = with_kind(Config(description, where), clip_kinds());
  const std::string type = options.string("type");
  threshold_ = options.number("threshold");
  kind_ = type == "value"                   ? Kind::value
          : type == "norm"                  ? Kind::norm
          : type.starts_with("renormalize") ? Kind::renormalize
                                            : Kind::group_norm;
  const bool by_layer = type == "layer_norm" || type == "renormalize_layer",
             by_tensor = type == "parameter_norm" || type == "renormalize_parameter";
  std::map<std::string, int> names;
  for (const ParamWindow& window : windows) {
    const std::string group = by_tensor ? window.name : by_layer ? layer_of(window.name) : "";
    groups_.push_back(names.try_emplace(group, static_cast<int>(names.size())).first->second);
    trainable_.push_back(window.trainable);
  }
  sums_.resize(pieces.size());
  factors_.assign(std::max<size_t>(1, names.size()), 1.0);
}

bool Clip::take_threshold(const Clip& other) {
  if (kind_ != other.kind_ || groups_ != other.groups_) return false;
  threshold_ = other.threshold_;
  return true;
}

void Clip::measure(size_t first, size_t last, const void* gradient, const BlockMath& math, std::span<const uint8_t> quiet) {
  const auto* bytes = static_cast<const std::byte*>(gradient);
  for (size_t i = first; i < last; ++i) {
    const UpdatePiece& piece = pieces_[i];
    const std::byte* at = bytes + static_cast<size_t>(piece.begin) * dtype_bytes(math.dtype);
    const bool counts = trainable_[static_cast<size_t>(piece.window)] && (quiet.empty() || !quiet[i]);
    sums_[i] = counts ? math.sum_of_squares(at, piece.end - piece.begin) : 0;
  }
}

// In 32 sums side by side, which meet in a tree: what a warp of a device does (kernels/cuda/runtime/step.cu).
double Clip::sum_of_window(size_t first, size_t last) const {
  constexpr size_t kLanes = 32;
  double lanes[kLanes] = {};
  for (size_t i = first; i < last; ++i) lanes[(i - first) % kLanes] += sums_[i];
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

void Clip::finish(double scale) {
  std::fill(factors_.begin(), factors_.end(), 0.0);
  double total = 0;
  for (size_t first = 0, last; first < sums_.size(); first = last) {
    const auto window = static_cast<size_t>(pieces_[first].window);
    for (last = first; last < sums_.size() && static_cast<size_t>(pieces_[last].window) == window;) ++last;
    const double sum = sum_of_window(first, last);
    factors_[static_cast<size_t>(groups_[window])] += sum;
    total += sum;
  }
  global_norm_ = std::sqrt(total) * std::fabs(scale);
  for (double& factor : factors_) {
    const double norm = std::sqrt(factor) * std::fabs(scale);
    if (kind_ == Kind::renormalize) factor = norm > 0 ? 1 / norm : 1;
    else factor = norm > threshold_ ? threshold_ / norm : 1;
  }
}

}  // namespace perigee
