// `--device check:cpu,ref` on the host: a kernel that gives something else than the reference is named.
#include <gtest/gtest.h>

#include <string>

#include "tests/train/networks.h"

namespace perigee {
namespace {

// One example of 64 ones and a unit whose weights cancel out, but not on the way: a sum in another order, or in another precision, is
// infinite where the reference's is not, or the other way round.
TEST(HostCheck, NamesTheKernelThatIsWrong) {
  std::string ones;
  for (int i = 0; i < 64; ++i) ones += i ? ", 1" : "1";
  const Job job(Json::parse(R"({"network": [{"type": "dense", "out": 4, "name": "d"}], "loss": "mse", "optimizer": "sgd", "seed": 1,
                               "data": {"train": {"type": "arrays", "x": [[)" +
                                ones + "], [" + ones + R"(]], "y": [[0, 0, 0, 0], [0, 0, 0, 0]]}, "batch": 2}})",
                            "job"),
                "job");
  Trainer agrees(job, {.threads = 1, .check = true});
  agrees.step();
  std::string told;
  for (const int run : {1, 2, 4, 8, 16, 32}) {  // so many weights of one sign follow each other
    Trainer trainer(job, {.threads = 1, .check = true});
    Params& params = trainer.model().params();
    auto* const weight = reinterpret_cast<float*>(params.parameter(params.find("d.weight")));
    for (int i = 0; i < 4 * 64; ++i) weight[i] = i % 64 / run % 2 == 0 ? 3e38f : -3e38f;
    try {
      trainer.step();
    } catch (const Error& error) {
      const std::string what = error.what();
      if (what.find("disagrees") != std::string::npos) told = what;
    }
  }
  for (const char* part : {"step 1: a kernel disagrees with the reference", "dense 'd' (layer 1 of 1)", "op '",
                           "train with device = \"ref\", and report this"})
    EXPECT_NE(told.find(part), std::string::npos) << "'" << part << "' in: " << told;
}

}  // namespace
}  // namespace perigee
