// Word vectors as a job: steps, checkpoints, and what has no part in them.
#include "src/vectors/jobs/vector_job.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "cluster/launch/cluster_job.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/run/checkpoint.h"
#include "src/run/vectors/stored_vectors.h"
#include "src/vectors/jobs/touched_rows.h"

namespace perigee {
namespace {

// Lines of words of one of two topics, in a file.
std::string corpus(int lines) {
  const std::string path = testing::TempDir() + "perigee_vector_job_" + std::to_string(lines) + ".txt";
  std::string text;
  std::mt19937 random(3);
  for (int line = 0; line < lines; ++line) {
    const char topic = random() % 2 == 0 ? 'a' : 'b';
    for (int word = 0; word < 8; ++word) text += topic + std::to_string(random() % 15) + " ";
    text += "\n";
  }
  write_file(path, as_bytes(text));
  return path;
}

Json given(const std::string& more = "{}") {
  Json options = Json::parse(more, "options");
  options.set("files", corpus(3000));
  for (const auto& [key, value] : {std::pair{"size", 12}, {"threads", 1}, {"sample", 0}, {"min_count", 1}})
    if (!options.find(key)) options.set(key, int64_t{value});
  return options;
}

Job job_of(const Json& options, int64_t workers = 0) {
  const VectorOptions read = vector_options(options, "options");
  return Job(vector_job(options, read, VectorCorpus(read), workers), "job");
}

// The share of words whose nearest word is of their topic.
double sorted(const WordVectors& vectors) {
  double right = 0;
  for (int64_t i = 0; i < vectors.size(); ++i) {
    const std::string name(vectors.names().name(i));
    right += vectors.names().name(vectors.nearest(vectors.vector(name), 1, {name})[0].number)[0] == name[0];
  }
  return right / static_cast<double>(vectors.size());
}

TEST(VectorJob, EveryModelSortsTopicsAndIsStored) {
  const std::string file = testing::TempDir() + "perigee_vector_job.safetensors";
  for (const char* more : {R"({"epochs": 8})", R"({"epochs": 8, "model": "cbow", "lr": 0.1, "threads": 2})",
                           R"({"epochs": 8, "negative": 0, "hierarchical": true})", R"({"epochs": 8, "least_subword": 2, "buckets": 500})",
                           R"({"epochs": 8, "deterministic": true, "threads": 2})"}) {
    Trainer trainer(job_of(given(more)), {.measure = false});
    StepReport report;
    while (!trainer.finished()) report = trainer.step();
    EXPECT_GT(report.loss, 0) << more;
    EXPECT_LT(report.loss, 0.65) << more;
    EXPECT_LT(report.learning_rate, 0.1 * 0.025 + 1e-4 + (report.learning_rate > 0.01 ? 1 : 0)) << more;
    save_model(trainer, file);
    EXPECT_EQ(sorted(stored_vectors(file)->words()), 1.0) << more;
  }
}

TEST(VectorJob, DocumentsAreStored) {
  const std::string file = testing::TempDir() + "perigee_vector_job.safetensors";
  Trainer trainer(job_of(given(R"({"model": "dbow", "words_too": true})")), {.measure = false});
  while (!trainer.finished()) trainer.step();
  save_model(trainer, file);
  const auto stored = stored_vectors(file);
  EXPECT_EQ(stored->documents().size(), 1);
  EXPECT_EQ(stored->infer("a1 a2 a3", 5, 0.025).size(), 12u);
}

TEST(VectorJob, AResumedRunEndsBitEqual) {
  const std::string file = testing::TempDir() + "perigee_vector_checkpoint.safetensors";
  for (const char* more : {R"({"epochs": 2})", R"({"epochs": 2, "deterministic": true, "threads": 3})"}) {
    const Job job = job_of(given(more));
    Trainer whole(job, {.measure = false}), first(job, {.measure = false}), second(job, {.measure = false});
    while (!whole.finished()) whole.step();
    for (int i = 0; i < 5; ++i) first.step();
    save_checkpoint(first, file);
    load_checkpoint(second, file);
    while (!second.finished()) second.step();
    const auto values = [](const Trainer& trainer) {
      const std::span<const float> all = trainer.model().params().values<float>();
      return std::vector<float>(all.begin(), all.end());
    };
    EXPECT_EQ(values(whole), values(second)) << more;
    EXPECT_NE(values(whole), values(first)) << more;
  }
}

std::string job_refusal(const std::string& key, const std::string& value, const Json& options = given()) {
  try {
    Job job = job_of(options);
    if (!key.empty()) job.set(key, value);
    Trainer trainer(job, {.measure = false});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(VectorJob, WhatHasNoPartInItIsRefused) {
  const std::string none = "has no part in word vectors, whose steps have no gradient";
  EXPECT_NE(job_refusal("optimizer", R"({"type": "adam", "lr": 0.1})").find(none), std::string::npos);
  EXPECT_NE(job_refusal("clip", R"({"type": "norm", "threshold": 1})").find(none), std::string::npos);
  EXPECT_NE(job_refusal("accumulate", "2").find(none), std::string::npos);
  EXPECT_NE(job_refusal("precision", "float64").find(none), std::string::npos);
  EXPECT_NE(job_refusal("network.layers.1.size", "31").find("is none of word vectors over this corpus"), std::string::npos)
      << job_refusal("network.layers.1.size", "31");
  EXPECT_NE(job_refusal("network.layers.1.size", "31").find("`perigee vectors job` writes a job that fits its files"), std::string::npos);
  EXPECT_NE(job_refusal("data.train.epochs", "3").find("is the job's affair"), std::string::npos);
  EXPECT_NE(job_refusal("data.train.epochs", "3").find("the job has epochs, seed, threads, and an optimizer with a learning rate"),
            std::string::npos);
  Json plain = given();
  plain.erase("sample");
  EXPECT_NE(job_refusal("data.train.model", "glove", plain).find("is fitted to counts of the whole text by one process"),
            std::string::npos);
  try {
    VectorOptions glove;
    glove.model = VectorModel::glove;
    vector_job(Json::object(), glove, VectorCorpus(vector_options(given(), "options")), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is fitted to counts of the whole text by one process"), std::string::npos);
  }
}

std::string cluster_refusal(const std::string& key, const std::string& value) {
  try {
    Job job = job_of(given(), 2);
    job.set(key, value);
    ClusterJob(job, {.measure = false});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(VectorJob, AClusterAveragesParameters) {
  EXPECT_EQ(cluster_refusal("epochs", "2"), "accepted");
  EXPECT_NE(cluster_refusal("averaging", R"("allreduce")").find("adds up gradients, of which word vectors have none"), std::string::npos);
  EXPECT_NE(cluster_refusal("data.at", "coordinator").find("sends examples, and word vectors are trained on the text itself"),
            std::string::npos);
  Trainer trainer(job_of(given()), {.measure = false});
  try {
    trainer.sum_gradient(trainer.next_batch(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("word vectors have no gradient of a step that workers could add up"), std::string::npos);
  }
}

// Zipf's law: some words are in each line, most come once.
std::string rare_words() {
  const std::string path = testing::TempDir() + "perigee_rare_words.txt";
  std::string text;
  std::mt19937 random(5);
  for (int line = 0; line < 4000; ++line) {
    for (int word = 0; word < 10; ++word)
      text += "w" + std::to_string(static_cast<int>(std::exp(11.0 * static_cast<double>(random()) / 4294967296.0))) + " ";
    text += "\n";
  }
  write_file(path, as_bytes(text));
  return path;
}

// Rows of a tensor that steps have changed.
int64_t changed_rows(const Tensor& before, const Tensor& now) {
  int64_t changed = 0;
  for (int64_t row = 0; row < now.shape()[0]; ++row)
    changed += std::memcmp(before.data<float>() + row * now.shape()[1], now.data<float>() + row * now.shape()[1],
                           static_cast<size_t>(now.shape()[1]) * sizeof(float)) != 0;
  return changed;
}

TEST(VectorJob, ForetellsHowManyRowsARoundTouches) {
  for (const char* more : {"{}", R"({"sample": 0.001})", R"({"negative": 2, "noise_exponent": 0.5})", R"({"model": "cbow"})"}) {
    Json options = given(more);
    options.set("files", rare_words());
    const VectorOptions read = vector_options(options, "options");
    const VectorCorpus corpus(read);
    Trainer trainer(job_of(options), {.measure = false});
    std::vector<Tensor> before;
    const Params& params = std::as_const(trainer).model().params();
    for (int i = 0; i < 2; ++i) before.push_back(params.parameter_tensor(i).clone());
    const int64_t parts = corpus.sequences().parts(), steps = std::max<int64_t>(1, parts / trainer.batch() / 4);
    for (int64_t i = 0; i < steps; ++i) trainer.step();
    double changed = 0, rows = 0;
    for (int i = 0; i < 2; ++i) {
      const Tensor now = std::as_const(trainer).model().params().parameter_tensor(i);
      changed += static_cast<double>(changed_rows(before[static_cast<size_t>(i)], now));
      rows += static_cast<double>(now.shape()[0]);
    }
    const double foretold = touched_share(corpus, read, static_cast<double>(parts) / static_cast<double>(steps * trainer.batch()));
    EXPECT_NEAR(foretold, changed / rows, 0.1 * changed / rows) << more;
    EXPECT_GT(foretold, 0.05) << more;
    EXPECT_LT(foretold, 0.95) << more;
  }
}

TEST(VectorJob, SendsTouchedRowsWhereTheyAreFew) {
  const auto codec = [](const Json& options, int64_t workers) {
    const VectorOptions read = vector_options(options, "options");
    const Json job = vector_job(options, read, VectorCorpus(read), workers);
    const Json* found = job.find("averaging")->find("codec");
    return found ? found->as_string() : "all rows";
  };
  Json rare = given();
  EXPECT_EQ(codec(rare, 2), "all rows");
  rare.set("files", rare_words());
  rare.set("negative", int64_t{1});
  EXPECT_EQ(codec(rare, 2), "nonzero");
  EXPECT_EQ(codec(rare, 0), "all rows");
}

TEST(StoredVectors, WhatIsNoneIsRefused) {
  const auto told = [](const std::string& path) -> std::string {
    try {
      stored_vectors(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string folder = testing::TempDir() + "perigee_no_vectors";
  std::filesystem::create_directories(folder);
  EXPECT_NE(told(folder).find("this folder has neither a model nor a checkpoint"), std::string::npos);
  const std::string file = folder + "/x.safetensors";
  write_safetensors(file, {}, {});
  EXPECT_NE(told(file).find("is no model of word vectors"), std::string::npos);
  EXPECT_NE(told(file).find("what a job of `perigee vectors job` has trained"), std::string::npos);
  Trainer trainer(job_of(given(R"({"epochs": 1})")), {.measure = false});
  save_model(trainer, file);
  const std::string text = corpus(3000);
  write_file(text, as_bytes("only some other words here\n"));
  EXPECT_NE(told(file).find("the text has other words than it had in training"), std::string::npos);
  EXPECT_NE(told(file).find("keep the text as it was: the model has no words of its own"), std::string::npos);
  corpus(3000);
  EXPECT_EQ(told(file), "accepted");
}

}  // namespace
}  // namespace perigee
