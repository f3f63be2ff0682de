// Properties of single codecs: sizes, errors, statistics, Deeplearning4j's threshold, PowerSGD.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cluster/codec/sparse.h"
#include "tests/cluster/exchange/codec_trial.h"

namespace perigee {
namespace {

CodecSegment flat(int64_t n) { return {.count = n}; }

std::vector<float> decoded(Trial& trial, const std::vector<float>& values, uint64_t round = 0) {
  bool ok = false;
  std::vector<float> sum = trial.decode(trial.encode(values, round), &ok);
  EXPECT_TRUE(ok);
  return sum;
}

TEST(CodecForms, SizesAreThoseOfTheFormulas) {
  struct Case {
    const char* spec;
    size_t bytes;  // of 1000 elements
  };
  for (const auto& [spec, bytes] : {
           Case{R"("fp32")", 16 + 4000},
           Case{R"("bf16")", 16 + 2000},
           Case{R"("fp16")", 16 + 2000},
           Case{R"("int8")", 16 + 4 * 4 + 1000},
           Case{R"("int4")", 16 + 4 * 4 + 500},
           Case{R"("int2")", 16 + 4 + 250},
           Case{R"({"type": "int2", "block": 64})", 16 + 16 * 4 + 250},
           Case{R"("sign")", 16 + 4 + 125},
           Case{R"({"type": "topk", "share": 1})", 16 + 8 + 4000 + 1000},
           Case{R"({"type": "topk", "share": 1, "values": "int8"})", 16 + 8 + 1000 + 4 * 4 + 1000},
           Case{R"({"type": "randomk", "count": 10, "values": "bf16"})", 16 + 24 + 20},
           Case{R"({"type": "threshold", "tau": 1e-9})", 16 + 250},
           Case{R"({"type": "threshold", "tau": 1e9})", 16 + 8},
       }) {
    Trial trial(spec, flat(1000));
    std::vector<float> values(1000, 1);
    EXPECT_EQ(trial.encode(values).size(), bytes) << spec;
  }
  Trial low("\"lowrank\"", {.count = 1000, .rows = 20});
  EXPECT_EQ(low.encode(codec_values(1000, 1)).size(), size_t{16 + 4 * 2 * (20 + 50)});
  Trial raw("\"lowrank\"", flat(1000));
  EXPECT_EQ(raw.encode(codec_values(1000, 1)).size(), size_t{16 + 4000});
}

TEST(CodecForms, ErrorsOfRoundingAreBounded) {
  struct Case {
    const char* spec;
    double relative, of_largest;  // |error| <= relative |v| + of_largest max |v|
  };
  const std::vector<float> values = codec_values(5000, 2);
  float top = 0;
  for (const float v : values) top = std::max(top, std::abs(v));
  for (const auto& [spec, relative, of_largest] :
       {Case{R"("fp32")", 0, 0}, Case{R"({"type": "bf16"})", 1.0 / 256, 0}, Case{R"("fp16")", 1.0 / 2048, 1e-8},
        Case{R"({"type": "int8"})", 0, 0.5001 / 127}, Case{R"({"type": "int8", "rounding": "stochastic"})", 0, 1.0001 / 127},
        Case{R"({"type": "int4"})", 0, 0.5001 / 7}, Case{R"({"type": "int4", "rounding": "stochastic"})", 0, 1.0001 / 7},
        Case{R"({"type": "int2", "scale": "largest"})", 0, 0.5001}, Case{R"({"type": "topk", "share": 1})", 0, 0}}) {
    Trial trial(spec, flat(5000));
    const std::vector<float> got = decoded(trial, values);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got[i], values[i], relative * std::abs(values[i]) + of_largest * top) << spec << " " << i;
  }
}

TEST(CodecForms, TwoBitsOfANormalDistributionLoseAFifth) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(1 << 16);
  for (float& v : values) v = normal(random);
  Trial trial(R"({"type": "int2", "feedback": false})", flat(1 << 16));
  const std::vector<float> got = decoded(trial, values);
  double lost = 0;
  for (size_t i = 0; i < values.size(); ++i) lost += std::pow(values[i] - got[i], 2);
  EXPECT_NEAR(lost / static_cast<double>(values.size()), 0.19, 0.01);
}

TEST(CodecForms, SignSendsTheMeanOfMagnitudes) {
  Trial trial(R"({"type": "sign", "feedback": false})", flat(4));
  EXPECT_EQ(decoded(trial, {1, -2, 3, -6}), (std::vector<float>{3, -3, 3, -3}));
}

