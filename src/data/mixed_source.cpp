#include "src/data/mixed_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "src/data/batch_order.h"
#include "src/data/labels.h"

namespace perigee {
namespace {

constexpr int kMostDraws = 1000;  // of a method that rejects; half of them are taken or more

size_t mixed_source_padded_bytes(const Field& field) {
  return (static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype) + 63) / 64 * 64;
}

// Each kind has its own, so that one around the other has partners and shares of its own.
uint64_t salt_of(MixedSource::Kind kind) { return kind == MixedSource::Kind::mixup ? 0x6d69787570ull : 0x6375746d6978ull; }

double above_zero(Draw& draw) { return 1 - static_cast<double>(draw.uniform()); }  // (0, 1]

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; shape at least 1.
double gamma_of(double shape, Draw& draw) {
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (int i = 0; i < kMostDraws; ++i) {
    const double radius = std::sqrt(-2 * std::log(above_zero(draw)));
    const double x = radius * std::cos(2 * std::numbers::pi * static_cast<double>(draw.uniform()));
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(above_zero(draw)) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
  return shape;
}

}  // namespace

double symmetric_beta(double alpha, Draw& draw) {
  if (alpha > 1) {
    const double x = gamma_of(alpha, draw), y = gamma_of(alpha, draw);
    return x / (x + y);
  }
  // Jöhnk, 1964, in logarithms: powers of 1 / alpha may be too small for a number.
  for (int i = 0; i < kMostDraws; ++i) {
    const double x = std::log(above_zero(draw)) / alpha, y = std::log(above_zero(draw)) / alpha;
    const double largest = std::max(x, y), sum = largest + std::log(std::exp(x - largest) + std::exp(y - largest));
    if (sum <= 0) return std::exp(x - sum);
  }
  return 0.5;
}

SourcePtr MixedSource::open(const Config& config, const std::string& folder, Kind kind) {
  return std::make_shared<MixedSource>(open_source(config.object("source"), folder), config, kind);
}

MixedSource::MixedSource(SourcePtr inner, const Config& config, Kind kind)
    : inner_(std::move(inner)),
      fields_(inner_->fields()),
      kind_(kind),
      alpha_(config.number("alpha")),
      probability_(config.number("probability")) {
  field_ = field_index(*inner_, config.string("field"), config.where() + ": field");
  target_ = field_index(*inner_, config.string("target"), config.where() + ": target");
  check(config);
  for (const Field& field : fields_) example_bytes_ += mixed_source_padded_bytes(field);
  Field& target = fields_[target_];
  if (target.classes > 0) target.shape = Shape{target.classes};
  target.dtype = Dtype::f32;
  target.classes = 0;
  target.class_names.clear();
}

void MixedSource::check(const Config& config) const {
  const Field &field = fields_[field_], &target = fields_[target_];
  if (field.dtype != Dtype::f32 || inner_->traits().live)
    config.fail("field", "has numbers that cannot be mixed", "'" + field.name + "', " + Type{field.dtype, field.shape}.text(),
                "f32, of examples that are there before training begins");
  if (kind_ == Kind::cutmix && field.shape.rank() < 2)
    config.fail("field", "is no image", "'" + field.name + "', " + Type{field.dtype, field.shape}.text(), "channels x height x width",
                "mix it with mixup");
  const bool label = target.classes > 0 && target.dtype == Dtype::i64 && target.shape.elements() == 1;
  if (!label && target.dtype != Dtype::f32)
    config.fail("target", "has numbers that cannot be mixed", "'" + target.name + "', " + Type{target.dtype, target.shape}.text(),
                "the number of a class, or f32");
}

ReadKey MixedSource::partner_of(const ReadKey& key) const {
  return {.index = shuffled_index(key.seed ^ salt_of(kind_), key.epoch, key.index, inner_->size()), .epoch = key.epoch, .seed = key.seed};
}

void MixedSource::read(const ReadKey& key, std::span<std::byte* const> slots) const {
  Draw draw(key, salt_of(kind_));
  const bool mixes = probability_ >= 1 || static_cast<double>(draw.uniform()) < probability_;
  const Scratch scratch(2 * (example_bytes_ + fields_.size() * sizeof(std::byte*)));
  auto** const own = reinterpret_cast<std::byte**>(scratch.data() + 2 * example_bytes_);
  std::byte** const other = own + fields_.size();
  std::byte* free = scratch.data();
  for (size_t f = 0; f < fields_.size(); ++f) {
    const size_t bytes = mixed_source_padded_bytes(inner_->fields()[f]);
    own[f] = f == target_ ? free : slots[f];
    other[f] = free + bytes;
    free += 2 * bytes;
  }
  inner_->read(key, {own, fields_.size()});
  double share = 1;  // of the example itself
  if (mixes) {
    inner_->read(partner_of(key), {other, fields_.size()});
    share = blend(symmetric_beta(alpha_, draw), own[field_], other[field_], draw);
  }
  auto* const target = reinterpret_cast<float*>(slots[target_]);
  write_target(own[target_], share, false, target);
  if (mixes) write_target(other[target_], 1 - share, true, target);
}

// Changes `own`; the share of it that is left. A box has the area 1 - share and its centre anywhere; what of it lies outside is cut off, as in
// the authors' program.
double MixedSource::blend(double share, std::byte* own, const std::byte* other, Draw& draw) const {
  const Shape& shape = fields_[field_].shape;
  auto* const to = reinterpret_cast<float*>(own);
  const auto* const from = reinterpret_cast<const float*>(other);
  const int64_t elements = shape.elements();
  if (kind_ == Kind::mixup) {
    const auto a = static_cast<float>(share), b = static_cast<float>(1 - share);
    for (int64_t i = 0; i < elements; ++i) to[i] = a * to[i] + b * from[i];
    return share;
  }
  const int64_t height = shape.at(-2), width = shape.at(-1), plane = height * width;
  const double side = std::sqrt(1 - share);
  const auto half_height = static_cast<int64_t>(static_cast<double>(height) * side) / 2;
  const auto half_width = static_cast<int64_t>(static_cast<double>(width) * side) / 2;
  const int64_t y = draw.integer(height), x = draw.integer(width);
  const int64_t top = std::max<int64_t>(0, y - half_height), bottom = std::min(height, y + half_height);
  const int64_t left = std::max<int64_t>(0, x - half_width), right = std::min(width, x + half_width);
  for (int64_t image = 0; image < elements; image += plane)
    for (int64_t row = top; row < bottom; ++row)
      std::copy(from + image + row * width + left, from + image + row * width + right, to + image + row * width + left);
  return 1 - static_cast<double>((bottom - top) * (right - left)) / static_cast<double>(plane);
}

void MixedSource::write_target(const std::byte* given, double share, bool adds, float* to) const {
  const int64_t elements = fields_[target_].shape.elements(), classes = inner_->fields()[target_].classes;
  if (!adds) std::fill_n(to, elements, 0.0f);
  const auto part = static_cast<float>(share);
  if (classes == 0) {
    for (int64_t i = 0; i < elements; ++i) to[i] += part * reinterpret_cast<const float*>(given)[i];
    return;
  }
  int64_t label = 0;
  std::memcpy(&label, given, sizeof label);
  check_label(label, classes, kind_ == Kind::mixup ? "mixup" : "cutmix");
  to[label] += part;
}

void MixedSource::expect(std::span<const ReadKey> keys) const {
  for (const ReadKey& key : keys) {
    const ReadKey both[] = {key, partner_of(key)};
    inner_->expect(both);
  }
}

SourceTraits MixedSource::traits() const {
  SourceTraits traits = inner_->traits();
  traits.description = (kind_ == Kind::mixup ? "mixup of " : "cutmix of ") + traits.description;
  traits.fixed = traits.cheap = traits.touches = false;
  traits.read_ahead *= 2;
  return traits;
}

}  // namespace perigee
