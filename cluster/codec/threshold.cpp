// Strom (Interspeech 2015), as Deeplearning4j shares gradients: an element of tau or more sends +tau or -tau, at most once a round.
//   variant 0: gaps (sparse.h) with the sign in the lowest bit, one to three bytes for each element that is sent
//   variant 1: int32 with the sign of the update: i + 1 or -(i + 1), 4 bytes for each
//   variant 2: 2 bits for each element of the segment, sent or not
// Size: 16 + 8 + list, or 16 + bitmap where the list would be longer than that; the bitmap takes 256 floor(n / 1024) +
// ceil((n mod 1024) / 4) bytes, so that with int32 it takes over above n / 16 elements. A list begins with its length; tau is in the
// header.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "cluster/codec/options.h"
#include "cluster/codec/quantized.h"
#include "cluster/codec/sparse.h"
#include "kernels/half.h"

namespace perigee {
namespace {

constexpr std::array<Option, 9> kThresholdOwn = {{
    {"tau", "number", "0.001", "what is sent of an element that has gathered as much; where it adapts, at first", {1e-12, 1e12}},
    {"adapt",
     "name",
     "none",
     "tau: none stays, range keeps the sent share between two, target goes for one (Deeplearning4j)",
     {},
     {"none", "range", "target"}},
    {"min_share", "number", "0.0001", "with adapt = \"range\": share below which tau shrinks", {0, 1}},
    {"max_share", "number", "0.01", "with adapt = \"range\": share above which tau grows", {0, 1}},
    {"target", "number", "0.001", "target: the share to reach", {0, 1}},
    {"rate", "number", "0.9659363289248456", "factor by which tau shrinks or grows: 20 rounds for 2", {0.5, 1}},
    {"clip", "number", "0", "limits what is left over to so many tau (Deeplearning4j: 5); 0: no limit", {0, 1e6}},
    {"clip_every", "integer", "5", "rounds between two such cuts", {1, 1e6}},
    {"indices", "name", "gaps", "gaps, or int32: 4 bytes each", {}, {"gaps", "int32"}},
}};
constexpr auto kThresholdOptions = join_options(kThresholdOwn, common_options("true"));
constexpr size_t kThresholdCount = 8;  // bytes of a list's length

struct ThresholdOptions {
  double tau, min_share, max_share, target, rate, clip;
  int64_t clip_every;
  std::string adapt, indices;
};

size_t bitmap_bytes(int64_t n) { return code_bytes(n, kTauBlock, 2); }
size_t mask_bytes(int64_t n) { return static_cast<size_t>((n + 63) / 64) * sizeof(uint64_t); }

class ThresholdCodec final : public Codec {
 public:
  ThresholdCodec(const CodecSetup& setup, ThresholdOptions options) : Codec(setup), options_(std::move(options)) {}

  size_t bound(const CodecSegment& segment) const override { return kPayloadHeader + kThresholdCount + bitmap_bytes(segment.count); }
  // Where tau will settle is unknown; then the most.
  double bits_per_element(const CodecSegment&) const override {
    if (options_.adapt == "none") return 2;
    const double share = options_.adapt == "target" ? options_.target : options_.max_share;
    return std::min(2.0, 8 * share * (options_.indices == "int32" ? 4 : average_gap_bytes(share, true)));
  }
  size_t scratch_bytes(const CodecSegment& segment) const override { return mask_bytes(segment.count); }
  bool marks_sent() const override { return true; }
  size_t state_floats(const CodecSegment&) const override { return 2; }  // tau (0: none yet), share that was sent

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const override {
    const int64_t n = call.segment.count;
    const float tau = next_tau(call.state[0], call.state[1]);
    const float* v = call.values.data();
    if (feedback()) {
      loops().fold(v, call.residual.data(), decay(), n);
      v = call.residual.data();
    }
    auto* masks = reinterpret_cast<uint64_t*>(call.scratch.data());
    const int64_t count = loops().exceed(v, n, tau, masks);
    header->detail = bits_from_float(tau);
    size_t bytes = write_list(v, n, count, masks, header, body + kThresholdCount);
    if (bytes > 0 || count == 0) {
      std::memcpy(body, &count, kThresholdCount);
      bytes += kThresholdCount;
      if (feedback()) each_set(masks, n, [&](int64_t i) { take(&call.residual[static_cast<size_t>(i)], tau); });
    } else {
      header->variant = kTauBitmap;
      bytes = write_bitmap(v, n, tau, feedback() ? call.residual.data() : nullptr, body);
    }
    call.state[0] = tau;
    call.state[1] = static_cast<float>(static_cast<double>(count) / static_cast<double>(n));
    if (feedback() && options_.clip > 0 && call.round > 0 && call.round % static_cast<uint64_t>(options_.clip_every) == 0)
      loops().clip(call.residual.data(), n, static_cast<float>(options_.clip) * tau);
    return bytes;
  }

  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte>) const override {
    const float tau = float_from_bits(header.detail);
    if (!(tau >= kSmallestTau && tau <= kLargestTau)) return false;
    if (header.variant == (options_.indices == "gaps" ? kTauGaps : kTauInt32)) {
      int64_t count;
      if (body.size() < kThresholdCount) return false;
      std::memcpy(&count, body.data(), kThresholdCount);
      if (count < 0 || count > segment.count) return false;
      const auto list = body.subspan(kThresholdCount);
      return header.variant == kTauGaps ? add_gaps(list, count, weight * tau, sum) : add_int32(list, count, weight * tau, sum);
    }
    if (header.variant != kTauBitmap || body.size() != bitmap_bytes(segment.count) || !valid_codes2(body.data(), body.size())) return false;
    loops().dequantize_add(
        {.codes = body.data(), .scale = tau, .n = segment.count, .block = kTauBlock, .bits = 2, .weight = weight, .sum = sum.data()});
    return true;
  }

