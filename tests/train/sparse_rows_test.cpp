// Tables of which a step reads some rows: "exact" has the bits of a dense update, whatever the rule; "lazy" is what PyTorch computes with sparse
// gradients.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "kernels/ref/strided.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/run/checkpoint.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

constexpr int kExamples = 30, kWords = 3;  // of an example

// Words from 0 to 24 of 40, so that some rows are never read; low ones are frequent.
Json data(int batch) {
  std::mt19937 random(5);
  Json x = Json::array(), y = Json::array();
  for (int i = 0; i < kExamples; ++i) {
    Json words = Json::array();
    for (int w = 0; w < kWords; ++w) words.push(Json(static_cast<int64_t>(random() % (1 + random() % 25))));
    x.push(words);
    y.push(Json(static_cast<int64_t>(random() % 3)));
  }
  return Json(Json::Object{{"batch", Json(batch)}, {"train", Json(Json::Object{{"type", "arrays"}, {"x", x}, {"y", y}})}});
}

Job job(const std::string& rows, const std::string& optimizer, const std::string& more = "", int batch = 4) {
  Json json = Json::parse(R"({"loss": "cross_entropy", "seed": 7, "epochs": 1000, "optimizer": )" + optimizer +
                              R"(, "network": [{"type": "embedding", "size": 40, "out": 5, "name": "words", "rows": ")" + rows +
                              R"("}, "flatten", {"type": "dense", "out": 3}])" + more + "}",
                          "job");
  json.set("data", data(batch));
  return Job(json, "job");
}

std::vector<double> losses(Trainer& trainer, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const StepReport report = trainer.step();
    losses.push_back(report.loss);
    if (report.gradient_norm >= 0) losses.push_back(report.gradient_norm);
  }
  return losses;
}

void expect_equal_bits(const std::string& rows, const std::string& optimizer, const std::string& more, int threads, int steps) {
  SCOPED_TRACE(rows + " " + optimizer + more + " " + std::to_string(threads));
  Trainer dense(job("dense", optimizer, more), {.threads = threads}), sparse(job(rows, optimizer, more), {.threads = threads});
  EXPECT_GT(sparse.memory_bytes(), dense.memory_bytes()) << "rows are not passed over";
  EXPECT_EQ(losses(sparse, steps), losses(dense, steps));
  EXPECT_TRUE(bits_of(sparse) == bits_of(dense));
}

std::string example_of(const OptimizerDef& def) { return def.programmed || def.minimizes ? "" : def.example; }

TEST(SparseRows, ExactHasTheBitsOfDenseWithEveryRule) {
  for (const OptimizerDef* def : all_optimizers())
    if (const std::string example = example_of(*def); !example.empty()) expect_equal_bits("exact", example, "", 2, 25);
  expect_equal_bits("exact", R"({"type": "sgd", "lr": 0.1, "momentum": 0.9})", "", 1, 25);
}

TEST(SparseRows, ExactHasTheBitsOfDenseWithWhateverElseAStepDoes) {
  const std::string adam = R"({"type": "adamw", "lr": {"type": "cosine", "from": 0.05}, "weight_decay": 0.1})";
  for (const int threads : {1, 2, 3})
    for (const char* more :
         {"", R"(, "clip": {"type": "norm", "threshold": 0.05})", R"(, "clip": {"type": "parameter_norm", "threshold": 0.01})",
          R"(, "clip": {"type": "value", "threshold": 0.01})", R"(, "regularization": {"l2": 0.01})",
          R"(, "regularization": {"l1": 0.001})", R"(, "ema": {"decay": 0.9})", R"(, "precision": "float64")"})
      expect_equal_bits("exact", adam, more, threads, 20);
}

// More steps than are remembered at once.
TEST(SparseRows, ExactForgetsNoStep) {
  expect_equal_bits("exact", R"({"type": "adam", "lr": 0.01})", "", 2, 600);
  expect_equal_bits("exact", R"({"type": "adamw", "lr": 0.01, "weight_decay": 0.1})", "", 1, 300);
}

TEST(SparseRows, ThoseWhoLookBetweenStepsSeeAllOfThem) {
  const std::string adam = R"({"type": "adamw", "lr": 0.05, "weight_decay": 0.1})";
  Trainer dense(job("dense", adam), {.threads = 1}), exact(job("exact", adam), {.threads = 1});
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(losses(exact, 3), losses(dense, 3));
    EXPECT_TRUE(bits_of(exact) == bits_of(dense)) << i;
    EXPECT_EQ(exact.evaluate("train").dump(), dense.evaluate("train").dump());
  }
  exact.initialize_values(), dense.initialize_values();
  EXPECT_TRUE(bits_of(exact) == bits_of(dense)) << "what was put off belongs to the numbers before";
  EXPECT_EQ(losses(exact, 5), losses(dense, 5));
}