TEST(CodecForms, TinyBlocksAreZeros) {
  for (const char* spec : {R"({"type": "int8", "feedback": true})", R"("int2")", R"("sign")"}) {
    Trial trial(spec, flat(3));
    const std::vector<float> values = {1e-38f, -1e-40f, 0};
    EXPECT_EQ(decoded(trial, values), (std::vector<float>{0, 0, 0})) << spec;
    EXPECT_EQ(trial.residual, values) << spec;
  }
}

// Draws are of 16 bits: the mean over many rounds is the value, within what 5 standard deviations of a fixed seed allow.
TEST(CodecForms, StochasticRoundingIsRightOnAverage) {
  constexpr int kRounds = 4000;
  for (const char* spec :
       {R"({"type": "int8", "rounding": "stochastic", "block": 64})", R"({"type": "int4", "rounding": "stochastic", "block": 64})",
        R"({"type": "int2", "rounding": "stochastic", "block": 64, "feedback": false})"}) {
    const std::vector<float> values = codec_values(64, 4);
    Trial trial(spec, flat(64));
    std::vector<float> sum(64);
    std::vector<double> mean(64);
    float top = 0;
    for (const float v : values) top = std::max(top, std::abs(v));
    for (uint64_t round = 0; round < kRounds; ++round) {
      const std::vector<float> one = decoded(trial, values, round);
      for (size_t i = 0; i < one.size(); ++i) mean[i] += static_cast<double>(one[i]) / kRounds;
    }
    const int levels = std::string(spec).find("int8") != std::string::npos   ? 127
                       : std::string(spec).find("int4") != std::string::npos ? 7
                                                                             : 1;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(mean[i], values[i], 5 * 0.5 * static_cast<double>(top) / levels / std::sqrt(kRounds)) << spec << " " << i;
  }
}

TEST(CodecForms, DrawsBelongToTheElementAndTheWorker) {
  const std::string spec = R"({"type": "int4", "rounding": "stochastic", "block": 64})";
  const std::vector<float> values = codec_values(640, 6);
  Trial whole(spec, {.first = 1000, .count = 640});
  const std::vector<float> expected = decoded(whole, values, 7);
  for (int64_t begin = 0; begin < 640; begin += 192) {  // cut elsewhere, at borders of blocks
    const int64_t count = std::min<int64_t>(192, 640 - begin);
    Trial part(spec, {.first = 1000 + begin, .count = count});
    const std::vector<float> got = decoded(part, {values.begin() + begin, values.begin() + begin + count}, 7);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin() + begin)) << begin;
  }
  EncodeCall call = whole.call(values, 7);
  call.stream = 4;
  std::vector<std::byte> other(whole.codec->bound(whole.segment));
  whole.codec->encode(call, other);
  EXPECT_NE(other, whole.encode(values, 7));
  EXPECT_NE(whole.encode(values, 8), whole.encode(values, 7));
}

TEST(CodecForms, TopKTakesTheLargestAndOfEqualOnesTheFirst) {
  Trial trial(R"({"type": "topk", "count": 4, "feedback": false})", flat(9));
  EXPECT_EQ(decoded(trial, {1, -2, 2, 0, 5, 2, -2, 1e-3f, -5}), (std::vector<float>{0, -2, 2, 0, 5, 0, 0, 0, -5}));
  for (const int64_t k : {1, 17, 500, 999, 1000}) {
    Trial many("{\"type\": \"topk\", \"count\": " + std::to_string(k) + "}", flat(1000));
    const std::vector<float> values = codec_values(1000, static_cast<unsigned>(k));
    std::vector<float> sorted = values;
    std::sort(sorted.begin(), sorted.end(), [](float a, float b) { return std::abs(a) > std::abs(b); });
    const std::vector<float> got = decoded(many, values);
    const float least = std::abs(sorted[static_cast<size_t>(k - 1)]);
    int64_t sent = 0, zeros = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      sent += got[i] != 0;
      zeros += values[i] == 0;
      ASSERT_TRUE(std::abs(values[i]) <= least || got[i] == values[i]) << i;
      ASSERT_TRUE(std::abs(values[i]) >= least || got[i] == 0) << i;
    }
    EXPECT_EQ(sent, std::min(k, 1000 - zeros));  // a zero that was sent looks as one that was not
  }
}

