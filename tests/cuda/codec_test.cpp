// The codecs' kernels, run on the host: they have the bits of the codecs of cluster/codec whatever the order of the threads, and refuse
// what those refuse.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <limits>

#include "kernels/cuda/codec/codec_sparse.cuh"
#include "kernels/gaps.h"
#include "tests/cuda/cuda_trial.h"
#include "tests/cuda/shim/shim.h"

namespace perigee {
namespace {

struct ShimMemory {
  template <class T>
  using Array = shim::Array<T>;
};
using ShimTrial = CudaTrial<ShimMemory>;

std::vector<std::string> device_specs() {
  std::vector<std::string> specs = codec_specs();
  std::erase_if(specs, stays_on_the_host);
  return specs;
}

void expect_same_in_all_orders(const std::string& spec, const CodecSegment& segment) {
  for (const shim::Order order : shim::kOrders) {
    SCOPED_TRACE(shim::name_of(order));
    shim::set_order(order, static_cast<uint32_t>(segment.count));
    expect_the_hosts_bits<ShimMemory>(spec, segment, codec_cuda());
    if (testing::Test::HasFailure()) return;
  }
}

// Borders of warps, of tiles of 1024, of blocks that share a scale, and sizes beside them.
TEST(CudaCodec, MakesTheBitsOfTheHost) {
  for (const std::string& spec : codec_specs())
    for (const CodecSegment& segment : {CodecSegment{0, 0, 0}, {0, 1, 0}, {5, 7, 0}, {3, 65, 0}, {9, 1024, 0}, {1 << 20, 1503, 9}})
      expect_same_in_all_orders(spec, segment);
}

// More tiles than a block has warps, and more than one block joins at once.
TEST(CudaCodec, ManyTiles) {
  for (const char* spec : {R"({"type": "threshold", "tau": 2.5})", R"({"type": "topk", "share": 0.01})", R"({"type": "randomk"})"})
    expect_same_in_all_orders(spec, {7, 20000, 100});
  shim::set_order(shim::Order::random);
  for (const char* spec : {R"({"type": "threshold", "tau": 4})", R"({"type": "topk", "share": 0.001})"})
    expect_the_hosts_bits<ShimMemory>(spec, {0, 264'201, 0}, codec_cuda());
}

// The first of equal magnitudes are taken, also across many tiles.
TEST(CudaCodec, TiesAcrossTiles) {
  for (const int64_t k : {1, 1500, 2999, 3000}) {
    const std::string spec = "{\"type\": \"topk\", \"count\": " + std::to_string(k) + "}";
    ShimTrial device(spec, {0, 3000, 0}, codec_cuda());
    Trial host(spec, {0, 3000, 0});
    std::vector<float> values(3000, 0.5f);
    for (size_t i = 0; i < values.size(); i += 7) values[i] = i % 2 != 0 ? -0.5f : 0.25f;
    EXPECT_EQ(device.encode(values, 1), host.encode(values, 1)) << k;
    EXPECT_TRUE(same_bits(device.host.residual, host.residual)) << k;
  }
}

// A value equal to tau is sent; a list gives way to the bitmap above so many bytes.
TEST(CudaCodec, BordersOfTheThreshold) {
  shim::set_order(shim::Order::forward);
  for (const char* indices : {"gaps", "int32"})
    for (const int64_t sent : {0, 1, 255, 256, 257, 1023, 1024, 1025, 4096}) {
      const std::string spec = std::string(R"({"type": "threshold", "tau": 1, "indices": ")") + indices + "\"}";
      SCOPED_TRACE(spec + " sends " + std::to_string(sent));
      ShimTrial device(spec, {0, 4096, 0}, codec_cuda());
      Trial host(spec, {0, 4096, 0});
      std::vector<float> values(4096, 0.25f);
      for (int64_t i = 0; i < sent; ++i) values[static_cast<size_t>(i * (4096 / sent))] = i % 3 != 0 ? 1.0f : -1.0f;
      EXPECT_EQ(device.encode(values, 1), host.encode(values, 1));
      EXPECT_TRUE(same_bits(device.host.residual, host.residual) && same_bits(device.host.state, host.state));
    }
}

TEST(CudaCodec, ReportsWhatCannotBeEncodedAndTouchesNothing) {
  shim::set_order(shim::Order::random);
  std::vector<std::pair<std::string, bool>> specs;
  for (const std::string& spec : device_specs()) {
    specs.emplace_back(spec, false);
    if (spec.find("\"threshold\"") != std::string::npos) specs.emplace_back(spec, true);
  }
  for (const auto& [spec, apart] : specs) {
    SCOPED_TRACE(spec);
    ShimTrial trial(spec, {0, 1100, 0}, codec_cuda());
    trial.apart = apart;
    std::vector<float> values = codec_values(1100, 9);
    ASSERT_GT(trial.encode(values, 1).size(), 0u);
    const std::vector<float> residual = trial.host.residual, state = trial.host.state;
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 3e38f}) {
      values[1050] = bad;
      EXPECT_EQ(trial.encode(values, 2).size(), 0u);
      EXPECT_TRUE(same_bits(trial.host.residual, residual) && same_bits(trial.host.state, state));
    }
    values[1050] = 0;
    if (!trial.host.codec->feedback()) continue;
    trial.host.residual[3] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(trial.encode(values, 3).size(), 0u);
  }
}

// The host's answer and the host's sum.
void expect_as_the_host(ShimTrial& device, const std::vector<std::byte>& bytes) {
  const std::vector<float> before = codec_values(device.segment.count, 11);
  std::vector<float> expected = before, sum = before;
  const bool taken = device.host.add(bytes, &expected, 0.7f);
  ASSERT_EQ(device.add(bytes, &sum, 0.7f), taken);
  ASSERT_TRUE(same_bits(sum, expected));
}

TEST(CudaCodec, DamagedPayloadsAreRefusedAsOnTheHost) {
  shim::set_order(shim::Order::reverse);  // who refuses is often the first thread: it comes too late for the others
  for (const std::string& spec : device_specs()) {
    if (spec.find("decay") != std::string::npos) continue;
    SCOPED_TRACE(spec);
    ShimTrial trial(spec, {0, 80, 0}, codec_cuda());
    std::vector<std::byte> bytes = trial.host.encode(codec_values(80, 13));
    ASSERT_GT(bytes.size(), 0u);
    for (size_t length = 0; length < bytes.size(); length += 3)
      expect_as_the_host(trial, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)});
    for (size_t bit = 0; bit < bytes.size() * 8; bit += bit < 40 * 8 ? 2 : 7) {
      const auto mask = static_cast<std::byte>(1u << (bit % 8));
      bytes[bit / 8] ^= mask;
      expect_as_the_host(trial, bytes);
      if (HasFatalFailure()) FAIL() << "bit " << bit;
      bytes[bit / 8] ^= mask;
    }
  }
}

