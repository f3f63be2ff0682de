// with_noise: one more field of random numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "src/data/source.h"
#include "tests/data/fixtures.h"

namespace perigee {
namespace {

SourcePtr open_noise(const std::string& options) {
  return open_source(Config(Json::parse(R"({"type":"with_noise","source":{"type":"digits","size":400},)" + options + "}", "test"), "test",
                            ErrorKind::data),
                     ".");
}

std::vector<float> noise(const DataSource& source, int64_t index, uint64_t epoch = 0, uint64_t seed = 7) {
  std::vector<std::vector<std::byte>> values;
  std::vector<std::byte*> slots;
  for (const Field& field : source.fields()) values.emplace_back(static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype));
  for (auto& each : values) slots.push_back(each.data());
  source.read({.index = index, .epoch = epoch, .seed = seed}, slots);
  const auto* data = reinterpret_cast<const float*>(values.back().data());
  return {data, data + source.fields().back().shape.elements()};
}

TEST(WithNoise, DrawsStandardNormalNumbers) {
  const SourcePtr source = open_noise(R"("size":[7,9])");
  EXPECT_EQ(source->fields().back().name, "z");
  EXPECT_EQ(source->fields().back().shape, (Shape{7, 9}));
  double sum = 0, squares = 0, cubes = 0, fourths = 0, n = 0;
  for (int64_t i = 0; i < 400; ++i)
    for (const double z : noise(*source, i)) sum += z, squares += z * z, cubes += z * z * z, fourths += z * z * z * z, n += 1;
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.03);
  EXPECT_NEAR(cubes / n, 0, 0.07);
  EXPECT_NEAR(fourths / n, 3, 0.2);
}

TEST(WithNoise, IsAFunctionOfSeedEpochAndNumber) {
  const SourcePtr fresh = open_noise(R"("size":5)"), kept = open_noise(R"("size":5,"fresh":false)"),
                  other = open_noise(R"("size":5,"field":"w")");
  EXPECT_EQ(noise(*fresh, 3, 1), noise(*fresh, 3, 1));
  EXPECT_NE(noise(*fresh, 3, 1), noise(*fresh, 3, 2));
  EXPECT_NE(noise(*fresh, 3, 1), noise(*fresh, 4, 1));
  EXPECT_NE(noise(*fresh, 3, 1), noise(*fresh, 3, 1, 8));
  EXPECT_EQ(noise(*kept, 3, 1), noise(*kept, 3, 2));
  EXPECT_NE(noise(*other, 3), noise(*fresh, 3));
}

TEST(WithNoise, UniformNumbersLieBetweenMinusOneAndOne) {
  const SourcePtr source = open_noise(R"("size":200,"distribution":"uniform")");
  double least = 0, most = 0;
  for (const double z : noise(*source, 1)) least = std::min(least, z), most = std::max(most, z);
  EXPECT_GE(least, -1);
  EXPECT_LT(least, -0.9);
  EXPECT_LT(most, 1);
  EXPECT_GT(most, 0.9);
}

TEST(WithNoise, SaysWhatIsWrong) {
  for (const auto& [options, text] : {std::pair{R"("size":5,"field":"x")", "is there already; got 'x', expected the name of a new field"},
                                      {R"("size":[])", "has another number of dimensions"},
                                      {R"("size":[0])", "expected sizes from 1, and at most 16,777,216 numbers"},
                                      {R"("size":[70000,70000])", "is out of range"}})
    try {
      open_noise(options);
      ADD_FAILURE() << options;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace perigee
