// k elements that (seed, round, number of the segment's first element) choose, the same for every worker: only their values travel, and
// sums of values are values of sums.
// Size: 16 + 8 k + 8 seed + 8 round + values of k (value_list.h).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cluster/codec/value_list.h"
#include "kernels/random_positions.h"

namespace perigee {
namespace {

constexpr std::array<Option, 4> kRandomkOwn = {{
    {"share", "number", "0.01", "of the elements that is sent", {1e-6, 1}},
    {"count", "integer", "0", "elements of a segment that are sent, instead of a share", {0}},
    {"unbiased", "boolean", "false", "what is sent is multiplied by n / k: right on average; without feedback only"},
    ValueList::kOption,
}};
constexpr auto kRandomkOptions = join_options(kRandomkOwn, common_options("true"));

RandomPositions positions_of(const RandomChoice& choice, const CodecSegment& segment) {
  return {choice, segment.count, static_cast<uint64_t>(segment.first)};
}

class RandomKCodec final : public Codec {
 public:
  RandomKCodec(const CodecSetup& setup, double share, int64_t count, bool unbiased, ValueList values)
      : Codec(setup), share_(share), count_(count), unbiased_(unbiased), values_(values) {}

  size_t bound(const CodecSegment& segment) const override {
    return kPayloadHeader + (segment.count > 0 ? sizeof(RandomChoice) + values_.bytes(chosen(segment.count)) : 0);
  }
  double bits_per_element(const CodecSegment& segment) const override {
    return segment.count > 0 ? 8.0 * static_cast<double>(values_.bytes(chosen(segment.count))) / static_cast<double>(segment.count) : 0;
  }
  size_t scratch_bytes(const CodecSegment& segment) const override { return static_cast<size_t>(chosen(segment.count)) * sizeof(float); }

  int passes() const override { return values_.format() == ValueList::Format::fp32 ? 1 : 0; }
  int64_t part_floats(const CodecSegment& segment, int) const override { return passes() == 1 ? chosen(segment.count) : 0; }

  bool make_part(const EncodeCall& call, int, std::span<float> parts) const override {
    if (passes() == 0 || !encodable(call)) return false;
    if (call.segment.count > 0) gather(call, positions_of(choice(call), call.segment), parts.data());
    return true;
  }

  void add_parts(const EncodeCall& call, std::span<const float> parts, float weight, std::span<float> sum) const override {
    if (call.segment.count == 0) return;
    const RandomPositions positions = positions_of(choice(call), call.segment);
    for (int64_t j = 0; j < chosen(call.segment.count); ++j) sum[positions.at(j)] += weight * parts[static_cast<size_t>(j)];
  }

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const override {
    const RandomChoice chosen = choice(call);
    const RandomPositions positions = positions_of(chosen, call.segment);
    auto* sent = reinterpret_cast<float*>(call.scratch.data());
    gather(call, positions, sent);
    header->variant = static_cast<uint16_t>(values_.format());
    std::memcpy(body, &chosen, sizeof chosen);
    values_.write(loops(), sent, chosen.k, body + sizeof chosen);
    if (feedback())
      for (int64_t j = 0; j < chosen.k; ++j) call.residual[positions.at(j)] = sent[j];
    return sizeof chosen + values_.bytes(chosen.k);
  }

  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte>) const override {
    RandomChoice choice;
    if (header.variant != static_cast<uint16_t>(values_.format()) || header.detail != 0 || body.size() < sizeof choice) return false;
    std::memcpy(&choice, body.data(), sizeof choice);
    const auto values = body.subspan(sizeof choice);
    if (choice.k != chosen(segment.count) || !values_.valid(values, choice.k)) return false;
    const RandomPositions positions = positions_of(choice, segment);
    values_.each(values.data(), choice.k, [&](int64_t j, float value) { sum[positions.at(j)] += weight * value; });
    return true;
  }

  void add_options(Json* json) const override {
    json->set("share", share_), json->set("count", count_), json->set("unbiased", unbiased_), json->set("values", values_.name());
  }

 private:
  int64_t chosen(int64_t n) const { return chosen_elements(count_, share_, n); }
  RandomChoice choice(const EncodeCall& call) const { return {chosen(call.segment.count), call.seed, call.round}; }

  void gather(const EncodeCall& call, const RandomPositions& positions, float* sent) const {
    const int64_t k = chosen(call.segment.count);
    const float* v = call.values.data();
    if (feedback()) {
      loops().fold(v, call.residual.data(), decay(), call.segment.count);
      v = call.residual.data();
    }
    const float factor = unbiased_ ? static_cast<float>(static_cast<double>(call.segment.count) / static_cast<double>(k)) : 1;
    for (int64_t j = 0; j < k; ++j) {
      const size_t i = positions.at(j);
      sent[j] = factor * v[i];
      if (feedback()) call.residual[i] = 0;
    }
  }

  double share_;
  int64_t count_;
  bool unbiased_;
  ValueList values_;
};

std::unique_ptr<Codec> make_randomk(const Config& config, const CodecSetup& setup) {
  const double share = config.number("share");
  const bool unbiased = config.boolean("unbiased");
  if (unbiased && setup.feedback)
    config.fail("unbiased", "is given together with feedback", "", "feedback = false", "what feedback keeps would be counted twice");
  return std::make_unique<RandomKCodec>(setup, share, config.integer("count"), unbiased, ValueList::read(config));
}

}  // namespace

extern const CodecDef codec_randomk;
const CodecDef codec_randomk{.name = "randomk",
                             .doc = "Elements chosen by chance, the same in all workers; can be all-reduced.",
                             .format = 9,
                             .schema = {.options = kRandomkOptions},
                             .make = make_randomk};

}  // namespace perigee
