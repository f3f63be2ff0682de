// The middle of places (DataVec's GeographicMidpointReduction).
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/steps.h"
#include "src/data/table/steps/places.h"
#include "tests/core/refusal.h"

namespace perigee::tables {
namespace {

std::string middle(const std::vector<std::string>& places) {
  PlaceMean mean;
  for (const std::string& place : places) EXPECT_TRUE(mean.add(place)) << place;
  return mean.result();
}

void expect_near(const std::string& place, double latitude, double longitude) {
  const size_t comma = place.find(',');
  ASSERT_NE(comma, std::string::npos) << place;
  EXPECT_NEAR(std::stod(place.substr(0, comma)), latitude, 1e-9);
  EXPECT_NEAR(std::stod(place.substr(comma + 1)), longitude, 1e-9);
}

TEST(Places, HaveAMiddle) {
  expect_near(middle({"0,10", "0,20"}), 0, 15);
  expect_near(middle({"0,170", "0,-170"}), 0, 180);                                                       // and not 0
  expect_near(middle({"40.7128,-74.0060", "34.0522,-118.2437"}), 39.51030756575701, -97.16013188872247);  // by NumPy in double
  expect_near(middle({"48.1,11.6"}), 48.1, 11.6);
  EXPECT_EQ(middle({"0,0", "0,180"}), "") << "opposite places";
  EXPECT_EQ(middle({}), "");
  EXPECT_EQ(middle({"0:30", "0:30"}).substr(0, 2), "0:") << "as the first one was written";
  for (const char* const wrong : {"", "1", "1,", "1,2,3", "91,0", "a,b", "1 2x", "1,,2", "nan,0"})
    EXPECT_FALSE(PlaceMean().add(wrong)) << wrong;
  for (const char* const good : {"1 2", "1; -2 ", " 1:2", "1 , 2"}) EXPECT_TRUE(PlaceMean().add(good)) << good;
}

TEST(Places, AreAnAggregate) {
  const auto group = [](const std::string& csv) {
    Frame frame = TableFile("t.csv", {.schema = TableSchema{.columns = {{.name = "k"}, {.name = "at"}}}}, csv).all();
    Steps(Json::parse(R"([{"group": "k", "midpoint": "at"}])", "steps"), "steps", ".").run(frame);
    return frame;
  };
  const Frame frame = group("k,at\na,\"0,10\"\nb,\na,\"0,20\"\n");
  EXPECT_EQ(frame.schema.columns[1].name, "midpoint(at)");
  expect_near(cell_text(frame.columns[1], {}, 0), 0, 15);
  EXPECT_TRUE(frame.columns[1].is_missing(1));
  EXPECT_HAS(refusal([&] { group("k,at\na,Rome\n"); }),
             "the column 'at' has a text that is no place; got 'Rome', expected latitude and longitude in degrees, such as 48.1,11.6");
  EXPECT_HAS(refusal([&] {
               Frame numbers = TableFile("t.csv", {}, "k,at\na,1\n").all();
               Steps(Json::parse(R"([{"group": "k", "midpoint": "at"}])", "steps"), "steps", ".").run(numbers);
             }),
             "the column 'at' has no midpoint; got integer, expected texts of latitude and longitude");
}

}  // namespace
}  // namespace perigee::tables
