#include "src/core/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "src/core/error.h"

namespace perigee {
namespace {

Json parse(std::string_view text) { return Json::parse(text, "test.json"); }

std::string json_refusal(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::model);
    return error.what();
  }
  return "accepted";
}

TEST(Json, KeepsTypesAndOrder) {
  const Json json = parse(R"({"z": 1, "a": [1.0, -2, true, null, "x\u00e9\n"], "m": {}})");
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.as_object()[0].first, "z");
  EXPECT_TRUE(json.find("z")->is_int());
  const auto& items = json.find("a")->as_array();
  EXPECT_FALSE(items[0].is_int());
  EXPECT_EQ(items[0].as_number(), 1.0);
  EXPECT_EQ(items[1].as_int(), -2);
  EXPECT_EQ(items[4].as_string(), "x\xc3\xa9\n");
  EXPECT_EQ(json.dump(), "{\"z\":1,\"a\":[1.0,-2,true,null,\"x\xc3\xa9\\n\"],\"m\":{}}");
  EXPECT_EQ(parse(json.dump(2)), json);
}

TEST(Json, IntegersAreInt64) {
  EXPECT_EQ(parse("9223372036854775807").as_int(), INT64_MAX);
  EXPECT_EQ(parse("-9223372036854775808").as_int(), INT64_MIN);
  EXPECT_NE(json_refusal("9223372036854775808").find("64 bits"), std::string::npos);
}

TEST(Json, DoublesRoundTripExactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    const Json back = parse(Json(value).dump());
    ASSERT_FALSE(back.is_int());
    ASSERT_EQ(back.as_number(), value) << Json(value).dump();
  }
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  EXPECT_EQ(Json(1e20).dump(), "1e+20");
  EXPECT_EQ(Json(3.0).dump(), "3.0");
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
}

TEST(Json, TellsUnderflowFromOverflow) {
  EXPECT_EQ(parse("1e-400").as_number(), 0.0);
  EXPECT_EQ(parse("0.00001e-320").as_number(), 0.0);
  EXPECT_TRUE(std::signbit(parse("-1e-999999999").as_number()));
  for (const char* text : {"1e400", "-1e400", "0.001e999", "1e999999999", "12345e305"}) EXPECT_NE(json_refusal(text), "accepted") << text;
}

TEST(Json, RefusesWhatIsNotStrict) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{\"a\" 1}",
                           "nul",
                           "01",
                           "+1",
                           ".5",
                           "1.",
                           "NaN",
                           "Infinity",
                           "'a'",
                           "\"a",
                           "[1] 2",
                           "{} {}",
                           "/* c */ 1",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "\"\\udf0e9\"",
                           "{\"\\udc00\":1}",
                           "\"\x80\"",
                           "\"\xc0\xaf\"",
                           "\"\n\""})
    EXPECT_NE(json_refusal(text), "accepted") << text;
  EXPECT_NE(json_refusal(std::string_view("1\0junk", 6)), "accepted");
  EXPECT_NE(json_refusal("\xef\xbb\xbf{}"), "accepted");
}

TEST(Json, SaysWhere) {
  EXPECT_TRUE(json_refusal("{\n  \"a\": 1,\n  \"b\": x\n}").starts_with("test.json:3:")) << json_refusal("{\n  \"a\": 1,\n  \"b\": x\n}");
}

TEST(Json, RefusesDuplicateKeysInSmallAndLargeObjects) {
  EXPECT_NE(json_refusal(R"({"a":1,"b":2,"a":3})").find("'a' appears twice"), std::string::npos);
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_NE(json_refusal(text + "\"k99\":1}").find("'k99' appears twice"), std::string::npos);
  EXPECT_EQ(parse(text + "\"other\":1}").as_object().size(), 101u);
  EXPECT_NO_THROW(parse(R"([{"a":1},{"a":{"a":1}}])"));
}

TEST(Json, BoundsDepthAndCount) {
  EXPECT_NO_THROW(parse(std::string(64, '[') + std::string(64, ']')));
  EXPECT_NE(json_refusal(std::string(65, '[') + std::string(65, ']')).find("deeper than 64"), std::string::npos);
  EXPECT_NE(json_refusal(std::string(10'000'000, '[')).find("deeper than 64"), std::string::npos);
  EXPECT_THROW(Json::parse("[1,2,3]", "t", 3), Error);
  EXPECT_NO_THROW(Json::parse("[1,2,3]", "t", 4));
}

TEST(Json, WritesOnlyWhatItCanRead) {
  const Json strange(std::string("a\xff\xc3(\xed\xa0\x80\x01\x7f\"\\", 12));
  EXPECT_NO_THROW(parse(strange.dump()));
  const Json fine(std::string("\xf0\x9f\x99\x82 \xc3\xa9"));
  EXPECT_EQ(parse(fine.dump()), fine);
}

TEST(Json, SetReplacesInPlace) {
  Json json;
  json.set("a", 1);
  json.set("b", 2);
  json.set("a", "x");
  EXPECT_EQ(json.dump(), R"({"a":"x","b":2})");
  json.erase("a");
  json.set("c", Json()).push(3);
  EXPECT_EQ(json.dump(), R"({"b":2,"c":[3]})");
}

}  // namespace
}  // namespace perigee
