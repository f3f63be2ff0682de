// "class_weight": "balanced": weights of the classes by how often each comes.
#include "src/train/class_weights.h"

#include <gtest/gtest.h>

#include "src/train/trainer.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

constexpr const char* kUnequal = R"({"type": "arrays", "x": [[0.1], [0.2], [0.3], [0.4], [0.5]], "y": [0, 0, 0, 2, 0], "classes": 3})";

Job job_with(const std::string& loss, const std::string& train = kUnequal) {
  return Job(Json::parse(R"({"network": [{"type": "dense", "out": 3}], "optimizer": "sgd", "seed": 1, "loss": )" + loss +
                             R"(, "data": {"batch": 5, "train": )" + train + "}}",
                         "job"),
             "job");
}

// compute_class_weight("balanced", classes=[0, 2], y=[0, 0, 0, 2, 0]) of scikit-learn 1.5 is [0.625, 2.5].
TEST(ClassWeights, AreThoseOfScikitLearn) {
  for (const char* loss : {"cross_entropy", "sparse_cross_entropy", "negative_log_likelihood", "focal"}) {
    const std::string type = R"({"type": ")" + std::string(loss) + "\"";
    const Trainer balanced(job_with(type + R"(, "class_weight": "balanced"})"), {.threads = 1});
    EXPECT_EQ(*balanced.job().json().find("loss")->find("weights"), Json(Json::Array{0.625, 1.0, 2.5}));
    EXPECT_EQ(balanced.job().json().find("loss")->find("class_weight"), nullptr);
  }
}

TEST(ClassWeights, TrainAsTheNumbersDo) {
  Trainer balanced(job_with(R"({"type": "cross_entropy", "class_weight": "balanced"})"), {.threads = 1});
  Trainer numbers(job_with(R"({"type": "cross_entropy", "weights": [0.625, 1, 2.5]})"), {.threads = 1});
  Trainer plain(job_with(R"("cross_entropy")"), {.threads = 1});
  EXPECT_EQ(balanced.step().loss, numbers.step().loss);
  plain.step();
  EXPECT_EQ(bits_of(balanced), bits_of(numbers));
  EXPECT_NE(bits_of(balanced), bits_of(plain));
}

TEST(ClassWeights, OfOneHeadOfSeveral) {
  Job job(Json::parse(R"({"network": {"type": "graph", "inputs": ["x"], "outputs": ["kind"], "nodes":
      [{"name": "kind", "layer": {"type": "dense", "out": 3}, "inputs": ["x"]}]}, "optimizer": "sgd",
      "loss": {"kind": {"type": "cross_entropy", "class_weight": "balanced", "target": "y"}},
      "data": {"batch": 5, "train": )" +
                          std::string(kUnequal) + "}}",
                      "job"),
          "job");
  const Trainer trainer(job, {.threads = 1});
  EXPECT_EQ(*trainer.job().json().find("loss")->find("kind")->find("weights"), Json(Json::Array{0.625, 1.0, 2.5}));
}

TEST(ClassWeights, RefusesWhatHasNoClasses) {
  const std::string balanced = R"({"type": "cross_entropy", "class_weight": "balanced")";
  EXPECT_NE(failure_of(job_with(balanced + R"(, "weights": [1, 1, 1]})")).find("both say how much a class counts"), std::string::npos);
  const std::string mixed = R"({"type": "mixup", "source": )" + std::string(kUnequal) + "}";
  EXPECT_NE(failure_of(job_with(balanced + "}", mixed)).find("needs a label of each example"), std::string::npos);
}

}  // namespace
}  // namespace perigee
