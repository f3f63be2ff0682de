#include "src/core/schema.h"

#include <gtest/gtest.h>

#include "src/core/config.h"

namespace perigee {
namespace {

constexpr Option kEndOptions[] = {{"at", "integer", "0", "where it ends", {0, 100}}};
constexpr Schema kEnd{.options = kEndOptions};
constexpr Option kCommonOptions[] = {{"name", "string", "none", "unique"}, {"rate", "number", "1", "of every member"}};
constexpr Schema kCommon{.options = kCommonOptions};
constexpr const char* kPositional[] = {"out"};
constexpr Option kOptions[] = {
    {"out", "integer", nullptr, "channels", {1}},
    {"rate", "number", "0.5", "share", {0, 1}},
    {"rounding", "name", "nearest", "how", {}, {"nearest", "stochastic"}},
    {"kernel", "integer or {height, width}", "1", "size", {1}},
    {"bias", "boolean", "true", "adds a number"},
    {"adapt", "name", "none", "whether it adapts", {}, {"none", "range"}},
    {"stride", "integer", "the kernel", "step"},
    {"end", "table", "none", "the end", {}, {}, nullptr, &kEnd},
};
constexpr Schema kSchema{.options = kOptions, .positional = kPositional, .common = &kCommon};

std::string schema_refusal(const char* text, const Schema& schema = kSchema) {
  try {
    check_options(Json::parse(text, "t"), schema, "here");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Schema, ChecksTypesRangesAndChoices) {
  EXPECT_EQ(
      schema_refusal(R"({"type": "t", "out": 3.0, "rate": 1, "rounding": "nearest", "kernel": [2, 3], "bias": null, "end": {"at": 7}})"),
      "accepted");
  EXPECT_EQ(schema_refusal(R"({"out": "x"})"), "here: 'out' has the wrong type; got string \"x\", expected an integer of at least 1");
  EXPECT_EQ(schema_refusal(R"({"out": 1.5})"), "here: 'out' has the wrong type; got number 1.5, expected an integer of at least 1");
  EXPECT_EQ(schema_refusal(R"({"out": 0})"), "here: 'out' is out of range; got 0, expected an integer of at least 1");
  EXPECT_EQ(schema_refusal(R"({"rate": 1.5})"), "here: 'rate' is out of range; got 1.5, expected a number from 0 to 1");
  EXPECT_EQ(schema_refusal(R"({"rounding": "nearst"})"),
            "here: 'rounding' has an unknown value; got 'nearst', expected one of 'nearest', 'stochastic'; did you mean 'nearest'?");
  EXPECT_NE(schema_refusal(R"({"kernel": [2, "x"]})").find("has an element of the wrong type"), std::string::npos);
  EXPECT_NE(schema_refusal(R"({"kernel": [2, 0]})").find("is out of range"), std::string::npos);
  EXPECT_NE(schema_refusal(R"({"bias": 1})").find("expected true or false"), std::string::npos);
}

TEST(Schema, RefusesUnknownKeysAtTheirPlace) {
  EXPECT_EQ(schema_refusal(R"({"kernal": 3})"), "here: unknown key 'kernal'; did you mean 'kernel'?");
  EXPECT_NE(schema_refusal(R"({"whatever": 3})").find("its options are 'out', 'rate', 'rounding'"), std::string::npos);
  EXPECT_EQ(schema_refusal(R"({"nam": "x"})"), "here: unknown key 'nam'; did you mean 'name'?");
  EXPECT_EQ(schema_refusal(R"({"end": {"a": 7}})"), "here: end: unknown key 'a'; did you mean 'at'?");
  EXPECT_EQ(schema_refusal(R"({"end": {"@": "net.lua:3", "a": 7}})"), "net.lua:3: here: end: unknown key 'a'; did you mean 'at'?");
  EXPECT_EQ(schema_refusal(R"({"anything": 7})", {.options = kOptions, .open = true}), "accepted");
}

TEST(Schema, OwnOptionsReplaceCommonOnes) {
  EXPECT_EQ(kSchema.names(), (std::vector<std::string>{"out", "rate", "rounding", "kernel", "bias", "adapt", "stride", "end", "name"}));
  EXPECT_STREQ(kSchema.find("rate")->fallback, "0.5");
  EXPECT_STREQ(kSchema.find("name")->doc, "unique");
  EXPECT_EQ(kSchema.find("none"), nullptr);
}

TEST(Schema, DefaultsAreValuesOrWords) {
  EXPECT_EQ(fallback_value(*kSchema.find("rate")), Json(0.5));
  EXPECT_EQ(fallback_value(*kSchema.find("bias")), Json(true));
  EXPECT_EQ(fallback_value(*kSchema.find("rounding")), Json("nearest"));
  EXPECT_EQ(fallback_value(*kSchema.find("adapt")), Json("none"));
  EXPECT_TRUE(fallback_value(*kSchema.find("stride")).is_null());
  EXPECT_TRUE(fallback_value(*kSchema.find("name")).is_null());
  EXPECT_TRUE(fallback_value(*kSchema.find("out")).is_null());
}

TEST(Schema, ConfigTakesDefaultsFromIt) {
  const Json json = Json::parse(R"({"type": "t", "out": 3, "@": "net.lua:3"})", "t");
  const Config config(json, kSchema, "here");
  EXPECT_EQ(config.integer("out"), 3);
  EXPECT_EQ(config.number("rate"), 0.5);
  EXPECT_TRUE(config.boolean("bias"));
  EXPECT_EQ(config.choice("rounding"), "nearest");
  EXPECT_THROW(config.integer("stride"), Error);  // its default is told in words
  EXPECT_THROW(Config(json, "here").with(kEnd), Error);
  EXPECT_DEATH(config.has("unheard_of"), "find");
}

}  // namespace
}  // namespace perigee
