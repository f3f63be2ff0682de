// Terms that layers add to the loss, in training: they count as their examples do, and threads and sub-batches change nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/core/error.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

// Eight numbers between 0 and 1 for each example.
Json source_of(const std::vector<int64_t>& examples, const std::vector<int64_t>& weights = {}) {
  Json x = Json::array(), w = Json::array();
  for (const int64_t n : examples) {
    Json row = Json::array();
    for (int64_t i = 0; i < 8; ++i) row.push(static_cast<double>((n * 37 + i * i * 11 + n * i * 5) % 101) / 101);
    x.push(std::move(row));
  }
  Json source(Json::Object{{"type", "arrays"}, {"x", x}});
  for (const int64_t weight : weights) w.push(weight);
  if (!weights.empty()) source.set("w", w);
  return source;
}

std::vector<int64_t> up_to(int64_t count) {
  std::vector<int64_t> all;
  for (int64_t n = 0; n < count; ++n) all.push_back(n);
  return all;
}

Job job_on(const Json& source, const std::string& network, int64_t batch, const std::string& more, const std::string& data = "") {
  Json job = Json::parse(R"({"target": "x", "optimizer": {"type": "sgd", "lr": 0.05}, "seed": 3, "epochs": 20, "network": )" + network +
                             R"(, "data": {"batch": )" + std::to_string(batch) + data + "}" + more + "}",
                         "job");
  job.find("data")->set("train", source);
  return Job(job, "job");
}

struct Trained {
  std::vector<float> parameters;
  double first = 0, last = 0;  // losses
};

Trained train(const Job& job, int threads, int steps, Backend backend = Backend::cpu, int64_t sub_batch = 0) {
  Trainer trainer(job, {.threads = threads, .backend = backend, .sub_batch = sub_batch, .measure = false});
  Trained result;
  for (int i = 0; i < steps; ++i) {
    result.last = trainer.step().loss;
    if (i == 0) result.first = result.last;
  }
  const std::vector<std::byte> bytes = bits_of(trainer).parameters;
  result.parameters.resize(bytes.size() / sizeof(float));
  std::memcpy(result.parameters.data(), bytes.data(), bytes.size());
  return result;
}

void expect_close(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.f, std::fabs(a[i]))) << i;
}

constexpr const char* kContractive =
    R"([{"type": "dense", "out": 5, "activation": "sigmoid", "contractive": 0.3}, {"type": "dense", "out": 8}])";

TEST(LayerLosses, AnExampleOfWeightTwoCountsTwice) {
  const Job weighted = job_on(source_of(up_to(4), {2, 1, 1, 2}), kContractive, 4, R"(, "loss": "mse")", R"(, "weights": "w")");
  const Job twice = job_on(source_of({0, 0, 1, 2, 3, 3}), kContractive, 6, R"(, "loss": "mse")");
  const Trained a = train(weighted, 1, 20), b = train(twice, 1, 20);
  expect_close(a.parameters, b.parameters, 1e-5);
  EXPECT_NEAR(a.last, b.last, 1e-5);
  const Trained without = train(job_on(source_of({0, 0, 1, 2, 3, 3}), R"([{"type": "dense", "out": 5, "activation": "sigmoid"},
      {"type": "dense", "out": 8}])",
                                       6, R"(, "loss": "mse")"),
                                1, 20);
  EXPECT_GT(std::fabs(a.last - without.last), 1e-3) << "the penalty counts at all";
}

TEST(LayerLosses, ThreadsAndSubBatchesChangeNothing) {
  for (
      const char* network :
      {R"([{"type": "dense", "out": 6, "activation": "sigmoid"}, {"type": "sparsity", "target": 0.1, "weight": 0.5}, {"type": "dense", "out": 8}])",
       kContractive, R"([{"type": "dense", "out": 6}, {"type": "dense", "out": 8, "tied": "dense1", "transposed": true}])",
       R"([{"type": "dense", "out": 6}, "gaussian_sample", {"type": "dense", "out": 8}])",
       R"([{"type": "vae", "latent": 2, "encoder": [{"type": "dense", "out": 6, "activation": "tanh"}],
            "decoder": [{"type": "dense", "out": 8}], "samples": 3}, {"type": "reshape", "shape": [8]}])",
       R"([{"type": "rbm", "hidden": 8, "sparsity": 0.2}])", R"([{"type": "rbm", "hidden": 8, "persistent": 12}])"}) {
    SCOPED_TRACE(network);
    const Job job = job_on(source_of(up_to(96)), network, 96, R"(, "loss": "mse")");
    const Trained reference = train(job, 1, 10, Backend::ref), one = train(job, 1, 10), three = train(job, 3, 10),
                  whole = train(job, 1, 10, Backend::cpu, 96);
    expect_close(one.parameters, whole.parameters, 2e-5);
    expect_close(reference.parameters, one.parameters, 2e-5);
    expect_close(one.parameters, three.parameters, 2e-5);
    EXPECT_NEAR(reference.first, three.first, 1e-5 * std::fabs(reference.first));
  }
}

TEST(LayerLosses, WhatLearnsByItselfLearns) {
  for (const char* network : {R"([{"type": "vae", "latent": 2, "encoder": [{"type": "dense", "out": 12, "activation": "tanh"}],
                                    "decoder": [{"type": "dense", "out": 12, "activation": "tanh"}, {"type": "dense", "out": 8}]}])",
                              R"([{"type": "rbm", "hidden": 12, "visible_units": "linear"}])", R"([{"type": "ocnn", "hidden": 4}])"}) {
    SCOPED_TRACE(network);
    const Trained trained = train(job_on(source_of(up_to(64)), network, 64, R"(, "loss": "none")"), 1, 400);
    EXPECT_LT(trained.last, trained.first - 0.01);
  }
}

TEST(LayerLosses, ALossOfNothingIsRefused) {
  try {
    train(job_on(source_of(up_to(8)), R"([{"type": "dense", "out": 8}])", 8, R"(, "loss": "none")"), 1, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'none' counts only what layers add to the loss, and no layer of this network adds anything"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace perigee
