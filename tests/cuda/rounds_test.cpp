// Measurements of a replica's numbers on the device: hashes and sums of squares.
#include "cluster/replica/device_rounds.h"

#include <gtest/gtest.h>

#include <random>

#include "src/io/digest.h"

namespace perigee {
namespace {

TEST(DeviceRounds, HashesAreXxh3) {
  Gpu gpu(0, "test");
  DeviceRounds rounds(gpu);
  std::mt19937_64 random(3);
  std::vector<uint64_t> words(70'000);
  for (uint64_t& word : words) word = random();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(words));
  const GpuMemory there = gpu.allocate(bytes.size(), "test");
  gpu.upload(there.data(), bytes.data(), bytes.size());
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{64}, size_t{240}, size_t{241}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{1087}, size_t{1088},
        size_t{2048}, size_t{2049}, size_t{128 * 1024}, size_t{128 * 1024 + 1}, size_t{129 * 1024 + 64}, size_t{400'000}, bytes.size()})
    EXPECT_EQ(rounds.xxh3_64(there.data(), count), xxh3_64(bytes.first(count))) << count;
}

TEST(DeviceRounds, SquaresAreAddedUp) {
  Gpu gpu(0, "test");
  DeviceRounds rounds(gpu);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> a(150'000), b(a.size());
  for (float& value : a) value = normal(random);
  for (float& value : b) value = normal(random);
  const GpuMemory first = gpu.allocate(a.size() * sizeof(float), "test"), second = gpu.allocate(a.size() * sizeof(float), "test");
  gpu.upload(first.data(), a.data(), a.size() * sizeof(float));
  gpu.upload(second.data(), b.data(), b.size() * sizeof(float));
  const auto *x = reinterpret_cast<const float*>(first.data()), *y = reinterpret_cast<const float*>(second.data());
  for (const size_t n : {size_t{0}, size_t{1}, size_t{255}, size_t{65536}, size_t{65537}, a.size()}) {
    double square = 0, distance = 0;
    for (size_t i = 0; i < n; ++i) {
      square += static_cast<double>(a[i]) * a[i];
      const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      distance += d * d;
    }
    EXPECT_NEAR(rounds.square(x, nullptr, static_cast<int64_t>(n)), square, 1e-11 * square) << n;
    EXPECT_NEAR(rounds.square(x, y, static_cast<int64_t>(n)), distance, 1e-11 * distance) << n;
  }
}

}  // namespace
}  // namespace perigee
