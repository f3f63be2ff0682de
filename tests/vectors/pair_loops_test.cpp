// One step of the kernel beside the same formulas in double precision, on every instruction set that the machine has.
#include "kernels/pair_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "src/core/host_isa.h"

namespace perigee {
namespace {

struct Case {
  int64_t inputs, outputs, width;
  bool apart;  // the changes go elsewhere
};

struct Rows {
  Rows(int64_t count, int64_t width, uint32_t seed) : values(static_cast<size_t>(count * width)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> draw(0, 0.3f);
    for (float& value : values) value = draw(random);
    for (int64_t i = 0; i < count; ++i) rows.push_back(values.data() + i * width);
  }
  std::vector<float> values;
  std::vector<float*> rows;
};

void check_step(const PairLoops& loops, const Case& c) {
  const std::string name = std::to_string(c.inputs) + " x " + std::to_string(c.outputs) + " x " + std::to_string(c.width);
  Rows in(c.inputs, c.width, 1), out(c.outputs, c.width, 2);
  const std::vector<float> x = in.values, w = out.values;
  std::vector<float> labels(static_cast<size_t>(c.outputs)), scratch(static_cast<size_t>(pair_scratch(c.inputs, c.outputs, c.width)));
  std::vector<float> in_changes(x.size()), out_changes(w.size());
  for (size_t n = 0; n < labels.size(); ++n) labels[n] = n % 3 == 0;
  PairStep step{.inputs = in.rows.data(),
                .input_count = c.inputs,
                .outputs = out.rows.data(),
                .output_count = c.outputs,
                .labels = labels.data(),
                .rate = 0.1f,
                .width = c.width};
  if (c.apart) step.input_changes = in_changes.data(), step.output_changes = out_changes.data();
  const float loss = loops.step(step, true, scratch.data());
  std::vector<double> dx(x.size()), dw(w.size());
  double wanted = 0;
  const auto at = [&](int64_t row, int64_t k) { return static_cast<size_t>(row * c.width + k); };
  for (int64_t i = 0; i < c.inputs; ++i)
    for (int64_t n = 0; n < c.outputs; ++n) {
      double z = 0;
      const double label = labels[static_cast<size_t>(n)];
      for (int64_t k = 0; k < c.width; ++k) z += static_cast<double>(x[at(i, k)]) * w[at(n, k)];
      wanted += std::log1p(std::exp(z)) - label * z;
      const double g = 0.1 * (label - 1 / (1 + std::exp(-z)));
      for (int64_t k = 0; k < c.width; ++k) dx[at(i, k)] += g * w[at(n, k)], dw[at(n, k)] += g * x[at(i, k)];
    }
  EXPECT_NEAR(loss, wanted, 1e-5 * wanted) << name;
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(c.apart ? in_changes[i] : in.values[i] - x[i], dx[i], 2e-6) << name << " input " << i;
  for (size_t i = 0; i < w.size(); ++i)
    ASSERT_NEAR(c.apart ? out_changes[i] : out.values[i] - w[i], dw[i], 2e-6) << name << " output " << i;
}

TEST(PairLoops, AStepIsTheFormulas) {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > host_isa()) continue;
    for (const int64_t inputs : {1, 2, 3, 6, 11})
      for (const int64_t outputs : {1, 2, 5, 6, 7, 8, 9, 17, 30})
        for (const int64_t width : {4, 8, 12, 16, 40, 100})
          for (const bool apart : {false, true}) check_step(pair_loops(isa), {inputs, outputs, width, apart});
  }
}

TEST(PairLoops, ARowThatIsThereTwiceMovesTwice) {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > host_isa()) continue;
    for (const int64_t outputs : {2, 12}) {
      Rows in(1, 8, 1), out(outputs, 8, 2);
      const std::vector<float> before = in.values;
      float* const twice[] = {in.rows[0], in.rows[0]};
      std::vector<float> labels(static_cast<size_t>(outputs)), scratch(static_cast<size_t>(pair_scratch(2, outputs, 8)));
      const PairStep step{.inputs = twice,
                          .input_count = 2,
                          .outputs = out.rows.data(),
                          .output_count = outputs,
                          .labels = labels.data(),
                          .rate = 1e-3f,
                          .width = 8};
      std::vector<double> wanted(8);
      for (int64_t n = 0; n < outputs; ++n) {
        double z = 0;
        for (size_t k = 0; k < 8; ++k) z += static_cast<double>(before[k]) * out.rows[static_cast<size_t>(n)][k];
        for (size_t k = 0; k < 8; ++k) wanted[k] += 2 * -1e-3 / (1 + std::exp(-z)) * out.rows[static_cast<size_t>(n)][k];
      }
      pair_loops(isa).step(step, false, scratch.data());
      for (size_t k = 0; k < 8; ++k) EXPECT_NEAR(in.values[k] - before[k], wanted[k], 1e-5) << outputs;
    }
  }
}

TEST(PairLoops, SumsProductsAndDistances) {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > host_isa()) continue;
    const PairLoops& loops = pair_loops(isa);
    for (const int64_t width : {8, 24, 48}) {
      Rows a(7, width, 3), query(1, width, 4);
      std::vector<float> sum(static_cast<size_t>(width)), products(7);
      loops.sum(a.rows.data(), 7, width, 0.5f, sum.data());
      loops.products(a.values.data(), 7, width, query.values.data(), products.data());
      for (int64_t k = 0; k < width; ++k) {
        double wanted = 0;
        for (const float* row : a.rows) wanted += row[k];
        EXPECT_NEAR(sum[static_cast<size_t>(k)], wanted / 2, 1e-6);
      }
      for (size_t i = 0; i < 7; ++i) {
        double product = 0, distance = 0;
        for (int64_t k = 0; k < width; ++k) {
          product += static_cast<double>(a.rows[i][k]) * query.rows[0][k];
          distance += std::pow(static_cast<double>(a.rows[i][k]) - query.rows[0][k], 2);
        }
        EXPECT_NEAR(products[i], product, 1e-5);
        EXPECT_NEAR(loops.distance(a.rows[i], query.rows[0], width), distance, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace perigee
