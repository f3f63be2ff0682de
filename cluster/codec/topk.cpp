// The k largest magnitudes with their positions; of equal ones the first.
// Size: 16 + 8 + values of k (value_list.h) + one LEB128 gap for each position (below 128 one byte, below 16384 two, ...).
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "cluster/codec/sparse.h"
#include "cluster/codec/value_list.h"

namespace perigee {
namespace {

constexpr std::array<Option, 3> kTopkOwn = {{
    {"share", "number or schedule", "0.01", "of the elements that is sent; or a schedule", {1e-6, 1}},
    {"count", "integer", "0", "elements of a segment that are sent, instead of a share", {0}},
    ValueList::kOption,
}};
constexpr auto kTopkOptions = join_options(kTopkOwn, common_options("true"));
constexpr size_t kTopkCount = 8;  // bytes of the count

class TopKCodec final : public Codec {
 public:
  TopKCodec(const CodecSetup& setup, Json share, int64_t count, ValueList values)
      : Codec(setup), share_(share), schedule_(share, "share"), count_(count), values_(values) {}

  size_t bound(const CodecSegment& segment) const override {
    const int64_t k = most(segment.count);
    return kPayloadHeader + (segment.count > 0 ? kTopkCount : 0) + values_.bytes(k) + gaps_bound(k, segment.count, false);
  }
  double bits_per_element(const CodecSegment& segment) const override {
    const int64_t k = chosen(segment.count, kEnd);
    if (k == 0) return 0;
    const double n = static_cast<double>(segment.count), chance = static_cast<double>(k) / n;
    return 8 * (static_cast<double>(values_.bytes(k)) / n + chance * average_gap_bytes(chance, false));
  }
  size_t scratch_bytes(const CodecSegment& segment) const override {
    return mask_bytes(segment) + static_cast<size_t>(most(segment.count)) * sizeof(float);
  }
  bool marks_sent() const override { return true; }

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const override {
    const int64_t n = call.segment.count, k = chosen(n, call.when);
    const float* v = call.values.data();
    if (feedback()) {
      loops().fold(v, call.residual.data(), decay(), n);
      v = call.residual.data();
    }
    auto* masks = reinterpret_cast<uint64_t*>(call.scratch.data());
    auto* sent = reinterpret_cast<float*>(call.scratch.data() + mask_bytes(call.segment));
    const std::byte* const end = choose(v, n, k, masks, sent, body + kTopkCount + values_.bytes(k));
    header->variant = static_cast<uint16_t>(values_.format());
    std::memcpy(body, &k, kTopkCount);
    values_.write(loops(), sent, k, body + kTopkCount);
    if (feedback()) {
      int64_t j = 0;
      each_set(masks, n, [&](int64_t i) { call.residual[static_cast<size_t>(i)] = sent[j++]; });
    }
    return static_cast<size_t>(end - body);
  }

  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte>) const override {
    int64_t count;
    if (body.size() < kTopkCount) return false;
    std::memcpy(&count, body.data(), kTopkCount);
    if (scheduled() ? count < 1 || count > segment.count : count != most(segment.count)) return false;
    const int64_t k = count;
    if (header.variant != static_cast<uint16_t>(values_.format()) || header.detail != 0) return false;
    if (body.size() < kTopkCount + values_.bytes(k)) return false;
    const auto gaps = body.subspan(kTopkCount + values_.bytes(k));
    if (!values_.valid(body.subspan(kTopkCount, values_.bytes(k)), k) || !valid_gaps(gaps, k, segment.count, false)) return false;
    const std::byte* at = gaps.data();
    const std::byte* const end = at + gaps.size();
    size_t position = 0;
    values_.each(body.data() + kTopkCount, k, [&](int64_t, float value) {
      uint64_t gap = 0;
      read_gap(at, end, &gap);
      position += gap;
      sum[position++] += weight * value;
    });
    return true;
  }

  void add_options(Json* json) const override {
    json->set("share", share_), json->set("count", count_), json->set("values", values_.name());
  }

 private:
  static constexpr StepProgress kEnd = {.progress = 1, .epoch = 1e9, .step = INT64_MAX};

  bool scheduled() const { return count_ == 0 && !schedule_.fixed(); }
  int64_t chosen(int64_t n, const StepProgress& when) const { return chosen_elements(count_, schedule_.at(when), n); }
  int64_t most(int64_t n) const { return scheduled() ? n : chosen(n, kEnd); }
  static size_t mask_bytes(const CodecSegment& segment) { return static_cast<size_t>((segment.count + 63) / 64) * sizeof(uint64_t); }

  // Leaves the chosen elements in the masks and in `sent`, and writes their gaps.
  std::byte* choose(const float* v, int64_t n, int64_t k, uint64_t* masks, float* sent, std::byte* out) const {
    const Selection least = select_largest(loops(), v, n, k, masks);
    int64_t j = 0, ties = least.ties, next = 0;
    each_set(masks, n, [&](int64_t i) {
      if (std::abs(v[i]) == least.magnitude && ties-- <= 0) {
        masks[i / 64] &= ~(uint64_t{1} << (i % 64));
        return;
      }
      sent[j++] = v[i];
      out = write_gap(static_cast<uint64_t>(i - next), out);
      next = i + 1;
    });
    assert(j == k);
    return out;
  }

  Json share_;
  Schedule schedule_;
  int64_t count_;
  ValueList values_;
};

std::unique_ptr<Codec> make_topk(const Config& config, const CodecSetup& setup) {
  const Json* given = config.raw("share");
  const Json share = given && given->is_object() ? *given : Json(config.number("share"));
  return std::make_unique<TopKCodec>(setup, share, config.integer("count"), ValueList::read(config));
}

}  // namespace

extern const CodecDef codec_topk;
const CodecDef codec_topk{.name = "topk",
                          .doc = "The largest share of the elements, with their positions.",
                          .format = 8,
                          .schema = {.options = kTopkOptions},
                          .make = make_topk};

}  // namespace perigee