TEST(CodecForms, RandomKIsTheSameForAllWorkersAndCoversEverything) {
  Trial a(R"({"type": "randomk", "count": 10, "feedback": false})", flat(105));
  std::vector<int> seen(105);
  for (uint64_t round = 0; round < 300; ++round) {
    const std::vector<float> got = decoded(a, std::vector<float>(105, 1), round);
    EXPECT_EQ(std::count(got.begin(), got.end(), 1.0f), 10);
    for (size_t i = 0; i < got.size(); ++i) seen[i] += got[i] != 0;
  }
  EXPECT_GT(*std::min_element(seen.begin(), seen.end()), 5);  // 28 are expected
  Trial b(R"({"type": "randomk", "count": 10, "feedback": false, "unbiased": true})", flat(100));
  const std::vector<float> scaled = decoded(b, std::vector<float>(100, 1));
  EXPECT_EQ(std::count(scaled.begin(), scaled.end(), 10.0f), 10);
}

// Deeplearning4j: |r| >= tau sends sign(r) tau and takes it off the residual, once a round.
TEST(Threshold, SendsOneStepWhereTauIsReached) {
  for (const char* indices : {"gaps", "int32"}) {
    Trial trial(std::string(R"({"type": "threshold", "tau": 0.5, "indices": ")") + indices + "\"}", flat(64));
    std::vector<float> values(64);
    values[0] = 0.5f, values[1] = -0.5f, values[2] = 0.499f, values[3] = 3, values[63] = -0.75f;
    std::vector<float> expected(64);
    expected[0] = 0.5f, expected[1] = -0.5f, expected[3] = 0.5f, expected[63] = -0.5f;
    EXPECT_EQ(decoded(trial, values), expected) << indices;
    EXPECT_EQ(trial.residual[0], 0);
    EXPECT_EQ(trial.residual[2], 0.499f);
    EXPECT_EQ(trial.residual[3], 2.5f);
    EXPECT_EQ(trial.residual[63], -0.25f);
    // The remainder accumulates: 0.499 + 0.001 reaches it.
    std::vector<float> next(64);
    next[2] = 0.0011f;
    const std::vector<float> then = decoded(trial, next, 1);
    EXPECT_EQ(then[2], 0.5f);
    EXPECT_EQ(then[3], 0.5f);
    EXPECT_EQ(then[0], 0);
  }
}

// U5: 4 bytes for each element sent or 2 bits for each that there is, whichever is less; the bitmap from one above n / 16 on.
TEST(Threshold, TheBitmapTakesOverAboveASixteenth) {
  constexpr int64_t kElements = 4096;
  for (const int64_t sent : {int64_t{0}, int64_t{1}, kElements / 16, kElements / 16 + 1, kElements}) {
    std::vector<float> values(kElements);
    for (int64_t i = 0; i < sent; ++i) values[static_cast<size_t>(i * (kElements / std::max<int64_t>(sent, 1)))] = i % 2 ? 2.0f : -2.0f;
    Trial exact(R"({"type": "threshold", "tau": 1, "indices": "int32", "feedback": false})", flat(kElements));
    const auto bytes = exact.encode(values);
    const bool bitmap = sent > kElements / 16;
    EXPECT_EQ(bytes.size(), kPayloadHeader + (bitmap ? kElements / 4 : 8 + 4 * static_cast<size_t>(sent))) << sent;
    EXPECT_EQ(static_cast<int>(bytes[2]), bitmap ? 2 : 1);
    Trial gaps(R"({"type": "threshold", "tau": 1, "feedback": false})", flat(kElements));
    const auto shorter = gaps.encode(values);
    EXPECT_LE(shorter.size(), bytes.size());
    for (Trial* trial : {&exact, &gaps}) {
      const std::vector<float> got = decoded(*trial, values);
      for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(got[i], values[i] / 2);
    }
  }
}

// The residual is limited to +-clip tau each clip_every rounds, after what is sent has been taken off.
TEST(Threshold, TheResidualIsClipped) {
  Trial trial(R"({"type": "threshold", "tau": 1, "clip": 5, "clip_every": 5})", flat(3));
  const std::vector<float> values = {100, -100, 0.25f};
  for (uint64_t round = 1; round <= 5; ++round) {
    EXPECT_EQ(decoded(trial, round == 1 ? values : std::vector<float>(3), round), (std::vector<float>{1, -1, 0}));
    const float left = round < 5 ? 100 - static_cast<float>(round) : 5;
    EXPECT_EQ(trial.residual, (std::vector<float>{left, -left, 0.25f})) << round;
  }
}