// Lists that lead past the end, by one step or by many; of the longest gaps, of gaps that are too long or do not end.
TEST(CudaCodec, ListsThatLeadTooFarAreRefusedAsOnTheHost) {
  constexpr int64_t kElements = 5000;
  const auto list = [](uint64_t count, const std::function<uint64_t(uint64_t)>& gap) {
    std::vector<std::byte> bytes(kPayloadHeader + sizeof count);
    const PayloadHeader header{.format = 10, .detail = 0x3f800000, .elements = kElements};  // tau = 1
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &count, sizeof count);
    for (uint64_t i = 0; i < count; ++i) {
      std::byte one[kLongestGap];
      bytes.insert(bytes.end(), one, write_gap(gap(i), one));
    }
    return bytes;
  };
  ShimTrial trial(R"("threshold")", {0, kElements, 0}, codec_cuda());
  for (const shim::Order order : shim::kOrders) {
    shim::set_order(order);
    expect_as_the_host(trial, list(0, [](uint64_t) { return 0; }));
    expect_as_the_host(trial, list(1, [](uint64_t) { return 2 * (kElements - 1) + 1; }));
    expect_as_the_host(trial, list(1, [](uint64_t) { return 2 * kElements; }));
    expect_as_the_host(trial, list(50, [](uint64_t i) { return i % 2 + 2 * 99; }));
    expect_as_the_host(trial, list(50, [](uint64_t i) { return 2 * (i == 49 ? 100 : 99); }));
    expect_as_the_host(trial, list(600, [](uint64_t) { return 2 * (kElements - 1); }));
    expect_as_the_host(trial, list(100, [](uint64_t) { return ~uint64_t{0}; }));
    std::vector<std::byte> endless = list(1, [](uint64_t) { return 0; });
    endless.insert(endless.begin() + kPayloadHeader + 8, 1100, std::byte{0x80});
    expect_as_the_host(trial, endless);
    std::vector<std::byte> unfinished = list(3, [](uint64_t) { return 8; });
    unfinished.push_back(std::byte{0x80});
    expect_as_the_host(trial, unfinished);
    if (HasFailure()) return;
  }
}

// With 2^32 elements and more, spans from outside could add up to more than 64 bits hold and seem short again.
TEST(CudaCodec, SpansStayFar) {
  GapSpan span{1, uint64_t{1} << 61};
  for (int i = 0; i < 20; ++i) span = join_spans(span, span);
  EXPECT_EQ(span.span, kFarthest);
}

// Whether something is found to be wrong, in a process of its own: it may touch what it must not.
bool fails(const std::function<void()>& trial) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) close(stream);
    trial();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0;
}

// Without any one of the barriers some order of the threads gives other bits. So none is there in vain, and none can get lost.
TEST(CudaCodec, EveryBarrierIsMissed) {
  const auto trials = [] {
    for (const char* spec : {R"("int8")", R"("sign")", R"({"type": "threshold", "tau": 2.5})", R"({"type": "topk", "share": 0.02})"})
      expect_same_in_all_orders(spec, {0, 6100, 0});
  };
  trials();
  ASSERT_FALSE(HasFailure());
  EXPECT_FALSE(fails(trials));
  const std::vector<std::string> barriers = shim::barriers();
  EXPECT_GT(barriers.size(), 5u);
  for (const std::string& barrier : barriers) {
    if (barrier.starts_with("shim_test")) continue;
    shim::leave_out(barrier);
    EXPECT_TRUE(fails(trials)) << barrier;
  }
  shim::leave_out("");
}

}  // namespace
}  // namespace perigee
