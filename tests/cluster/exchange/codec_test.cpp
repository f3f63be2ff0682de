// Promises of every codec, tested by enumeration.
#include "cluster/codec/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "src/core/error.h"
#include "src/graph/plan.h"
#include "tests/cluster/exchange/codec_trial.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace perigee {
namespace {

constexpr float kUlp = 0x1p-23f;

std::string label(const std::string& spec, const CodecSegment& segment) {
  return spec + " of " + std::to_string(segment.count) + " in " + std::to_string(segment.rows) + " rows";
}

// The encoded or kept value is not the value plus the residual.
bool changes_values(const std::string& spec) {
  return spec.find("clip") != std::string::npos || spec.find("momentum") != std::string::npos || spec.find("\"one\"") != std::string::npos;
}

template <class Check>
void for_each_trial(Check check) {
  for (const std::string& spec : codec_specs())
    for (const CodecSegment& segment : codec_segments()) {
      SCOPED_TRACE(label(spec, segment));
      check(spec, segment);
      if (testing::Test::HasFatalFailure()) return;
    }
}

std::string failure(const std::string& text) {
  try {
    codec_of(text, codec_loops_ref());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Codec, EveryCodecKnowsExactlyTheOptionsOfItsList) {
  for (const CodecDef* def : all_codecs()) {
    SCOPED_TRACE(def->name);
    Json json = Json::object();
    json.set("type", def->name);
    for (const Option& option : def->schema.options) {
      json.set(option.name, fallback_value(option));
      ASSERT_NE(option.doc, nullptr);
    }
    const Json given = make_codec(&json, "")->to_json(), name(def->name);
    EXPECT_EQ(given, make_codec(&name, "")->to_json()) << "the list's defaults are not the reader's";
    EXPECT_EQ(make_codec(&given, "")->to_json(), given);
    EXPECT_EQ(given.as_object().size(), def->schema.options.size() + 1) << given.dump();
  }
}

TEST(Codec, FormatsAreDistinct) {
  std::vector<int> formats;
  for (const CodecDef* def : all_codecs()) formats.push_back(def->format);
  std::sort(formats.begin(), formats.end());
  EXPECT_EQ(std::adjacent_find(formats.begin(), formats.end()), formats.end());
}

TEST(Codec, MistakesNameWhatIsNear) {
  EXPECT_NE(failure(R"({"type": "int44"})").find("int4"), std::string::npos);
  EXPECT_NE(failure(R"({"type": "topk", "shar": 0.1})").find("share"), std::string::npos);
  for (const char* wrong :
       {R"({"type": "int8", "block": 100})", R"({"type": "topk", "share": 2})", R"({"type": "sign", "rounding": "nearest"})",
        R"({"type": "int2", "rounding": "stochastic", "scale": "mean"})", R"({"type": "randomk", "unbiased": true})",
        R"({"type": "threshold", "clip": 0.5})", R"({"type": "int8", "zstd": 30})", R"({"type": "lowrank", "rank": 0})", "7"})
    EXPECT_NE(failure(wrong), "") << wrong;
}

// A message and its residual add up to the input.
TEST(Codec, SentAndResidualAreTheValue) {
  for_each_trial([](const std::string& spec, const CodecSegment& segment) {
    Trial trial(spec, segment);
    if (!trial.codec->feedback() || changes_values(spec)) return;
    for (uint64_t round = 0; round < 4; ++round) {
      const std::vector<float> values = codec_values(segment.count, static_cast<unsigned>(round)), before = trial.residual;
      const auto bytes = trial.encode(values, round);
      ASSERT_GT(bytes.size(), 0u);
      bool ok = false;
      const std::vector<float> sent = trial.decode(bytes, &ok);
      ASSERT_TRUE(ok);
      for (size_t i = 0; i < values.size(); ++i) {
        const float v = values[i] + trial.codec->decay() * before[i];
        ASSERT_NEAR(sent[i] + trial.residual[i], v, 2 * kUlp * (std::abs(v) + std::abs(sent[i]))) << i;
      }
    }
  });
}

// U4: over many rounds nothing is lost and nothing is sent twice.
TEST(Codec, FeedbackTelescopes) {
  for_each_trial([](const std::string& spec, const CodecSegment& segment) {
    Trial trial(spec, segment);
    if (!trial.codec->feedback() || trial.codec->decay() != 1 || changes_values(spec)) return;
    std::vector<float> sum(static_cast<size_t>(segment.count));
    std::vector<double> inputs(sum.size()), sizes(sum.size());
    for (uint64_t round = 0; round < 30; ++round) {
      const std::vector<float> values = codec_values(segment.count, static_cast<unsigned>(100 + round));
      ASSERT_TRUE(trial.add(trial.encode(values, round), &sum));
      for (size_t i = 0; i < sum.size(); ++i) inputs[i] += values[i], sizes[i] += std::abs(sum[i]) + std::abs(values[i]);
    }
    for (size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i] + trial.residual[i], inputs[i], 1e-6 * sizes[i] + 1e-6) << i;
  });
}

// Whatever a codec drops, it does not make worse: where it rounds by chance or for the right average it may.
TEST(Codec, LosesNoMoreThanThereWas) {
  for_each_trial([](const std::string& spec, const CodecSegment& segment) {
    if (spec.find("stochastic") != std::string::npos || spec.find("unbiased") != std::string::npos || changes_values(spec)) return;
    Trial trial(spec, segment);
    const std::vector<float> values = codec_values(segment.count, 5);
    bool ok = false;
    const std::vector<float> sent = trial.decode(trial.encode(values), &ok);
    ASSERT_TRUE(ok);
    double lost = 0, all = 0;
    for (size_t i = 0; i < values.size(); ++i) lost += std::pow(values[i] - sent[i], 2), all += std::pow(values[i], 2);
    EXPECT_LE(lost, all * 1.000001);
    if (!trial.codec->keeps_zero()) return;
    for (size_t i = 0; i < values.size(); ++i) ASSERT_TRUE(values[i] != 0 || sent[i] == 0) << i;
  });
}

TEST(Codec, EveryInstructionSetGivesTheBitsOfRef) {
  for_each_trial([](const std::string& spec, const CodecSegment& segment) {
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
      if (isa > host_isa()) continue;
      SCOPED_TRACE(isa_name(isa));
      Trial ref(spec, segment), fast(spec, segment, codec_loops(isa));
      std::vector<float> ref_sum = codec_values(segment.count, 77), fast_sum = ref_sum;
      for (uint64_t round = 0; round < 3; ++round) {
        const std::vector<float> values = codec_values(segment.count, static_cast<unsigned>(round));
        const auto expected = ref.encode(values, round), got = fast.encode(values, round);
        ASSERT_EQ(got, expected);
        ASSERT_TRUE(same_bits(fast.residual, ref.residual));
        ASSERT_TRUE(same_bits(fast.state, ref.state));
        ASSERT_TRUE(ref.add(expected, &ref_sum, 0.3f));
        ASSERT_TRUE(fast.add(expected, &fast_sum, 0.3f));
        ASSERT_TRUE(same_bits(fast_sum, ref_sum));
      }
    }
  });
}