// AdaptiveThresholdAlgorithm: the first message uses tau as given, then tau follows the share that the last one had.
TEST(Threshold, TauFollowsTheShareThatWasSent) {
  constexpr double kRate = 0.9659363289248456;  // 0.5^(1/20)
  EXPECT_NEAR(std::pow(kRate, 20), 0.5, 1e-12);
  const auto tau_after = [&](const char* spec, int sent) {
    Trial trial(spec, flat(10000));
    std::vector<float> values(10000);
    for (int i = 0; i < sent; ++i) values[static_cast<size_t>(i)] = 1;
    trial.encode(values);
    EXPECT_FLOAT_EQ(trial.state[0], 1e-4f);
    EXPECT_FLOAT_EQ(trial.state[1], static_cast<float>(sent) / 10000);
    trial.encode(values, 1);
    return static_cast<double>(trial.state[0]) / 1e-4;
  };
  const char* range = R"({"type": "threshold", "tau": 1e-4, "adapt": "range", "feedback": false})";
  EXPECT_NEAR(tau_after(range, 0), kRate, 1e-6);         // below 1e-4: smaller
  EXPECT_NEAR(tau_after(range, 1), 1, 1e-6);             // 1e-4 is within
  EXPECT_NEAR(tau_after(range, 100), 1, 1e-6);           // 1e-2 is within
  EXPECT_NEAR(tau_after(range, 101), 1 / kRate, 1e-6);   // above: larger
  EXPECT_NEAR(tau_after(range, 9000), 1 / kRate, 1e-6);  // a bitmap
  const char* target = R"({"type": "threshold", "tau": 1e-4, "adapt": "target", "feedback": false})";
  EXPECT_NEAR(tau_after(target, 9), kRate, 1e-6);
  EXPECT_NEAR(tau_after(target, 11), 1 / kRate, 1e-6);
  const char* fixed = R"({"type": "threshold", "tau": 1e-4, "feedback": false})";
  EXPECT_NEAR(tau_after(fixed, 0), 1, 1e-6);
}

TEST(LowRank, AMatrixOfThatRankIsExact) {
  constexpr int64_t kRows = 30, kColumns = 41, kRank = 3;
  const std::vector<float> a = codec_values(kRows * kRank, 31), b = codec_values(kColumns * kRank, 32);
  std::vector<float> matrix(kRows * kColumns);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j)
      for (int64_t k = 0; k < kRank; ++k)
        matrix[static_cast<size_t>(i * kColumns + j)] += a[static_cast<size_t>(i * kRank + k)] * b[static_cast<size_t>(k * kColumns + j)];
  const float top = *std::max_element(matrix.begin(), matrix.end());
  for (const int64_t rank : {kRank, kRank + 2}) {
    Trial trial("{\"type\": \"lowrank\", \"rank\": " + std::to_string(rank) + "}", {.count = kRows * kColumns, .rows = kRows});
    const std::vector<float> got = decoded(trial, matrix);
    for (size_t i = 0; i < matrix.size(); ++i) ASSERT_NEAR(got[i], matrix[i], 1e-5f * top) << i;
  }
}

// Started from the Q of the round before, the power method finds the largest directions of a matrix that stays the same.
TEST(LowRank, WarmStartImproves) {
  const CodecSegment segment{.count = 2000, .rows = 40};
  Trial trial(R"({"type": "lowrank", "feedback": false})", segment);
  const std::vector<float> values = codec_values(segment.count, 33);
  std::vector<double> lost;
  for (uint64_t round = 0; round < 30; ++round) {
    const std::vector<float> got = decoded(trial, values, round);
    lost.push_back(0);
    for (size_t i = 0; i < values.size(); ++i) lost.back() += std::pow(values[i] - got[i], 2);
  }
  EXPECT_LT(lost.back(), 0.99 * lost.front());
  for (size_t round = 1; round < lost.size(); ++round) EXPECT_LE(lost[round], lost[round - 1] * 1.0001);
}