TEST(SparseRows, GradientsThatAreMadeElsewhereMayHaveOtherRows) {
  const std::string adam = R"({"type": "adam", "lr": 0.05})";
  Trainer dense(job("dense", adam), {.threads = 2}), exact(job("exact", adam), {.threads = 2});
  const size_t bytes = dense.shape().params().block_bytes();
  std::vector<std::byte> sum(bytes), other(bytes);
  std::vector<Bits> bits;
  for (Trainer* trainer : {&dense, &exact}) {
    for (int i = 0; i < 12; ++i) {
      trainer->sum_gradient(trainer->next_batch(), {.to = sum.data()});
      trainer->sum_gradient(trainer->next_batch(), {.to = other.data()});
      for (size_t e = 0; e < bytes / sizeof(float); ++e)
        reinterpret_cast<float*>(sum.data())[e] += reinterpret_cast<float*>(other.data())[e];
      trainer->update(sum.data(), 8);
    }
    losses(*trainer, 3);
    bits.push_back(bits_of(*trainer));
  }
  EXPECT_TRUE(bits[0] == bits[1]);
}

TEST(SparseRows, ResumesWithTheSameBits) {
  const TemporaryFolder folder;
  for (const char* rows : {"exact", "lazy"}) {
    const Job of = job(rows, R"({"type": "adam", "lr": 0.05})");
    Trainer whole(of, {.threads = 2}), first(of, {.threads = 2}), second(of, {.threads = 2});
    losses(whole, 40);
    losses(first, 17);
    save_checkpoint(first, folder / "at17.safetensors", {});
    load_checkpoint(second, folder / "at17.safetensors");
    losses(second, 23), losses(first, 23);
    EXPECT_TRUE(bits_of(second) == bits_of(whole)) << rows;
    EXPECT_TRUE(bits_of(first) == bits_of(whole)) << rows << ": saving changes nothing";
  }
}

// With these a gradient of zero changes nothing, so that "lazy" is exact too; the option's help says so.
TEST(SparseRows, LazyIsExactForRulesThatRestWithoutAGradient) {
  std::vector<std::string> exact;
  for (const OptimizerDef* def : all_optimizers()) {
    const std::string example = example_of(*def);
    if (example.empty() || std::strcmp(def->name, "noop") == 0) continue;
    const std::string plain = std::string(R"({"type": ")") + def->name + R"(", "lr": 0.05})";
    const std::string rule = std::strcmp(def->name, "sgd") == 0 ? plain : example;
    Trainer dense(job("dense", rule), {.threads = 1}), lazy(job("lazy", rule), {.threads = 1});
    if (losses(dense, 20) == losses(lazy, 20) && bits_of(dense) == bits_of(lazy)) exact.emplace_back(def->name);
  }
  EXPECT_EQ(exact, (std::vector<std::string>{"adagrad", "sgd"}));
}

std::string oracle_path() {
  const char* folder = std::getenv("PERIGEE_DATA");
  return std::string(folder ? folder : "$PERIGEE_DATA") + "/oracles/sequences/sparse_embedding.npz";
}

bool oracle_is_there() { return std::filesystem::exists(oracle_path()); }

std::map<std::string, Tensor> read_oracle() {
  std::map<std::string, Tensor> arrays;
  for (auto& [key, tensor] : parse_npz(read_file(oracle_path()), oracle_path())) arrays.emplace(key, tensor);
  return arrays;
}

// The oracle's gradient of each step, in float64.
class OracleGradient final : public Hook {
 public:
  bool wants_gradient() const override { return true; }
  void on_gradient(Trainer&, std::span<std::byte> gradient, int64_t& examples) override {
    std::memcpy(gradient.data(), rows.data(), gradient.size());
    examples = 1;
  }
  std::vector<double> rows;
};

constexpr int kIndices[3][3] = {{1, 1, 4}, {4, 7, 9}, {1, 4, 0}};

Job oracle_job(const std::string& optimizer, const std::string& precision) {
  Json json = Json::parse(R"({"loss": {"type": "wasserstein", "reduction": "sum"}, "seed": 7, "epochs": 9, "precision": ")" + precision +
                              R"(", "optimizer": )" + optimizer + R"(, "data": {"batch": 3, "shuffle": false, "train": {"type": "arrays"}},
      "network": [{"type": "embedding", "size": 10, "out": 3, "name": "words", "rows": "lazy"}]})",
                          "job");
  const auto arrays = read_oracle();
  Json x = Json::array(), y = Json::array();
  for (int step = 0; step < 3; ++step)
    for (int i = 0; i < 3; ++i) {
      x.push(Json(Json::Array{Json(static_cast<int64_t>(kIndices[step][i]))}));
      Json row = Json::array();
      const Tensor& g = arrays.at("g" + std::to_string(step));
      for (int c = 0; c < 3; ++c) row.push(Json(3 * g.data<double>()[3 * i + c]));  // the loss is a mean of three examples
      y.push(row);
    }
  json.find("data")->find("train")->set("x", x);
  json.find("data")->find("train")->set("y", y);
  return Job(json, "job");
}

