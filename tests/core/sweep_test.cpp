#include "src/core/sweep.h"

#include <gtest/gtest.h>

#include "src/core/error.h"

namespace perigee {
namespace {

TEST(Sweep, TheLastVariesFastest) {
  const std::vector<SweepPoint> points = sweep_points({"every=1,5", "codec=fp32,int8,topk"}, 6);
  ASSERT_EQ(points.size(), 6u);
  EXPECT_EQ(points[0], (SweepPoint{{"every", "1"}, {"codec", "fp32"}}));
  EXPECT_EQ(points[1], (SweepPoint{{"every", "1"}, {"codec", "int8"}}));
  EXPECT_EQ(points[5], (SweepPoint{{"every", "5"}, {"codec", "topk"}}));
}

TEST(Sweep, WithoutSweepsThereIsOnePoint) { EXPECT_EQ(sweep_points({}, 1), std::vector<SweepPoint>(1)); }

TEST(Sweep, AMistakeIsToldAtItsText) {
  for (const char* text : {"every", "=1", "every=", "every=1,,2", "every=1,"}) {
    try {
      sweep_points({text}, 64, "--grid");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find(std::string("--grid ") + text), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(sweep_points({"a=1,2,3", "b=1,2"}, 6).size(), 6u);
  EXPECT_THROW(sweep_points({"a=1,2,3", "b=1,2"}, 5), Error);
}

}  // namespace
}  // namespace perigee
