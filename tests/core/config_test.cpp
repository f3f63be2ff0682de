#include "src/core/config.h"
#include "tests/core/refusal.h"

#include <gtest/gtest.h>

namespace perigee {
namespace {

TEST(Config, ReadsTypedValues) {
  const Json json = Json::parse(R"({"out": 20, "rate": 0.5, "whole": 3.0, "flag": true, "kernel": 5, "stride": [1, 2],
                                    "names": "x", "list": ["a", "b"], "sub": {"k": 1}, "none": null})",
                                "t");
  const Config config(json, "t");
  EXPECT_EQ(config.integer("out"), 20);
  EXPECT_EQ(config.integer("whole"), 3);
  EXPECT_EQ(config.integer("absent", 7), 7);
  EXPECT_EQ(config.integer("none", 8), 8);
  EXPECT_EQ(config.number("rate"), 0.5);
  EXPECT_EQ(config.number("out"), 20.0);
  EXPECT_TRUE(config.boolean("flag", false));
  EXPECT_EQ(config.integers("kernel", 2, 1), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(config.integers("stride", 2, 1), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.integers("absent", 2, 1), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(config.string_list("names"), std::vector<std::string>{"x"});
  EXPECT_EQ(config.string_list("list").size(), 2u);
  EXPECT_EQ(config.object("sub").integer("k"), 1);
  EXPECT_NO_THROW(config.reject_unread());
}

TEST(Config, RefusesWrongTypesAndRanges) {
  const Json json = Json::parse(R"({"a": "x", "b": 1.5, "c": 300, "d": [1, 2, 3], "e": 1e300})", "t");
  const Config config(json, "net.lua:7: conv2d 'conv1'");
  EXPECT_EQ(refusal([&] { config.integer("a"); }),
            "net.lua:7: conv2d 'conv1': 'a' has the wrong type; got string \"x\", expected an integer");
  EXPECT_NE(refusal([&] { config.integer("b"); }), "accepted");
  EXPECT_NE(refusal([&] { config.integer("e"); }), "accepted");
  EXPECT_NE(refusal([&] { config.integer("absent"); }).find("missing"), std::string::npos);
  EXPECT_NE(refusal([&] { config.integer_in("c", 1, 256); }).find("from 1 to 256"), std::string::npos);
  EXPECT_NE(refusal([&] { config.integers("d", 2, 1); }), "accepted");
  EXPECT_NE(refusal([&] { config.object("c"); }), "accepted");
  EXPECT_NE(refusal([&] { config.choice("a", "one", {"one", "two"}); }).find("one of 'one', 'two'"), std::string::npos);
}

TEST(Config, NamesTheNearestKeyForATypo) {
  const Json json = Json::parse(R"({"kernal": 5, "out": 3, "@": "lenet.lua:7"})", "t");
  const Config config(json, "t");
  config.integer("out");
  config.integer("kernel", 3);
  EXPECT_EQ(refusal([&] { config.reject_unread(); }), "t: unknown key 'kernal'; did you mean 'kernel'?");
}

TEST(NearestHint, ProposesNoLetterForAnotherAndIgnoresCase) {
  EXPECT_EQ(nearest_hint("y", {"f", "x"}), "");
  EXPECT_EQ(nearest_hint("Y", {"f", "y"}), "did you mean 'y'?");
  EXPECT_EQ(nearest_hint("MSE", {"mae", "mse", "msle"}), "did you mean 'mse'?");
  EXPECT_EQ(nearest_hint("tset", {"test", "train"}), "did you mean 'test'?");
}

}  // namespace
}  // namespace perigee
