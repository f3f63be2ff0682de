// Random draws: the generator's published answers, and that a draw belongs to its example.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/ops/random.h"
#include "kernels/philox.h"
#include "src/graph/plan.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

void expect_block(PhiloxBlock counter, PhiloxKey key, PhiloxBlock expected) {
  const PhiloxBlock got = philox4x32(counter, key);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.lane[i], expected.lane[i]) << i;
}

// kat_vectors of Random123 1.14.
TEST(Philox, GivesThePublishedAnswers) {
  expect_block({{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  const uint32_t ones = 0xffffffff;
  expect_block({{ones, ones, ones, ones}}, {{ones, ones}}, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect_block({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}},
               {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

std::vector<float> draw(const Kernel& kernel, const Shape& shape, const RandomParams& params, const StepInfo& step) {
  std::vector<float> y(static_cast<size_t>(shape.elements()));
  const View out = contiguous_view(y.data(), Dtype::f32, shape);
  run_kernel(kernel, {.in = &out, .out = &out, .n_in = 1, .n_out = 1, .params = &params, .step = &step});
  return y;
}

std::vector<const Kernel*> kernels_of(std::string_view op) {
  std::vector<const Kernel*> result;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op && list.first[i].backend != Backend::cuda && list.first[i].isa <= host_isa())
        result.push_back(&list.first[i]);
  return result;
}

TEST(Random, EveryKernelGivesTheBitsOfTheReference) {
  const int64_t ids[] = {int64_t{5} << 33, 7, 123456789};
  const StepInfo step{.seed = 99, .epoch = 3, .step = uint64_t{1} << 40, .example_ids = ids};
  for (const char* op : {"random_uniform", "random_normal"})
    for (const bool per_example : {false, true}) {
      const RandomParams params{.stream = 11, .offset = -0.3, .scale = 1.7, .per_example = per_example};
      const std::vector<float> expected = draw(*ref_kernel(op), {3, 131}, params, step);
      for (const Kernel* kernel : kernels_of(op))
        EXPECT_EQ(draw(*kernel, {3, 131}, params, step), expected) << op << " " << kernel->name << " " << isa_name(kernel->isa);
    }
}

TEST(Random, AnExampleDrawsTheSameWhereverItIs) {
  const int64_t together[] = {40, 41, 42, 43}, alone[] = {42};
  StepInfo step{.seed = 1, .epoch = 2, .step = 10, .example_ids = together};
  const RandomParams params{.stream = 5, .offset = 0, .scale = 1, .per_example = true};
  for (const Kernel* kernel : kernels_of("random_uniform")) {
    step.example_ids = together;
    const std::vector<float> batch = draw(*kernel, {4, 50}, params, step);
    step.example_ids = alone;
    step.step = 77;  // does not count
    const std::vector<float> single = draw(*kernel, {1, 50}, params, step);
    EXPECT_TRUE(std::equal(single.begin(), single.end(), batch.begin() + 100));
    step.epoch = 3;
    EXPECT_NE(draw(*kernel, {1, 50}, params, step), single);
    step.epoch = 2;
    RandomParams other = params;
    other.stream = 6;
    EXPECT_NE(draw(*kernel, {1, 50}, other, step), single);
  }
}

TEST(Random, MomentsAreThoseOfTheDistribution) {
  const StepInfo step{.seed = 8, .step = 1};
  const auto moments = [](const std::vector<float>& x) {
    double mean = 0, square = 0;
    for (float v : x) mean += v, square += static_cast<double>(v) * v;
    mean /= static_cast<double>(x.size());
    return std::pair(mean, square / static_cast<double>(x.size()) - mean * mean);
  };
  const RandomParams params{.stream = 5, .offset = 1, .scale = 2, .per_example = false};
  const auto [uniform_mean, uniform_variance] = moments(draw(*kernels_of("random_uniform").back(), {200'000}, params, step));
  EXPECT_NEAR(uniform_mean, 2, 0.01);
  EXPECT_NEAR(uniform_variance, 4.0 / 12, 0.01);
  const auto [normal_mean, normal_variance] = moments(draw(*kernels_of("random_normal").back(), {200'000}, params, step));
  EXPECT_NEAR(normal_mean, 1, 0.02);
  EXPECT_NEAR(normal_variance, 4, 0.05);
}

}  // namespace
}  // namespace perigee
