// Every initialiser, because it is there: a function of seed and name, with the moments that it promises.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/core/error.h"
#include "src/io/file.h"
#include "src/nn/draws.h"
#include "src/nn/initializer.h"

namespace perigee {
namespace {

ParameterSpec spec_of(Json init, const std::string& name = "w", const Shape& shape = {60, 60}) {
  return {.name = name, .shape = shape, .init = std::move(init), .fan_in = 100, .fan_out = 300};
}

std::vector<float> fill(const ParameterSpec& spec, uint64_t seed = 7) {
  std::vector<float> values(static_cast<size_t>(spec.shape.elements()), -99.0f);
  initialize(spec, seed, values);
  return values;
}

// Two words, of as many numbers as spec_of() has columns.
std::string written_vectors(int columns = 60) {
  std::string text = "2 " + std::to_string(columns) + "\n";
  for (const char* word : {"one", "two"}) {
    text += word;
    for (int i = 0; i < columns; ++i) text += word[0] == 'o' ? " 1" : " -2";
    text += "\n";
  }
  const std::string path = testing::TempDir() + "vectors_of_" + std::to_string(columns) + ".txt";
  write_file(path, as_bytes(text));
  return path;
}

Json example(const std::string& type) {
  Json init = Json::object();
  init.set("type", type);
  if (type == "constant") init.set("value", 3);
  if (type == "blocks") init.set("values", Json(Json::Array{Json(3)}));
  if (type == "vectors") init.set("file", written_vectors());
  return init;
}

TEST(Initializer, EveryOneFillsAllValuesFromSeedAndNameAlone) {
  for (const InitializerDef* def : all_initializers()) {
    SCOPED_TRACE(def->name);
    const std::vector<float> values = fill(spec_of(example(def->name)));
    for (const float value : values) ASSERT_TRUE(std::isfinite(value) && value != -99.0f);
    EXPECT_EQ(values, fill(spec_of(example(def->name))));
    const bool random = values.front() != values.back() || values[1] != values[2];
    if (!random || std::string(def->name) == "identity") continue;
    EXPECT_NE(values, fill(spec_of(example(def->name)), 8));
    EXPECT_NE(values, fill(spec_of(example(def->name), "v")));
  }
}

TEST(Initializer, BlocksFillEqualParts) {
  Json init = example("blocks");
  init.set("values", Json(Json::Array{Json(0), Json(1), Json(0.5)}));
  EXPECT_EQ(fill(spec_of(init, "w", {6})), (std::vector<float>{0, 0, 1, 1, 0.5f, 0.5f}));
  EXPECT_THROW(fill(spec_of(init, "w", {7})), Error);
}

TEST(Initializer, VectorsOfWordsAreTheirRows) {
  Json init = example("vectors");
  init.set("file", written_vectors(16));
  const std::vector<float> all = fill(spec_of(init, "w", {3, 16}));
  EXPECT_EQ(all[0], 1);
  EXPECT_EQ(all[31], -2);
  EXPECT_NE(all[32], all[33]);
  for (size_t i = 32; i < 48; ++i) EXPECT_LE(std::abs(all[i]), std::sqrt(3 * 2.5));  // the mean square of the others is 2.5
  init.set("words", Json(Json::Array{Json("two"), Json("three"), Json("one")}));
  const std::vector<float> chosen = fill(spec_of(init, "w", {3, 16}));
  EXPECT_EQ(chosen[0], -2);
  EXPECT_EQ(chosen[47], 1);
  EXPECT_NE(chosen[16], chosen[17]);
  const auto problem = [&](const Shape& shape) {
    try {
      fill(spec_of(init, "w", shape));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(problem({3, 8}).find("the vectors have another length than the rows of 'w'"), std::string::npos);
  EXPECT_NE(problem({4, 16}).find("there are other words than rows of 'w'"), std::string::npos);
}

struct Moments {
  double mean = 0, variance = 0, low = 1e9, high = -1e9;
};

Moments moments(const std::vector<float>& values) {
  Moments m;
  for (const float v : values) {
    m.mean += double{v} / static_cast<double>(values.size());
    m.low = std::min(m.low, double{v});
    m.high = std::max(m.high, double{v});
  }
  for (const float v : values) m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  return m;
}

// fan_in = 100, fan_out = 300. The formulas are Deeplearning4j's.
TEST(Initializer, VariancesFollowTheFans) {
  const auto variance = [](const char* type) { return moments(fill(spec_of(example(type), "w", {200, 200}))).variance; };
  const auto near = [&](const char* type, double expected) { EXPECT_NEAR(variance(type) / expected, 1, 0.03) << type; };
  near("xavier", 2.0 / 400);
  near("xavier_uniform", 2.0 / 400);
  near("xavier_legacy", 1.0 / 400);
  near("he_normal", 2.0 / 100);
  near("he_uniform", 2.0 / 100);
  near("lecun_normal", 1.0 / 100);
  near("lecun_uniform", 1.0 / 100);
  near("fan_in_uniform", 1.0 / 300);
  near("sigmoid_uniform", 16 * 2.0 / 400);
  near("var_scaling_uniform_fan_out", 1.0 / 300);
  near("var_scaling_uniform_fan_avg", 1.0 / 200);
  near("var_scaling_normal_fan_in", 0.7737 / 100);  // what is left of the variance within two deviations
  near("normal", 1e-4);
}

TEST(Initializer, TheFirstDrawsNeverChange) {
  // A model is reproduced from its seed by every later version and on every machine.
  const std::vector<float> values = fill(spec_of("xavier", "conv1.weight", {4}), 123);
  const float expected[] = {-0.0596904121f, 0.0781081691f, 0.0941436291f, -0.0372351333f};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(values[i], expected[i]) << i;
}

TEST(Initializer, OrthogonalRowsAreOrthonormal) {
  for (const Shape& shape : {Shape{5, 12}, Shape{12, 5}}) {
    const std::vector<float> w = fill(spec_of("orthogonal", "w", shape));
    const int64_t rows = shape[0], columns = shape[1], n = std::min(rows, columns), length = std::max(rows, columns);
    const auto at = [&](int64_t i, int64_t k) {
      return double{w[static_cast<size_t>(rows <= columns ? i * columns + k : k * columns + i)]};
    };
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (int64_t k = 0; k < length; ++k) dot += at(i, k) * at(j, k);
        EXPECT_NEAR(dot, i == j ? 1 : 0, 1e-6);
      }
  }
}

TEST(Initializer, ErrorsNameTheParameter) {
  const auto error_of = [](Json init, const Shape& shape) {
    try {
      fill(spec_of(std::move(init), "conv1.weight", shape));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error_of("xavir", {3}).find("initial value of 'conv1.weight': there is no initializer 'xavir'; did you mean 'xavier'"),
            std::string::npos);
  EXPECT_NE(error_of("identity", {3, 4}).find("no identity"), std::string::npos);
  EXPECT_NE(error_of(Json::parse(R"({"type": "normal", "std": 1})", "t"), {3}).find("unknown key 'std'"), std::string::npos);
  EXPECT_EQ(error_of(0.5, {3}), "no error");
}

// Against the distribution function, by complementary error function: both tails and the middle.
TEST(Draws, QuantilesInvertTheDistributionFunction) {
  for (const double x : {-8.0, -5.5, -3.0, -1.2, -0.3, 0.0, 0.7, 1.9, 4.0}) {
    const double p = 0.5 * std::erfc(-x / std::sqrt(2.0));
    EXPECT_NEAR(normal_quantile(p), x, 1e-9 * std::max(1.0, std::abs(x))) << x;
  }
  for (const double x : {1e-300, 1e-5, 0.3, 0.9999, 1.0, 7.5, 1e200})
    EXPECT_NEAR(exact_log(x), std::log(x), 1e-13 * std::max(1.0, std::abs(std::log(x))));
  for (const double x : {-700.0, -1.5, 0.0, 0.3, 20.0, 700.0}) EXPECT_NEAR(exact_exp(x) / std::exp(x), 1, 1e-13);
}

}  // namespace
}  // namespace perigee
