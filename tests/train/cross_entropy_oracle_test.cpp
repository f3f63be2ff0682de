// The loss of classes at each step, of which some are ignored, beside PyTorch's: $PERIGEE_DATA/oracles/sequences/cross_entropy_ignore.npz. The logits
// are an embedding's weights, so that one step of plain gradient descent by 1 takes their gradient from them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/train/trainer.h"

namespace perigee {
namespace {

std::string path() {
  const char* data = std::getenv("PERIGEE_DATA");
  return std::string(data != nullptr ? data : "") + "/oracles/sequences/cross_entropy_ignore.npz";
}

// Loss and gradient are `scale` times those of PyTorch, which divides by the sum of the weights of the classes.
void expect_as_pytorch(const std::string& loss, const std::string& kind, double scale, std::map<std::string, Tensor>& file) {
  const Tensor &logits = file.at("logits"), &target = file.at("target");
  const int64_t rows = logits.shape()[0], steps = logits.shape()[1], classes = logits.shape()[2];
  Json x = Json::array(), y = Json::array();
  for (int64_t n = 0; n < rows; ++n) {
    Json places = Json::array(), labels = Json::array();
    for (int64_t t = 0; t < steps; ++t) places.push(n * steps + t), labels.push(target.data<int64_t>()[n * steps + t]);
    x.push(std::move(places)), y.push(std::move(labels));
  }
  Json job = Json::parse(R"({"optimizer": {"type": "sgd", "lr": 1}, "precision": "float64", "epochs": 1, "data": {"batch": 2},
    "network": [{"type": "embedding", "size": 8, "out": 5, "rows": "dense"}], "loss": )" +
                             loss + "}",
                         "job");
  job.find("data")->set("train", Json(Json::Object{{"type", "arrays"}, {"x", std::move(x)}, {"y", std::move(y)}}));
  Trainer trainer(Job(job, "job"), {.threads = 1});
  Params& params = trainer.model().params();
  auto* const weights = reinterpret_cast<double*>(params.parameter(0));
  std::copy_n(logits.data<double>(), logits.elements(), weights);
  const double found = trainer.step().loss;
  EXPECT_NEAR(found, scale * file.at("loss_" + kind).data<double>()[0], 1e-12) << kind;
  const double* const gradient = file.at("grad_" + kind).data<double>();
  for (int64_t i = 0; i < rows * steps * classes; ++i)
    ASSERT_NEAR(logits.data<double>()[i] - weights[i], scale * gradient[i], 1e-12) << kind << " " << i;
}

TEST(CrossEntropy, OfStepsIsThatOfPytorch) {
  if (!std::filesystem::exists(path())) GTEST_SKIP() << path() << " is not there";
  std::map<std::string, Tensor> file;
  for (auto& [name, tensor] : parse_npz(read_file(path()), path())) file[name] = tensor;
  expect_as_pytorch(R"({"type": "cross_entropy", "ignore": -100})", "plain", 1, file);
  expect_as_pytorch(R"({"type": "cross_entropy", "ignore": -100, "label_smoothing": 0.1})", "smooth", 1, file);
  double sum = 0, count = 0;
  for (int64_t i = 0; i < file.at("target").elements(); ++i)
    if (const int64_t label = file.at("target").data<int64_t>()[i]; label >= 0) sum += file.at("weight").data<double>()[label], ++count;
  expect_as_pytorch(R"({"type": "cross_entropy", "ignore": -100, "weights": [1, 2, 0.5, 1, 3]})", "weighted", sum / count, file);
  expect_as_pytorch(R"({"type": "cross_entropy", "ignore": -100, "weights": [1, 2, 0.5, 1, 3], "label_smoothing": 0.1})", "both",
                    sum / count, file);
}

}  // namespace
}  // namespace perigee
