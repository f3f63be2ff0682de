// Rules for the options of every definition in every registry.
#include <gtest/gtest.h>

#include <iterator>
#include <set>

#include "cluster/policy/families.h"
#include "src/core/config.h"
#include "src/job/job.h"
#include "src/job/job_schema.h"
#include "src/schema/json_schema.h"

namespace perigee {
namespace {

void check_documented(const Schema& schema) {
  std::set<std::string> names;
  for (const Option* option : schema.all()) {
    SCOPED_TRACE(option->name);
    EXPECT_TRUE(names.insert(option->name).second) << "is there twice";
    ASSERT_NE(option->doc, nullptr);
    EXPECT_NE(*option->doc, 0);
    EXPECT_LE(option->range.low, option->range.high);
    EXPECT_NO_THROW(check_option(fallback_value(*option), *option, "default"));
    if (option->inside != nullptr) check_documented(*option->inside);
  }
  for (const char* name : schema.positional) EXPECT_NE(schema.find(name), nullptr) << name;
}

std::string options_refusal(const Json& json, const Schema& schema) {
  try {
    check_options(json, schema, "here");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Families, EveryMemberTellsItsOptions) {
  const std::vector<Family> all = all_families();
  size_t count = 0;
  for (const Family& family : all) {
    EXPECT_TRUE(family.plain != nullptr || !family.members.empty()) << family.name;
    for (const FamilyMember& member : family.members) {
      SCOPED_TRACE(family.name + std::string(" ") + member.name);
      EXPECT_STRNE(member.doc, "");
      check_documented(member.schema);
      const Json example = std::string_view(member.example).empty() ? Json::object() : Json::parse(member.example, "example");
      EXPECT_EQ(options_refusal(example, member.schema), "accepted");
      ++count;
    }
  }
  EXPECT_GT(count, 200u);
  check_documented(job_schema);
}

TEST(Families, EveryTypeNamesAFamilyThatIsThere) {
  std::set<std::string> names;
  for (const Family& family : all_families()) names.insert(family.name);
  for (const OptionType& type : kOptionTypes) EXPECT_TRUE(type.family == nullptr || names.contains(type.family)) << type.text;
}

TEST(Families, EveryMemberRefusesAnUnknownKeyAtItsPlace) {
  for (const Family& family : all_families())
    for (const FamilyMember& member : family.members) {
      if (member.schema.open) continue;
      SCOPED_TRACE(family.name + std::string(" ") + member.name);
      const Json json = Json::parse(R"({"@": "net.lua:7", "no_such_key": 1})", "t");
      EXPECT_EQ(options_refusal(json, member.schema).find("net.lua:7: here: unknown key 'no_such_key'"), 0u);
    }
}

std::string job_refusal(const char* data, const char* more = "") {
  try {
    Job(Json::parse(std::string(R"({"network": "relu", "data": {)") + data + "}" + more + "}", "t"), "job.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Job, ChecksItsSections) {
  EXPECT_EQ(job_refusal(R"("batch": 8, "shuffle": false)"), "accepted");
  EXPECT_EQ(job_refusal(R"("bach": 8)"), "job.json: data: unknown key 'bach'; did you mean 'batch'?");
  EXPECT_NE(job_refusal(R"("batch": 0)").find("job.json: data: 'batch' is out of range; got 0"), std::string::npos);
  EXPECT_NE(job_refusal(R"("batch": "8")").find("'batch' has the wrong type"), std::string::npos);
  EXPECT_NE(job_refusal(R"("at": "nowhere")").find("'at' has an unknown value"), std::string::npos);
  EXPECT_EQ(job_refusal(R"("prefetch": 8)"), "job.json: 'data.prefetch' has no effect; remove it");
  EXPECT_EQ(job_refusal(R"("drop_last": true)"), "job.json: 'data.drop_last' has no effect; remove it");
  EXPECT_EQ(job_refusal("", R"(, "log": {"histogram": 1})"), "job.json: log: unknown key 'histogram'; did you mean 'histograms'?");
  EXPECT_EQ(job_refusal("", R"(, "early_stopping": {"patiense": 3})"),
            "job.json: early_stopping: unknown key 'patiense'; did you mean 'patience'?");
  EXPECT_EQ(job_refusal("", R"(, "epoch": 3)"), "job.json: unknown key 'epoch'; did you mean 'epochs'?");
}

TEST(JsonSchema, HasEveryKeyAndEveryMember) {
  const std::vector<Family> all = all_families();
  const Json schema = job_json_schema(all);
  for (const Option& option : job_schema.options) EXPECT_NE(schema.find("properties")->find(option.name), nullptr) << option.name;
  for (const Family& family : all)
    for (const FamilyMember& member : family.members)
      EXPECT_NE(schema.find("$defs")->find(family.name + std::string(" ") + member.name), nullptr) << member.name;
}

}  // namespace
}  // namespace perigee
