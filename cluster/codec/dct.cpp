// DeMo (Peng et al. 2024): the largest of each chunk's cosine coefficients. With feedback and decay the residual is DeMo's momentum, from
// which what was sent is taken away. A chunk is 64 elements, the last one filled up with zeros; its k coefficients are those of its
// orthonormal DCT-II with the largest magnitudes, of equal ones the first.
// Size: 16 + values of all chunks' k (value_list.h) + one byte for the number of each coefficient.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

#include "cluster/codec/value_list.h"
#include "kernels/half.h"

namespace perigee {
namespace {

constexpr std::array<Option, 2> kDctOwn = {{
    {"count", "integer", "4", "coefficients of each chunk of 64 elements that are sent", {1, 64}},
    ValueList::kOption,
}};
constexpr auto kDctOptions = join_options(kDctOwn, common_options("true"));
constexpr int64_t kChunk = kMixSize;

// forward[i][j] = c_j cos(pi (2 i + 1) j / 128), backward its transpose.
struct Basis {
  alignas(64) float forward[kChunk][kChunk], backward[kChunk][kChunk];

  // Cosines by half angles and a recurrence: a library's may differ from machine to machine.
  Basis() {
    double step = 0;  // cos(pi / 128)
    for (int halved = 0; halved < 6; ++halved) step = std::sqrt((1 + step) / 2);
    std::array<double, 4 * kChunk> cosine = {1, step};  // of m pi / 128
    for (size_t m = 2; m < cosine.size(); ++m) cosine[m] = 2 * step * cosine[m - 1] - cosine[m - 2];
    for (size_t i = 0; i < kChunk; ++i)
      for (size_t j = 0; j < kChunk; ++j) {
        const double scale = j == 0 ? 0.125 : 0.125 * std::sqrt(2.0);
        forward[i][j] = backward[j][i] = static_cast<float>(scale * cosine[(2 * i + 1) * j % cosine.size()]);
      }
  }
};

const Basis& basis() {
  static const Basis basis;
  return basis;
}

class DctCodec final : public Codec {
 public:
  DctCodec(const CodecSetup& setup, int64_t count, ValueList values) : Codec(setup), count_(count), values_(values) {}

  size_t bound(const CodecSegment& segment) const override {
    return kPayloadHeader + values_.bytes(sent(segment)) + static_cast<size_t>(sent(segment));
  }
  double bits_per_element(const CodecSegment& segment) const override {
    const int64_t n = segment.count;
    return n > 0 ? 8 * static_cast<double>(bound(segment) - kPayloadHeader) / static_cast<double>(n) : 0;
  }
  size_t scratch_bytes(const CodecSegment& segment) const override { return static_cast<size_t>(sent(segment)) * sizeof(float); }
  bool keeps_zero() const override { return false; }
  float limit() const override { return 0x1p90f; }  // a chunk's coefficients and what they make of it stay finite

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const override {
    const int64_t n = call.segment.count, all = sent(call.segment);
    const float* v = call.values.data();
    if (feedback()) {
      loops().fold(v, call.residual.data(), decay(), n);
      v = call.residual.data();
    }
    auto* values = reinterpret_cast<float*>(call.scratch.data());
    std::byte* const numbers = body + values_.bytes(all);
    for (int64_t chunk = 0; chunk * kChunk < n; ++chunk) {
      alignas(64) float in[kChunk] = {}, out[kChunk];
      std::copy_n(v + chunk * kChunk, std::min(kChunk, n - chunk * kChunk), in);
      loops().mix(in, &basis().forward[0][0], out);
      choose(out, values + chunk * count_, numbers + chunk * count_);
    }
    header->variant = static_cast<uint16_t>(values_.format());
    header->detail = static_cast<uint32_t>(count_);
    values_.write(loops(), values, all, body);
    if (feedback()) add(body, n, -1, call.residual.data());
    return values_.bytes(all) + static_cast<size_t>(all);
  }

  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte>) const override {
    const int64_t all = sent(segment);
    if (header.variant != static_cast<uint16_t>(values_.format()) || header.detail != static_cast<uint32_t>(count_)) return false;
    if (body.size() != values_.bytes(all) + static_cast<size_t>(all) || !values_.valid(body.first(values_.bytes(all)), all)) return false;
    if (!valid_numbers(body.subspan(values_.bytes(all))) || !within_limit(body.data(), all)) return false;
    add(body.data(), segment.count, weight, sum.data());
    return true;
  }

  void add_options(Json* json) const override { json->set("count", count_), json->set("values", values_.name()); }

 private:
  int64_t sent(const CodecSegment& segment) const { return (segment.count + kChunk - 1) / kChunk * count_; }

  // The largest, in ascending order of their numbers.
  void choose(const float* coefficients, float* values, std::byte* numbers) const {
    std::array<uint64_t, kChunk> keys;
    for (uint64_t j = 0; j < kChunk; ++j)
      keys[j] = static_cast<uint64_t>(bits_from_float(coefficients[j]) & 0x7fffffffu) << 8 | (kChunk - 1 - j);
    const auto last = keys.begin() + count_;
    std::nth_element(keys.begin(), last - 1, keys.end(), std::greater<>());
    std::array<bool, kChunk> chosen = {};
    for (auto key = keys.begin(); key != last; ++key) chosen[kChunk - 1 - (*key & 0xff)] = true;
    for (size_t j = 0; j < kChunk; ++j)
      if (chosen[j]) *values++ = coefficients[j], *numbers++ = static_cast<std::byte>(j);
  }

  bool valid_numbers(std::span<const std::byte> numbers) const {
    for (size_t at = 0; at < numbers.size(); ++at) {
      if (static_cast<int64_t>(numbers[at]) >= kChunk) return false;
      if (at % static_cast<size_t>(count_) != 0 && numbers[at] <= numbers[at - 1]) return false;
    }
    return true;
  }

  // Values within limit() have coefficients of at most 64 times as much, rounded.
  bool within_limit(const std::byte* body, int64_t all) const {
    float most = 0;
    values_.each(body, all, [&](int64_t, float value) { most = std::max(most, std::abs(value)); });
    return most <= 0x1p97f;
  }

  void add(const std::byte* body, int64_t n, float weight, float* sum) const {
    const std::byte* number = body + values_.bytes(sent({.count = n}));
    alignas(64) float made[kChunk];
    values_.each(body, sent({.count = n}), [&](int64_t at, float value) {
      if (at % count_ == 0) std::fill_n(made, kChunk, 0.0f);
      loops().add_scaled(value, basis().backward[static_cast<size_t>(*number++)], made, kChunk);
      if (at % count_ != count_ - 1) return;
      const int64_t begin = at / count_ * kChunk;
      loops().add_f32(reinterpret_cast<const std::byte*>(made), std::min(kChunk, n - begin), weight, sum + begin);
    });
  }

  int64_t count_;
  ValueList values_;
};

std::unique_ptr<Codec> make_dct(const Config& config, const CodecSetup& setup) {
  const int64_t count = config.integer("count");
  return std::make_unique<DctCodec>(setup, count, ValueList::read(config));
}

}  // namespace

extern const CodecDef codec_dct;
const CodecDef codec_dct{.name = "dct",
                         .doc = "The largest cosine coefficients of each 64 elements (DeMo).",
                         .format = 12,
                         .schema = {.options = kDctOptions},
                         .make = make_dct};

}  // namespace perigee
