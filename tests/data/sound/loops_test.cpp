// Loops over samples with each instruction set, and other rates against soxr's and scipy's numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/sound_loops.h"
#include "src/core/host_isa.h"
#include "src/io/sound/resample.h"
#include "tests/core/refusal.h"
#include "tests/data/sound/recordings.h"

namespace perigee {
namespace {

TEST(Resampler, KeepsAToneAndRefusesAwkwardRates) {
  for (const auto& [from, to] : {std::pair{8000, 16000}, {44100, 16000}, {16000, 11025}}) {
    const Resampler resampler(from, to, "test");
    std::vector<float> in(static_cast<size_t>(from / 2)), out(static_cast<size_t>(resampler.output_frames(from / 2)));
    const auto tone = [](size_t i, double rate) { return std::sin(2 * M_PI * 440 * static_cast<double>(i) / rate); };
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(tone(i, from));
    resampler.apply(in, out);
    for (size_t i = 500; i + 500 < out.size(); ++i) ASSERT_NEAR(out[i], tone(i, to), 1e-4) << from << " to " << to << " at " << i;
  }
  EXPECT_NE(refusal(ErrorKind::data, [] { Resampler(999983, 16000, "a.wav"); }).find("a.wav: the rate has no simple ratio"),
            std::string::npos);
}

TEST(SoundLoops, HaveTheSameBitsWithEachInstructionSet) {
  constexpr int64_t kHalf = 32, kSize = 2 * kHalf, kTimes = 37;
  uint32_t state = 1;
  const auto numbers = [&](int64_t count) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& value : out) state = state * 1664525 + 1013904223, value = static_cast<float>(state >> 8) / (1 << 24) - .5f;
    return out;
  };
  const auto frames = numbers(kSoundLanes * kSize), window = numbers(kSize), angles = numbers(2 * kHalf), table = numbers(3 * kHalf);
  const auto compute = [&](Isa isa) {
    const SoundLoops& loops = sound_loops(isa);
    std::vector<float> z(kSize * kSoundLanes), out((kHalf + 1) * kSoundLanes), sums(3 * (kTimes + 1), 0);
    const float* pointers[kSoundLanes];
    for (int64_t i = 0; i < kSoundLanes; ++i) pointers[i] = frames.data() + i * kSize;
    std::vector<int32_t> places;
    for (int32_t i = 0; i < kSize; ++i) places.push_back(i * 5 % kSize);
    loops.load(pointers, window.data(), places.data(), kSize - 3, z.data());
    loops.power(kHalf, angles.data(), angles.data() + 7, z.data(), out.data());
    loops.combine(table.data(), 3, kHalf / 8, frames.data(), kTimes + 1, kTimes - 1, sums.data());
    out.insert(out.end(), sums.begin(), sums.end());
    out.resize(out.size() + kSoundLanes);
    loops.weigh(table.data(), 13, frames.data(), out.data() + out.size() - kSoundLanes);
    for (int64_t n = 1; n < kSize; ++n) out.push_back(loops.dot(frames.data(), window.data(), n));
    out.push_back(loops.logarithm(out.data(), kTimes, 4.3f, 1e-3f));
    return out;
  };
  const auto expected = compute(Isa::baseline);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > host_isa()) break;
    const auto got = compute(isa);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(got[i], expected[i]) << isa_name(isa) << " " << i;
  }
}

TEST(Resampler, IsNearSoxrs) {
  NEEDS_RECORDINGS();
  const Tensor expected = oracle("soxr_hq_16000"), floats = oracle("signal").to(Dtype::f32);
  const Resampler resampler(8000, 16000, "test");
  std::vector<float> out(static_cast<size_t>(expected.elements()));
  resampler.apply({floats.data<float>(), static_cast<size_t>(floats.elements())}, out);
  EXPECT_LT(distance(out.data(), expected.data<double>(), 1, expected.elements()), .02) << "filters differ near half the rate";
}

TEST(Resampler, IsScipys) {
  NEEDS_RECORDINGS();
  const Tensor signal = oracle("signal");
  const Tensor floats = signal.to(Dtype::f32);
  for (const auto& [name, up, down] : {std::tuple{"resample_poly_3_2", 3, 2}, {"resample_poly_441_320", 441, 320}}) {
    const Tensor expected = oracle(name);
    // The second one is of a part of the signal.
    const int64_t frames = expected.elements() * down / up;
    const Resampler resampler(down, up, "test", 10, 5, 1);
    std::vector<float> out(static_cast<size_t>(resampler.output_frames(frames)));
    ASSERT_EQ(static_cast<int64_t>(out.size()), expected.elements()) << name;
    resampler.apply({floats.data<float>(), static_cast<size_t>(frames)}, out);
    EXPECT_LT(distance(out.data(), expected.data<double>(), 1, expected.elements()), 1e-5) << name;
  }
}

}  // namespace
}  // namespace perigee
