#include "cluster/codec/codec.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "cluster/codec/wrapped/momentum.h"
#include "cluster/codec/wrapped/zstd.h"
#include "kernels/half.h"

namespace perigee {

static_assert(std::endian::native == std::endian::little, "payloads are written as they lie in memory");

float Codec::limit() const { return 0x1p100f; }  // the sum of a block's magnitudes stays finite

Json Codec::to_json() const {
  Json json = Json::object();
  json.set("type", def().name);
  add_options(&json);
  json.set("feedback", feedback()), json.set("decay", setup().decay), json.set("momentum", 0.0), json.set("clip_norm", 0.0),
      json.set("zstd", 0);
  return json;
}

bool Codec::encodable(const EncodeCall& call) const {
  const float* residual = call.residual.empty() ? nullptr : call.residual.data();
  return loops().largest(call.values.data(), residual, decay(), call.segment.count) <= bits_from_float(limit());
}

size_t Codec::encode(const EncodeCall& call, std::span<std::byte> out) const {
  const CodecSegment& segment = call.segment;
  assert(segment.count >= 0 && call.values.size() == static_cast<size_t>(segment.count));
  assert(call.residual.size() == (feedback() ? call.values.size() : 0));
  assert(segment.rows == 0 || segment.count % segment.rows == 0);
  assert(call.state.size() >= state_floats(segment) && call.scratch.size() >= scratch_bytes(segment) && out.size() >= bound(segment));
  if (!encodable(call)) return 0;
  PayloadHeader header{.format = def().format, .elements = static_cast<uint64_t>(segment.count)};
  const size_t body = segment.count > 0 ? encode_body(call, &header, out.data() + kPayloadHeader) : 0;
  std::memcpy(out.data(), &header, sizeof header);
  assert(kPayloadHeader + body <= bound(segment));
  return kPayloadHeader + body;
}

bool Codec::decode_add(std::span<const std::byte> bytes, float weight, const CodecSegment& segment, std::span<float> sum,
                       std::span<std::byte> scratch) const {
  assert(sum.size() == static_cast<size_t>(segment.count) && scratch.size() >= scratch_bytes(segment));
  PayloadHeader header;
  if (bytes.size() < sizeof header || bytes.size() > bound(segment)) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.format != def().format || header.version != 1 || header.elements != static_cast<uint64_t>(segment.count)) return false;
  if (segment.count == 0) return bytes.size() == sizeof header && header.variant == 0 && header.detail == 0;
  return decode_body(header, bytes.subspan(sizeof header), weight, segment, sum, scratch);
}

std::unique_ptr<Codec> make_codec(const Json* spec, const std::string& where, const CodecLoops& loops) {
  Json described = Json::object();
  if (spec != nullptr && spec->is_string()) described.set("type", *spec);
  else if (spec != nullptr && !spec->is_null()) described = *spec;
  const Config named(described, where.empty() ? "codec" : where + ": codec");
  std::vector<std::string> names;
  for (const CodecDef* def : all_codecs()) names.emplace_back(def->name);
  const std::string name = named.choice("type", "fp32", names);
  CodecSetup setup{.loops = &loops};
  for (const CodecDef* def : all_codecs())
    if (name == def->name) setup.def = def;
  assert(setup.def != nullptr);
  const Config config = named.with(setup.def->schema);
  setup.feedback = config.boolean("feedback");
  setup.decay = config.number("decay");
  const int64_t level = config.integer("zstd");
  const double momentum = config.number("momentum"), clip_norm = config.number("clip_norm");
  std::unique_ptr<Codec> codec = setup.def->make(config, setup);
  if (momentum > 0 || clip_norm > 0) {
    if (codec->passes() > 0 && name != "fp32")
      config.fail(momentum > 0 ? "momentum" : "clip_norm", "has no place before sums over the workers", name, "a codec of payloads",
                  "give the optimiser momentum: it comes after the sum");
    codec = make_momentum_codec(std::move(codec), setup, momentum, clip_norm);
  }
  return level > 0 ? make_zstd_codec(std::move(codec), setup, static_cast<int>(level)) : std::move(codec);
}

}  // namespace perigee
