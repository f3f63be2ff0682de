// Names of other libraries lead to names that are here.
#include "src/core/elsewhere.h"

#include <gtest/gtest.h>

#include <set>

#include "cluster/policy/families.h"
#include "src/core/config.h"
#include "src/job/job_schema.h"

namespace perigee {
namespace {

void add_names(const Schema& schema, std::set<std::string>& names) {
  for (const Option* option : schema.all()) {
    names.insert(option->name);
    if (option->inside != nullptr) add_names(*option->inside, names);
  }
}

// Options and members of everything, and keys of a job.
std::set<std::string> all_names() {
  std::set<std::string> names = {"data", "seed", "graph"};
  for (const Family& family : all_families()) {
    if (family.plain != nullptr) add_names(*family.plain, names);
    for (const FamilyMember& member : family.members) {
      names.insert(member.name);
      add_names(member.schema, names);
    }
  }
  add_names(job_schema, names);
  return names;
}

TEST(Elsewhere, EveryNameLeadsToOneThatIsHere) {
  const std::set<std::string> names = all_names();
  std::set<std::string> seen;
  for (const Elsewhere& entry : names_elsewhere()) {
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(seen.insert(std::string(entry.name)).second) << "is there twice";
    EXPECT_FALSE(entry.here.empty() && entry.advice.empty()) << "says nothing";
    std::string_view rest = entry.here;
    while (!rest.empty()) {
      const std::string each(rest.substr(0, rest.find(',')));
      EXPECT_TRUE(names.contains(each)) << each;
      rest.remove_prefix(std::min(each.size() + 1, rest.size()));
    }
  }
}

TEST(Elsewhere, TheFirstKnownNameIsMeant) {
  EXPECT_EQ(meant_elsewhere("kernel_size", {"out", "kernel"}), "did you mean 'kernel'?");
  EXPECT_EQ(meant_elsewhere("KernelSize", {"kernel"}), "did you mean 'kernel'?") << "neither letters' case nor underscores matter";
  EXPECT_EQ(meant_elsewhere("hidden_size", {"out", "units"}), "did you mean 'units'?");
  EXPECT_EQ(meant_elsewhere("kernel_size", {"out"}), "");
  EXPECT_EQ(nearest_hint("Linear", {"linear", "dense"}), "did you mean 'dense'?") << "a schedule has that name";
  EXPECT_EQ(nearest_hint("maxpooling2d", {"maxpool1d", "maxpool"}), "did you mean 'maxpool'?");
  EXPECT_EQ(nearest_hint(std::string(1000, 'x'), {"kernel"}), "");
}

TEST(Elsewhere, WhereTheNameHasNoKeyTheAdviceSaysHow) {
  EXPECT_NE(advice_elsewhere("validation_split", {"train"}).find("source:split"), std::string::npos);
  EXPECT_NE(advice_elsewhere("batch_size", {"epochs"}).find("data = {"), std::string::npos);
  EXPECT_EQ(advice_elsewhere("batch_size", {"batch"}), "did you mean 'batch'?");
  EXPECT_EQ(advice_elsewhere("frobnicate", {"batch"}), "");
}

// As people meet it: a key of the job that Keras and PyTorch have.
TEST(Elsewhere, TheErrorOfAnUnknownKeyNamesTheRightOne) {
  for (const char* key : {"callbacks", "verbose", "batch_size", "learning_rate", "monitor", "validation_split", "validation_data",
                          "shuffle", "patience", "lr_scheduler", "optim", "criterion", "dataloader", "num_epochs", "class_weight"}) {
    SCOPED_TRACE(key);
    try {
      check_options(Json(Json::Object{{key, 1}}), job_schema, "job.json");
      FAIL() << "it is no key";
    } catch (const Error& error) {
      EXPECT_FALSE(error.parts().hint.empty());
      EXPECT_EQ(error.parts().hint.find("its options are"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace perigee