// A block of tensors with gaps is, byte by byte, what its tensors are by themselves; a damaged one spoils nothing.
TEST(LowRank, EachTensorOfABlockIsByItself) {
  const std::vector<CodecSegment> tensors = {
      {.first = 100, .count = 600, .rows = 20}, {.first = 704, .count = 30}, {.first = 736, .count = 1200, .rows = 30}};
  const CodecSegment block{.first = 100, .count = 1900, .tensors = tensors.data(), .tensor_count = tensors.size()};
  const char* spec = R"({"type": "lowrank", "rank": 2})";
  Trial whole(spec, block);
  std::vector<Trial> alone;
  for (const CodecSegment& tensor : tensors) alone.emplace_back(spec, tensor);
  EXPECT_EQ(whole.codec->state_floats(block), alone[0].codec->state_floats(tensors[0]) + alone[2].codec->state_floats(tensors[2]));
  for (uint64_t round = 0; round < 3; ++round) {
    const std::vector<float> values = codec_values(block.count, 40 + static_cast<unsigned>(round));
    std::vector<std::byte> payload = whole.encode(values, round), parts;
    std::vector<float> expected(values.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto from = values.begin() + (tensors[i].first - block.first);
      const std::vector<float> own(from, from + tensors[i].count);
      const std::vector<std::byte> bytes = alone[i].encode(own, round);
      parts.insert(parts.end(), bytes.begin() + kPayloadHeader, bytes.end());
      ASSERT_TRUE(alone[i].codec->decode_add(bytes, 1, tensors[i],
                                             std::span(expected).subspan(static_cast<size_t>(tensors[i].first - block.first), own.size()),
                                             alone[i].scratch()));
    }
    EXPECT_TRUE(std::equal(parts.begin(), parts.end(), payload.begin() + kPayloadHeader, payload.end()));
    std::vector<float> sum(values.size());
    ASSERT_TRUE(whole.codec->decode_add(payload, 1, block, sum, whole.scratch()));
    EXPECT_EQ(sum, expected);
    const float nan = NAN;
    std::memcpy(payload.data() + payload.size() - sizeof nan, &nan, sizeof nan);
    EXPECT_FALSE(whole.codec->decode_add(payload, 1, block, sum, whole.scratch()));
    EXPECT_EQ(sum, expected) << "nothing was added";
  }
}

TEST(Zstd, ShrinksWhatRepeats) {
  std::vector<float> values(100'000);
  for (size_t i = 0; i < values.size(); i += 50) values[i] = 1;
  Trial plain(R"({"type": "threshold", "tau": 1})", flat(100'000)), packed(R"({"type": "threshold", "tau": 1, "zstd": 3})", flat(100'000));
  EXPECT_LT(packed.encode(values).size() * 10, plain.encode(values).size());
  plain.residual.assign(values.size(), 0), packed.residual.assign(values.size(), 0);
  EXPECT_EQ(decoded(packed, values), decoded(plain, values));
}

TEST(Gaps, RoundTripAndAreRefusedInOtherForms) {
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{16383}, uint64_t{16384}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::byte bytes[kLongestGap];
    const std::byte* const end = write_gap(value, bytes);
    EXPECT_EQ(static_cast<size_t>(end - bytes), gap_bytes(value));
    const std::byte* at = bytes;
    uint64_t back = 1;
    EXPECT_TRUE(read_gap(at, end, &back));
    EXPECT_EQ(back, value);
    EXPECT_EQ(at, end);
    for (const std::byte* shorter = bytes; shorter != end; ++shorter) {
      const std::byte* again = bytes;
      EXPECT_FALSE(read_gap(again, shorter, &back));
    }
  }
  const std::vector<std::vector<int>> wrong = {{0x80, 0x00},
                                               {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},
                                               {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}};
  for (const auto& list : wrong) {
    std::vector<std::byte> bytes;
    for (const int byte : list) bytes.push_back(static_cast<std::byte>(byte));
    const std::byte* at = bytes.data();
    uint64_t value;
    EXPECT_FALSE(read_gap(at, bytes.data() + bytes.size(), &value));
  }
}

TEST(Gaps, LeadToPositionsThatThereAre) {
  const auto valid = [](std::vector<uint64_t> gaps, int64_t n, bool flags) {
    std::byte bytes[64];
    std::byte* end = bytes;
    for (const uint64_t gap : gaps) end = write_gap(gap, end);
    return valid_gaps({bytes, end}, static_cast<int64_t>(gaps.size()), n, flags);
  };
  EXPECT_TRUE(valid({299}, 300, false));
  EXPECT_FALSE(valid({300}, 300, false));
  EXPECT_TRUE(valid({100, 198}, 300, false));
  EXPECT_FALSE(valid({100, 199}, 300, false));
  EXPECT_TRUE(valid({299 * 2 + 1}, 300, true));
  EXPECT_FALSE(valid({300 * 2}, 300, true));
  EXPECT_FALSE(valid({0, ~uint64_t{0}}, 300, false));
  EXPECT_FALSE(valid({0, 0}, 1, false));
}

}  // namespace
}  // namespace perigee