  void add_options(Json* json) const override {
    json->set("tau", options_.tau), json->set("adapt", options_.adapt), json->set("min_share", options_.min_share),
        json->set("max_share", options_.max_share), json->set("target", options_.target), json->set("rate", options_.rate),
        json->set("clip", options_.clip), json->set("clip_every", options_.clip_every), json->set("indices", options_.indices);
  }

 private:
  float next_tau(float last, float share) const {
    if (last == 0) return static_cast<float>(options_.tau);
    const bool target = options_.adapt == "target";
    const auto low = static_cast<float>(target ? options_.target : options_.min_share);  // as the share is rounded
    const auto high = static_cast<float>(target ? options_.target : options_.max_share);
    double tau = last;
    if (options_.adapt != "none" && share < low) tau *= options_.rate;
    else if (options_.adapt != "none" && share > high) tau /= options_.rate;
    return std::clamp(static_cast<float>(tau), kSmallestTau, kLargestTau);
  }

  static void take(float* residual, float tau) { *residual -= *residual < 0 ? -tau : tau; }

  // 0: nothing to send, or the bitmap is shorter.
  size_t write_list(const float* v, int64_t n, int64_t count, const uint64_t* masks, PayloadHeader* header, std::byte* body) const {
    const size_t most = bitmap_bytes(n);
    if (options_.indices == "int32") {
      header->variant = kTauInt32;
      if (static_cast<size_t>(count) * 4 > most || n > INT32_MAX) return 0;
      std::byte* out = body;
      each_set(masks, n, [&](int64_t i) {
        const auto index = static_cast<int32_t>(v[i] < 0 ? -(i + 1) : i + 1);
        std::memcpy(out, &index, sizeof index);
        out += sizeof index;
      });
      return static_cast<size_t>(out - body);
    }
    if (static_cast<size_t>(count) > most) return 0;
    // Written up to where it no longer pays, then given up.
    std::byte* out = body;
    std::byte* const end = body + most;
    int64_t next = 0;
    for (int64_t word = 0; word * 64 < n; ++word)
      for (uint64_t rest = masks[word]; rest != 0; rest &= rest - 1) {
        const int64_t i = word * 64 + __builtin_ctzll(rest);
        const uint64_t value = static_cast<uint64_t>(i - next) << 1 | static_cast<uint64_t>(v[i] < 0);
        if (static_cast<size_t>(end - out) < gap_bytes(value)) return 0;
        out = write_gap(value, out);
        next = i + 1;
      }
    return static_cast<size_t>(out - body);
  }

  size_t write_bitmap(const float* v, int64_t n, float tau, float* residual, std::byte* body) const {
    loops().quantize({.x = v,
                      .residual = residual,
                      .decay = 0,  // v holds it already
                      .n = n,
                      .block = kTauBlock,
                      .bits = 2,
                      .levels = Levels::threshold,
                      .scale = tau,
                      .codes = body});
    return bitmap_bytes(n);
  }

  static bool add_gaps(std::span<const std::byte> body, int64_t count, float step, std::span<float> sum) {
    if (!valid_gaps(body, count, static_cast<int64_t>(sum.size()), true)) return false;
    const std::byte* at = body.data();
    const std::byte* const end = at + body.size();
    for (size_t position = 0; at != end; ++position) {
      uint64_t value = 0;
      read_gap(at, end, &value);
      position += value >> 1;
      sum[position] += value & 1 ? -step : step;
    }
    return true;
  }

  static bool add_int32(std::span<const std::byte> body, int64_t count, float step, std::span<float> sum) {
    if (body.size() % sizeof(int32_t) != 0 || static_cast<int64_t>(body.size() / sizeof(int32_t)) != count) return false;
    const auto index = [&](size_t at) {
      int32_t signed_one;
      std::memcpy(&signed_one, body.data() + at, sizeof signed_one);
      return int64_t{signed_one};
    };
    int64_t last = 0;
    for (size_t at = 0; at < body.size(); at += sizeof(int32_t)) {
      const int64_t one = std::abs(index(at));
      if (one <= last || one > static_cast<int64_t>(sum.size())) return false;
      last = one;
    }
    for (size_t at = 0; at < body.size(); at += sizeof(int32_t)) {
      const int64_t one = index(at);
      sum[static_cast<size_t>(std::abs(one) - 1)] += one < 0 ? -step : step;
    }
    return true;
  }

  ThresholdOptions options_;
};

std::unique_ptr<Codec> make_threshold(const Config& config, const CodecSetup& setup) {
  ThresholdOptions options;
  options.tau = config.number("tau");
  options.adapt = config.choice("adapt");
  options.min_share = config.number("min_share");
  options.max_share = config.number_in("max_share", options.min_share, 1, 1e-2);
  options.target = config.number("target");
  options.rate = config.number("rate");
  options.clip = config.number("clip");
  if (options.clip > 0 && options.clip < 1) config.fail("clip", "would cut what the next round sends", "", "0 or at least 1");
  options.clip_every = config.integer("clip_every");
  options.indices = config.choice("indices");
  return std::make_unique<ThresholdCodec>(setup, std::move(options));
}

}  // namespace

extern const CodecDef codec_threshold;
const CodecDef codec_threshold{.name = "threshold",
                               .doc = "+tau or -tau of each element that has gathered as much (Strom, Deeplearning4j).",
                               .format = 10,
                               .schema = {.options = kThresholdOptions},
                               .make = make_threshold};

}  // namespace perigee