TEST(Codec, BytesAreWithinTheBoundAndAsDescribed) {
  for_each_trial([](const std::string& spec, const CodecSegment& segment) {
    Trial trial(spec, segment);
    const double bytes = static_cast<double>(trial.encode(codec_values(segment.count, 8)).size());
    EXPECT_LE(bytes, static_cast<double>(trial.codec->bound(segment)));
    // A schedule is described by where it ends.
    if (segment.count < 20000 || spec.find("threshold") != std::string::npos || spec.find("map") != std::string::npos) return;
    const double expected = trial.codec->bits_per_element(segment) * static_cast<double>(segment.count) / 8;
    EXPECT_NEAR(bytes, expected, expected * 0.03 + 48);
  });
}

TEST(Codec, ReportsWhatCannotBeEncodedAndTouchesNothing) {
  for_each_trial([](const std::string& spec, const CodecSegment& segment) {
    if (segment.count == 0) return;
    for (const float bad : {NAN, INFINITY, -INFINITY, 3e38f}) {
      Trial trial(spec, segment);
      std::vector<float> values = codec_values(segment.count, 9);
      ASSERT_GT(trial.encode(values).size(), 0u);
      const std::vector<float> residual = trial.residual, state = trial.state;
      values.back() = bad;
      EXPECT_EQ(trial.encode(values, 1).size(), 0u);
      EXPECT_TRUE(same_bits(trial.residual, residual) && same_bits(trial.state, state));
      if (!trial.codec->feedback()) continue;
      values.back() = 0;
      trial.residual.front() = bad;
      EXPECT_EQ(trial.encode(values, 1).size(), 0u);
    }
    Trial trial(spec, segment);
    const std::vector<float> most(static_cast<size_t>(segment.count), trial.codec->limit());
    bool ok = false;
    for (const float x : trial.decode(trial.encode(most), &ok)) ASSERT_TRUE(std::isfinite(x));
    EXPECT_TRUE(ok);
  });
}

