// The codecs' kernels, run on the host: payloads, residuals, states and sums have the bits of the codecs of cluster/codec.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "cluster/codec/cuda_codec.h"
#include "tests/cluster/codec_trial.h"
#include "tests/cuda/shim/shim.h"

namespace perigee {
namespace {

constexpr size_t kBorder = 16;  // of bodies and scratch

std::string label(const std::string& spec, const CodecSegment& segment) { return spec + " of " + std::to_string(segment.count); }

// A trial whose memory is the device's.
struct CudaTrial {
  CudaTrial(const std::string& spec, const CodecSegment& where) : host(spec, where), segment(where) {
    codec = make_cuda_codec(*host.codec, codec_cuda(), &why);
  }

  std::vector<std::byte> encode(std::span<const float> values, uint64_t round) {
    if (segment.count == 0) return finish({}, {});
    shim::Array<float> x("values", values), residual("residual", host.residual), state("state", host.state);
    shim::Buffer scratch("scratch", codec->scratch_bytes(segment), kBorder);
    shim::Buffer body("body", host.codec->bound(segment) - kPayloadHeader, kBorder);
    shim::Array<CudaEncoded> encoded("encoded", 1);
    const EncodeCall call = host.call(values, round);
    EXPECT_EQ(codec->encode({.segment = segment,
                             .values = x.data(),
                             .residual = host.codec->feedback() ? residual.data() : nullptr,
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
    host.residual = residual.read(), host.state = state.read();
    return finish(*encoded.data(), {body.data(), body.size()});
  }

  bool add(std::span<const std::byte> bytes, std::vector<float>* sum, float weight) {
    if (bytes.size() < kPayloadHeader) return false;
    shim::Array<std::byte> body("body", bytes.subspan(kPayloadHeader), kBorder);
    shim::Array<float> to("sum", *sum);
    shim::Buffer scratch("scratch", codec->scratch_bytes(segment), kBorder);
    shim::Array<uint32_t> refused("refused", 1);
    *refused.data() = 0;
    int status = 0;
    const bool queued = codec->decode_add(
        bytes.first(std::min(bytes.size(), CudaCodec::kStart)), bytes.size(),
        {.segment = segment, .body = body.data(), .weight = weight, .sum = to.data(), .scratch = scratch.data(), .refused = refused.data()},
        nullptr, &status);
    EXPECT_EQ(status, 0);
    *sum = to.read();
    return queued && *refused.data() == 0;
  }

  Trial host;  // its residual and state are kept here between calls
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

// Borders of warps, of tiles of 1024, of blocks that share a scale, and of what lies beside them.
std::vector<CodecSegment> segments() {
  return {{0, 0, 0}, {0, 1, 0}, {5, 7, 0}, {3, 65, 0}, {1000, 1000, 25}, {9, 1024, 0}, {1 << 20, 4113, 9}};
}

template <class Check>
void for_each_trial(Check check) {
  for (const std::string& spec : codec_specs())
    for (const CodecSegment& segment : segments())
      for (const shim::Order order : shim::kOrders) {
        shim::set_order(order, static_cast<uint32_t>(segment.count));
        SCOPED_TRACE(label(spec, segment) + ", threads " + shim::name_of(order));
        CudaTrial trial(spec, segment);
        const std::string name = trial.host.codec->def().name;
        const bool declined = name == "lowrank" || name == "dct" || spec.find("momentum") != std::string::npos;
        ASSERT_EQ(trial.codec == nullptr, declined) << trial.why;
        if (!declined) check(trial, spec);
        if (testing::Test::HasFailure()) return;
      }
}

TEST(CudaCodec, MakesTheBitsOfTheHost) {
  for_each_trial([](CudaTrial& device, const std::string& spec) {
    Trial host(spec, device.segment);
    std::vector<float> host_sum = codec_values(device.segment.count, 77), device_sum = host_sum;
    for (uint64_t round = 4; round < 6; ++round) {
      const std::vector<float> values = codec_values(device.segment.count, static_cast<unsigned>(round));
      const std::vector<std::byte> expected = host.encode(values, round);
      ASSERT_EQ(device.encode(values, round), expected) << round;
      ASSERT_TRUE(same_bits(device.host.residual, host.residual)) << round;
      ASSERT_TRUE(same_bits(device.host.state, host.state)) << round;
      ASSERT_TRUE(host.add(expected, &host_sum, 0.3f));
      ASSERT_TRUE(device.add(expected, &device_sum, 0.3f)) << round;
      ASSERT_TRUE(same_bits(device_sum, host_sum)) << round;
    }
  });
}

}  // namespace
}  // namespace perigee
