// Every codec's decoder, by the first bytes' choice of codec and segment: arbitrary bytes are refused and leave the sum as it was, or
// stand for finite numbers. With the loops of ref, which are checked to do what the others do.
#include "cluster/codec/codec.h"

#include <cmath>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

using namespace perigee;

const char* const kMore[] = {
    R"({"type": "topk", "share": 0.5, "values": "int8"})",
    R"({"type": "topk", "share": 0.3, "values": "bf16"})",
    R"({"type": "randomk", "share": 0.3, "values": "int8"})",
    R"({"type": "threshold", "indices": "int32"})",
    R"({"type": "threshold", "zstd": 1})",
    R"({"type": "topk", "share": 0.5, "values": "int8", "zstd": 1})",
    R"({"type": "int2", "block": 64})",
    R"({"type": "lowrank", "rank": 5})",
    R"({"type": "dct", "count": 3, "values": "int8"})",
    R"({"type": "dct", "count": 64, "values": "bf16", "zstd": 1})",
    R"({"type": "sign", "scale": "one", "feedback": false, "block": 64})",
    R"({"type": "topk", "share": {"type": "map", "by": "step", "values": {"0": 0.5, "1": 0.02}}, "momentum": 0.9})",
};

std::vector<std::unique_ptr<Codec>> make_all() {
  std::vector<std::unique_ptr<Codec>> codecs;
  for (const CodecDef* def : all_codecs()) {
    const Json name(def->name);
    codecs.push_back(make_codec(&name, "fuzz", codec_loops_ref()));
  }
  for (const char* text : kMore) {
    const Json spec = Json::parse(text, "fuzz");
    codecs.push_back(make_codec(&spec, "fuzz", codec_loops_ref()));
  }
  return codecs;
}

// The payload of ordinary values, so that what is fuzzed begins near what is genuine.
std::vector<std::byte> genuine(const Codec& codec, const CodecSegment& segment, std::span<std::byte> scratch) {
  std::vector<float> values(static_cast<size_t>(segment.count)), residual(codec.feedback() ? values.size() : 0);
  std::vector<float> state(codec.state_floats(segment));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) * 1e-3f - 2e-3f;
  std::vector<std::byte> out(codec.bound(segment));
  out.resize(codec.encode({.segment = segment, .values = values, .residual = residual, .state = state, .scratch = scratch}, out));
  PERIGEE_FUZZ_CHECK(!out.empty());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::unique_ptr<Codec>> codecs = make_all();
  if (size < 4) return 0;
  const Codec& codec = *codecs[data[0] % codecs.size()];
  CodecSegment segment{.first = data[3], .count = data[1] | (data[2] & 3) << 8};
  if (data[2] & 4) segment.rows = 5, segment.count -= segment.count % 5;
  std::vector<std::byte> room(codec.scratch_bytes(segment) + 64);
  const std::span scratch = std::span(room).subspan((64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64);
  const auto input = fuzz_bytes(data + 4, size - 4);
  std::vector<std::byte> bytes(input.begin(), input.end());
  if (data[2] & 8) {  // changes to what is genuine: pairs of place and byte
    const std::vector<std::byte> changes = bytes;
    bytes = genuine(codec, segment, scratch);
    for (size_t i = 0; i + 2 < changes.size(); i += 3)
      bytes[(static_cast<size_t>(changes[i]) << 8 | static_cast<size_t>(changes[i + 1])) % bytes.size()] ^= changes[i + 2];
  }
  std::vector<float> sum(static_cast<size_t>(segment.count), 0.5f);
  const bool taken = codec.decode_add(bytes, 0.25f, segment, sum, scratch);
  for (const float x : sum) PERIGEE_FUZZ_CHECK(taken ? std::isfinite(x) : x == 0.5f);
  return 0;
}