TEST(Codec, AllocatesNothing) {
  for_each_trial([](const std::string& spec, const CodecSegment& segment) {
    Trial trial(spec, segment);
    const std::vector<float> values = codec_values(segment.count, 10);
    std::vector<float> sum(values.size());
    const int64_t before = allocations.load();
    const size_t bytes = trial.codec->encode(trial.call(values, 1), trial.out);
    const bool ok = trial.codec->decode_add(std::span(trial.out).first(bytes), 1, segment, sum, trial.scratch());
    EXPECT_EQ(allocations.load(), before);
    EXPECT_TRUE(ok);
  });
}

// Bytes that are not what was sent are refused and leave the sum alone, or stand for finite numbers.
void expect_harmless(Trial& trial, const std::vector<std::byte>& bytes, bool* taken) {
  const std::vector<float> before = codec_values(trial.segment.count, 11);
  std::vector<float> sum = before;
  *taken = trial.add(bytes, &sum);
  ASSERT_TRUE(*taken || same_bits(sum, before));
  for (const float x : sum) ASSERT_TRUE(std::isfinite(x));
}

std::vector<std::string> specs_with_zstd() {
  std::vector<std::string> specs = codec_specs();
  specs.push_back(R"({"type": "threshold", "tau": 2, "zstd": 3})");
  specs.push_back(R"({"type": "topk", "share": 0.2, "values": "int8", "zstd": 1})");
  return specs;
}

TEST(Codec, EveryPrefixIsRefused) {
  for (const std::string& spec : specs_with_zstd())
    for (const CodecSegment& segment : {CodecSegment{0, 1, 0}, CodecSegment{0, 65, 0}, CodecSegment{0, 300, 10}}) {
      SCOPED_TRACE(label(spec, segment));
      Trial trial(spec, segment);
      const auto bytes = trial.encode(codec_values(segment.count, 12));
      ASSERT_GT(bytes.size(), 0u);
      for (size_t length = 0; length < bytes.size(); ++length) {
        bool taken = true;
        expect_harmless(trial, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}, &taken);
        ASSERT_FALSE(taken) << length;
      }
      auto longer = bytes;
      longer.push_back(std::byte{0x80});
      bool taken = true;
      expect_harmless(trial, longer, &taken);
      ASSERT_FALSE(taken);
    }
}

TEST(Codec, EveryFlippedBitIsHarmless) {
  for (const std::string& spec : specs_with_zstd())
    for (const CodecSegment& segment : {CodecSegment{0, 1, 0}, CodecSegment{0, 80, 10}}) {
      SCOPED_TRACE(label(spec, segment));
      Trial trial(spec, segment, codec_loops(host_isa()));
      auto bytes = trial.encode(codec_values(segment.count, 13));
      for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        const auto mask = static_cast<std::byte>(1u << (bit % 8));
        bytes[bit / 8] ^= mask;
        bool taken = true;
        expect_harmless(trial, bytes, &taken);
        const bool fixed = bit / 8 < 2 || (bit / 8 >= 8 && bit / 8 < kPayloadHeader);  // format, version, elements
        ASSERT_FALSE(fixed && taken) << bit;
        if (testing::Test::HasFatalFailure()) return;
        bytes[bit / 8] ^= mask;
      }
    }
}

