// Shared by the tests of the embedding interface: a small problem that a small network learns.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "perigee.hpp"

// Points of the plane; class 1 where x0 * x1 > 0.
struct Quadrants {
  std::vector<float> x;
  std::vector<uint8_t> y;

  explicit Quadrants(int examples) {
    uint32_t state = 12345;
    const auto next = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(state >> 8) / (1 << 23) - 1.f;
    };
    for (int i = 0; i < examples; ++i) {
      const float a = next(), b = next();
      x.insert(x.end(), {a, b});
      y.push_back(a * b > 0);
    }
  }
  pg::source source() const { return pg::arrays({pg::field("x", x, {2}), pg::labels("y", y, 2)}); }
};

inline pg::network small_network() {
  return pg::sequential(pg::dense(16, {.activation = pg::tanh, .name = "hidden"}), pg::dense(2, {.name = "out"}));
}

inline pg::experiment small_experiment(const pg::source& train) {
  return {.name = "quadrants",
          .network = small_network(),
          .loss = pg::losses::cross_entropy,
          .optimizer = pg::adam({.lr = 0.02}),
          .data = {.train = train, .batch = 20},
          .epochs = 20,
          .seed = 7,
          .threads = 1};
}

inline std::vector<float> all_parameters(const pg::model& model) {
  std::vector<float> all;
  for (const pg::tensor_info& each : model.tensors()) {
    const std::vector<float> numbers = model.read(each.name);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

// The text of the pg::error that `work` throws, and its status.
template <class Work>
std::string failure(Work&& work, perigee_status expected) {
  try {
    work();
  } catch (const pg::error& error) {
    EXPECT_EQ(error.status(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}