void begin_as_the_oracle(Trainer& trainer) {
  const auto arrays = read_oracle();
  Tensor weight = trainer.model().params().parameter_tensor(0);
  for (int64_t i = 0; i < weight.elements(); ++i) {
    const double value = arrays.at("w0").data<double>()[i];
    if (weight.dtype() == Dtype::f64) weight.data<double>()[i] = value;
    else weight.data<float>()[i] = static_cast<float>(value);
  }
}

void expect_rows(Trainer& trainer, const std::string& key, double tolerance) {
  const Tensor expected = read_oracle().at(key);
  const Tensor got = trainer.model().params().parameter_tensor(0);
  for (int64_t i = 0; i < expected.elements(); ++i)
    EXPECT_NEAR(load_as<double>(got.view(), i), expected.data<double>()[i], tolerance) << key << " " << i;
}

constexpr std::pair<const char*, const char*> kOfOracle[] = {
    {"sgd", R"({"type": "sgd", "lr": 0.1})"},
    {"adagrad", R"({"type": "adagrad", "lr": 0.1, "epsilon": 1e-10, "initial": 0})"},
    {"sparse_adam", R"({"type": "adam", "lr": 0.1})"}};

TEST(SparseRows, LazyIsPyTorchsSparseGradients) {
  if (!oracle_is_there()) GTEST_SKIP() << "no oracles";
  for (const auto& [name, optimizer] : kOfOracle)
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(name);
      Trainer trainer(oracle_job(optimizer, "float32"), {.threads = threads});
      begin_as_the_oracle(trainer);
      for (int step = 0; step < 3; ++step) {
        trainer.step();
        expect_rows(trainer, std::string(name) + "_" + std::to_string(step), 3e-6);
      }
    }
}

TEST(SparseRows, LazyIsPyTorchsInFloat64AlsoWithAGradientThatIsGiven) {
  if (!oracle_is_there()) GTEST_SKIP() << "no oracles";
  const auto arrays = read_oracle();
  for (const auto& [name, optimizer] : kOfOracle) {
    SCOPED_TRACE(name);
    Trainer trainer(oracle_job(optimizer, "float64"), {.threads = 2});
    begin_as_the_oracle(trainer);
    OracleGradient hook;
    trainer.add_hook(&hook);
    for (int step = 0; step < 3; ++step) {
      hook.rows.assign(static_cast<size_t>(trainer.shape().params().block_elements()), 0);
      const Tensor& g = arrays.at("g" + std::to_string(step));
      for (int i = 0; i < 3; ++i)
        for (int c = 0; c < 3; ++c) hook.rows[static_cast<size_t>(kIndices[step][i] * 3 + c)] += g.data<double>()[3 * i + c];
      trainer.step();
      // SparseAdam adds epsilon, 1e-8, before it corrects the root for its start at zero, Adam behind that.
      expect_rows(trainer, std::string(name) + "_" + std::to_string(step), std::strcmp(name, "sparse_adam") == 0 ? 2e-6 : 1e-12);
    }
  }
}

TEST(SparseRows, LazyIsRefusedWhereAllRowsChange) {
  const std::string adam = R"({"type": "adam", "lr": 0.05})";
  EXPECT_HAS(failure_of(job("lazy", adam, R"(, "constraint": {"type": "max_norm", "max": 1})")), "cannot be updated lazily");
  EXPECT_HAS(failure_of(job("often", adam)), "lazy");
  Json tied = job("lazy", adam).json();
  tied.set("network", Json::parse(R"([{"type": "embedding", "size": 40, "out": 5, "name": "words", "rows": "lazy"},
                                      {"type": "dense", "out": 40, "over": "steps", "tied": "words"}, "flatten", {"type": "dense", "out": 3}])",
                                  "network"));
  EXPECT_HAS(failure_of(Job(tied, "job")), "another layer uses the table too");
}

}  // namespace
}  // namespace perigee