// Three rows were read of a table of 128 rows of 32.
TEST(Codec, NonzeroSendsWhatIsThere) {
  const CodecSegment segment{0, 4096, 0};
  Trial trial(R"({"type": "nonzero"})", segment);
  std::vector<float> values(4096);
  for (const size_t row : {5, 6, 100})
    for (size_t i = 0; i < 32; ++i) values[row * 32 + i] = static_cast<float>(i) - 7.5f;
  std::vector<std::byte> bytes = trial.encode(values);
  EXPECT_EQ(bytes.size(), kPayloadHeader + 8 + 2 * 2 + 3 * 32 * sizeof(float) + 1);  // a gap of 186 blocks takes two bytes
  std::vector<float> sum(4096);
  ASSERT_TRUE(trial.add(bytes, &sum));
  EXPECT_EQ(sum, values);
  bytes[kPayloadHeader] = std::byte{3};  // one run more than there are
  EXPECT_FALSE(trial.add(bytes, &sum));
  EXPECT_EQ(trial.encode(std::vector<float>(4096)).size(), kPayloadHeader + 8) << "nothing";
  values.assign(4096, 1);
  EXPECT_EQ(trial.encode(values).size(), kPayloadHeader + 4096 * sizeof(float)) << "all, without a list";
}

TEST(Codec, RefusesAnotherCodecsAndAnotherSegmentsPayload) {
  const CodecSegment segment{0, 256, 16}, other{0, 255, 0}, huge{0, int64_t{1} << 40, 0};
  std::vector<Trial> trials;
  for (const CodecDef* def : all_codecs()) trials.emplace_back(std::string("{\"type\": \"") + def->name + "\"}", segment);
  for (Trial& from : trials) {
    const auto bytes = from.encode(codec_values(segment.count, 14));
    std::vector<float> sum(static_cast<size_t>(segment.count));
    for (Trial& to : trials) EXPECT_EQ(to.add(bytes, &sum), &to == &from) << from.codec->def().name << " " << to.codec->def().name;
    std::vector<float> shorter(static_cast<size_t>(other.count));
    EXPECT_FALSE(from.codec->decode_add(bytes, 1, other, shorter, from.scratch()));
    // 64-bit lengths: nothing overflows on the way to a size.
    EXPECT_GT(from.codec->bound(huge), kPayloadHeader);
    EXPECT_LE(from.codec->bound(huge), (size_t{1} << 42) + kPayloadHeader);
    EXPECT_GE(from.codec->scratch_bytes(huge), 0u);
  }
}

// A linear codec's parts, averaged over workers, stand for the average.
TEST(Codec, AveragedPartsAreTheAverage) {
  constexpr int kWorkers = 3;
  for_each_trial([](const std::string& spec, const CodecSegment& segment) {
    std::vector<Trial> workers;
    for (int k = 0; k < kWorkers; ++k) workers.emplace_back(spec, segment);
    const Codec& codec = *workers[0].codec;
    if (codec.passes() == 0) return;
    int64_t floats = 0;
    for (int pass = 0; pass < codec.passes(); ++pass) floats += codec.part_floats(segment, pass);
    std::vector<std::vector<float>> values;
    for (unsigned k = 0; k < kWorkers; ++k) values.push_back(codec_values(segment.count, 20 + k));
    std::vector<double> expected(static_cast<size_t>(segment.count));
    for (const auto& v : values)
      for (size_t i = 0; i < v.size(); ++i) expected[i] += static_cast<double>(v[i]) / kWorkers;
    std::vector<std::vector<float>> parts(kWorkers, std::vector<float>(static_cast<size_t>(floats)));
    int64_t begin = 0;
    for (int pass = 0; pass < codec.passes(); ++pass) {
      const int64_t end = begin + codec.part_floats(segment, pass);
      for (size_t k = 0; k < kWorkers; ++k) ASSERT_TRUE(workers[k].codec->make_part(workers[k].call(values[k]), pass, parts[k]));
      for (int64_t at = begin; at < end; ++at) {
        float mean = 0;
        for (auto& part : parts) mean += part[static_cast<size_t>(at)] / kWorkers;
        for (auto& part : parts) part[static_cast<size_t>(at)] = mean;
      }
      begin = end;
    }
    std::vector<float> sums[kWorkers];
    for (size_t k = 0; k < kWorkers; ++k) {
      sums[k].resize(expected.size());
      workers[k].codec->add_parts(workers[k].call(values[k]), parts[k], 1, sums[k]);
      EXPECT_TRUE(same_bits(sums[k], sums[0]) && same_bits(workers[k].state, workers[0].state));
    }
    if (!codec.feedback()) return;
    for (size_t i = 0; i < expected.size(); ++i) {
      double all = sums[0][i];
      for (const Trial& worker : workers) all += static_cast<double>(worker.residual[i]) / kWorkers;
      ASSERT_NEAR(all, expected[i], 1e-4) << i;
    }
  });
}

}  // namespace
}  // namespace perigee
