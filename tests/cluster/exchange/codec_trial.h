// One worker's codec with everything that it is given: for the tests of codecs.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cluster/codec/codec.h"

namespace perigee {

inline std::unique_ptr<Codec> codec_of(const std::string& text, const CodecLoops& loops) {
  const Json spec = Json::parse(text, "test");
  return make_codec(&spec, "test", loops);
}

// Every codec with its defaults, then what else each can be. A new codec is tested by its defaults at least.
inline std::vector<std::string> codec_specs() {
  std::vector<std::string> specs;
  for (const CodecDef* def : all_codecs()) {
    const std::string name = std::string("{\"type\": \"") + def->name + "\"";
    specs.push_back(name + ", \"feedback\": false}");
    specs.push_back(name + ", \"feedback\": true}");
    specs.push_back(name + ", \"feedback\": true, \"decay\": 0.9}");
  }
  for (const char* more : {
           R"({"type": "int8", "rounding": "stochastic", "block": 128})",
           R"({"type": "int4", "rounding": "stochastic", "feedback": true})",
           R"({"type": "int2", "rounding": "stochastic", "feedback": false})",
           R"({"type": "int2", "scale": "largest", "block": 64})",
           R"({"type": "sign", "block": 4096})",
           R"({"type": "topk", "share": 0.2, "values": "bf16"})",
           R"({"type": "topk", "share": 0.5, "values": "int8"})",
           R"({"type": "topk", "count": 7, "feedback": false})",
           R"({"type": "topk", "share": 1})",
           R"({"type": "randomk", "share": 0.3, "values": "int8"})",
           R"({"type": "randomk", "count": 9, "feedback": false, "unbiased": true})",
           R"({"type": "threshold", "tau": 2.5})",
           R"({"type": "threshold", "tau": 0.7})",
           R"({"type": "threshold", "tau": 2.5, "indices": "int32"})",
           R"({"type": "threshold", "tau": 0.5, "adapt": "range", "clip": 5})",
           R"({"type": "threshold", "tau": 3, "adapt": "target", "feedback": false})",
           R"({"type": "lowrank", "rank": 5})",
           R"({"type": "dct", "count": 1, "values": "int8"})",
           R"({"type": "dct", "count": 64, "values": "bf16", "decay": 0.999})",
           R"({"type": "sign", "scale": "one", "feedback": false, "block": 64})",
           R"({"type": "topk", "share": 0.1, "momentum": 0.9, "clip_norm": 2})",
           R"({"type": "sign", "scale": "one", "feedback": false, "momentum": 0.9})",
           R"({"type": "threshold", "tau": 0.7, "momentum": 0.5, "zstd": 1})",
           R"({"type": "topk", "share": {"type": "map", "by": "step", "values": {"0": 0.5, "1": 0.02}}})",
       })
    specs.push_back(more);
  return specs;
}

inline std::vector<CodecSegment> codec_segments() {
  return {{0, 0, 0}, {0, 1, 0}, {5, 7, 0}, {1, 63, 7}, {64, 64, 8}, {3, 65, 0}, {1000, 1000, 25}, {1 << 20, 4113, 9}, {7, 20000, 100}};
}

// Normal numbers of many sizes, with zeros among them.
inline std::vector<float> codec_values(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) {
    v = normal(random);
    if (random() % 16 == 0) v *= 1e-6f;
    if (random() % 32 == 0) v = 0;
    if (random() % 64 == 0) v *= 8;
  }
  return values;
}

struct Trial {
  Trial(const std::string& spec, const CodecSegment& where, const CodecLoops& loops = codec_loops_ref())
      : codec(codec_of(spec, loops)),
        segment(where),
        residual(codec->feedback() ? static_cast<size_t>(where.count) : 0),
        state(codec->state_floats(where)),
        room((codec->scratch_bytes(where) + 127) / 64 * 64),
        out(codec->bound(where)) {}

  EncodeCall call(std::span<const float> values, uint64_t round = 0) {
    return {.segment = segment,
            .values = values,
            .residual = residual,
            .state = state,
            .seed = 42,
            .round = round,
            .stream = 3,
            .scratch = scratch()};
  }
  std::span<std::byte> scratch() {
    const size_t skip = (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64;
    return std::span(room).subspan(skip, room.size() - 64);
  }
  // Exactly as long as it is, so that a sanitizer sees who reads on.
  std::vector<std::byte> encode(std::span<const float> values, uint64_t round = 0) {
    const size_t bytes = codec->encode(call(values, round), out);
    return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(bytes)};
  }
  bool add(std::span<const std::byte> bytes, std::vector<float>* sum, float weight = 1) {
    return codec->decode_add(bytes, weight, segment, *sum, scratch());
  }
  std::vector<float> decode(std::span<const std::byte> bytes, bool* ok) {
    std::vector<float> sum(static_cast<size_t>(segment.count));
    *ok = add(bytes, &sum);
    return sum;
  }

  std::unique_ptr<Codec> codec;
  CodecSegment segment;
  std::vector<float> residual, state;
  std::vector<std::byte> room, out;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace perigee
