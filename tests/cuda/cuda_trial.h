// A trial of a codec (tests/cluster/exchange/codec_trial.h) whose memory is the device's: the shim's, or a GPU's. `Memory::Array<T>(name, count or
// values, alignment)` has data() and read().
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "cluster/codec/cuda_codec.h"
#include "tests/cluster/exchange/codec_trial.h"

namespace perigee {

// Ops that the device leaves to the host.
inline bool stays_on_the_host(const std::string& spec) {
  for (const char* word : {"lowrank", "dct", "zstd", "momentum", "nonzero"})
    if (spec.find(word) != std::string::npos) return true;
  return false;
}

template <class Memory>
struct CudaTrial {
  static constexpr size_t kBorder = 16;  // of bodies and scratch
  template <class T>
  using Array = typename Memory::template Array<T>;

  CudaTrial(const std::string& spec, const CodecSegment& where, const CudaCodecs& kernels) : host(spec, where), segment(where) {
    codec = make_cuda_codec(*host.codec, kernels, &why);
  }

  std::vector<std::byte> encode(std::span<const float> values, uint64_t round) {
    if (segment.count == 0) return finish({}, {});
    const Array<float> x("values", values), residual("residual", host.residual), state("state", host.state);
    const Array<float> next("what is left over", host.residual.size());
    const Array<std::byte> scratch("scratch", codec->scratch_bytes(segment), kBorder);
    const Array<std::byte> body("body", host.codec->bound(segment) - kPayloadHeader, kBorder);
    const Array<CudaEncoded> encoded("encoded", 1);
    const EncodeCall call = host.call(values, round);
    EXPECT_EQ(codec->encode({.segment = segment,
                             .values = x.data(),
                             .residual = host.codec->feedback() ? residual.data() : nullptr,
                             .next = apart ? next.data() : nullptr,
                             .state = state.data(),
                             .seed = call.seed,
                             .round = round,
                             .stream = call.stream,
                             .when = call.when,
                             .scratch = scratch.data(),
                             .body = body.data(),
                             .encoded = encoded.data()},
                            nullptr),
              0);
    EXPECT_TRUE(same_bits(x.read(), {values.begin(), values.end()}));
    host.state = state.read();
    std::vector<std::byte> payload = finish(encoded.read().front(), body.read());
    if (apart && host.codec->feedback()) {
      EXPECT_TRUE(same_bits(residual.read(), host.residual));
      if (!payload.empty()) host.residual = next.read();
    } else {
      host.residual = residual.read();
    }
    return payload;
  }

  bool add(std::span<const std::byte> bytes, std::vector<float>* sum, float weight = 1) {
    const std::span<const std::byte> start = bytes.first(std::min(bytes.size(), CudaCodec::kStart));
    const Array<std::byte> body("body", bytes.subspan(std::min(bytes.size(), kPayloadHeader)), kBorder);
    const Array<float> to("sum", *sum);
    const Array<std::byte> scratch("scratch", codec->scratch_bytes(segment), kBorder);
    const Array<uint32_t> refused("refused", std::array<uint32_t, 1>{});
    int status = 0;
    const bool queued = codec->decode_add(
        start, bytes.size(),
        {.segment = segment, .body = body.data(), .weight = weight, .sum = to.data(), .scratch = scratch.data(), .refused = refused.data()},
        nullptr, &status);
    EXPECT_EQ(status, 0);
    *sum = to.read();
    return queued && refused.read().front() == 0;
  }

  bool apart = false;  // threshold: what is left over goes to memory of its own
  Trial host;          // its residual and state are kept here between calls
  CodecSegment segment;
  std::string why;
  std::unique_ptr<CudaCodec> codec;

 private:
  std::vector<std::byte> finish(const CudaEncoded& encoded, std::span<const std::byte> body) {
    std::array<std::byte, kPayloadHeader> header;
    const size_t bytes = codec->finish(encoded, segment, header);
    if (bytes == 0) return {};
    std::vector<std::byte> payload(header.begin(), header.end());
    payload.insert(payload.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(bytes - kPayloadHeader));
    return payload;
  }
};

// Payloads, residuals, states and sums of two rounds have the bits of the host's.
template <class Memory>
void expect_the_hosts_bits(const std::string& spec, const CodecSegment& segment, const CudaCodecs& kernels, bool apart = false) {
  SCOPED_TRACE(spec + " of " + std::to_string(segment.count));
  if (!apart && spec.find("\"threshold\"") != std::string::npos) expect_the_hosts_bits<Memory>(spec, segment, kernels, true);
  CudaTrial<Memory> device(spec, segment, kernels);
  device.apart = apart;
  ASSERT_EQ(device.codec == nullptr, stays_on_the_host(spec)) << device.why;
  if (!device.codec) return;
  Trial host(spec, segment);
  std::vector<float> host_sum = codec_values(segment.count, 77), device_sum = host_sum;
  for (uint64_t round = 4; round < 6; ++round) {  // threshold clips in the fifth
    const std::vector<float> values = codec_values(segment.count, static_cast<unsigned>(round));
    const std::vector<std::byte> expected = host.encode(values, round);
    ASSERT_EQ(device.encode(values, round), expected) << round;
    ASSERT_TRUE(same_bits(device.host.residual, host.residual)) << round;
    ASSERT_TRUE(same_bits(device.host.state, host.state)) << round;
    ASSERT_TRUE(host.add(expected, &host_sum, 0.3f));
    ASSERT_TRUE(device.add(expected, &device_sum, 0.3f)) << round;
    ASSERT_TRUE(same_bits(device_sum, host_sum)) << round;
  }
}

}  // namespace perigee
