// Policies of each step against loops in float64 that know nothing of codecs: softmax regression on a table, whose gradient is written
// down here, trained by three workers for some rounds. And what becomes of payloads, memories and optimisers when rounds come to nothing.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <random>

#include "src/run/checkpoint.h"
#include "tests/cluster/replica/replica_harness.h"

namespace perigee {
namespace {

using Vector = std::vector<double>;
using Gradients = std::vector<Vector>;  // of each worker, in the order in which the parameters lie

constexpr int64_t kFeatures = 64, kClasses = 40, kExamples = 240, kBatch = 8;
constexpr size_t kWorkers = 3;

// A table, as a file and as numbers.
class Table {
 public:
  Table() : folder_(std::filesystem::temp_directory_path() / ("perigee-steps-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::ofstream file(folder_ / "table.csv");
    for (int64_t i = 0; i < kExamples; ++i) {
      classes.push_back(i % kClasses);
      for (int64_t f = 0; f < kFeatures; ++f) {
        const float x = normal(random) + (f % kClasses == i % kClasses ? 2.0f : 0.0f);
        inputs.push_back(static_cast<double>(x));
        char text[32];
        std::snprintf(text, sizeof text, "%.9g,", static_cast<double>(x));
        file << text;
      }
      file << classes.back() << "\n";
    }
  }
  ~Table() { std::filesystem::remove_all(folder_); }
  std::string folder() const { return folder_.string(); }

  std::vector<double> inputs;
  std::vector<int64_t> classes;

 private:
  std::filesystem::path folder_;
};

const Table& table() {
  static const Table table;
  return table;
}

// Where weight and bias lie, in what is sent.
struct Places {
  size_t weight = 0, bias = 0;
  bool inputs_first = true;  // the weight is [inputs, classes]
};

Vector gradient_of(const Vector& w, const Places& at, int64_t first) {
  Vector gradient(w.size());
  const auto weight = [&](int64_t f, int64_t c) {
    return at.weight + static_cast<size_t>(at.inputs_first ? f * kClasses + c : c * kFeatures + f);
  };
  for (int64_t i = first; i < first + kBatch; ++i) {
    const double* x = &table().inputs[static_cast<size_t>(i * kFeatures)];
    Vector p(kClasses);
    double sum = 0;
    for (int64_t c = 0; c < kClasses; ++c) {
      double z = w[at.bias + static_cast<size_t>(c)];
      for (int64_t f = 0; f < kFeatures; ++f) z += x[f] * w[weight(f, c)];
      sum += p[static_cast<size_t>(c)] = std::exp(z);
    }
    for (int64_t c = 0; c < kClasses; ++c) {
      const double error = p[static_cast<size_t>(c)] / sum - (table().classes[static_cast<size_t>(i)] == c);
      gradient[at.bias + static_cast<size_t>(c)] += error / kBatch;
      for (int64_t f = 0; f < kFeatures; ++f) gradient[weight(f, c)] += error * x[f] / kBatch;
    }
  }
  return gradient;
}

Welcome welcome_to_policy(const std::string& averaging, const std::string& optimizer, size_t worker) {
  Welcome welcome;
  welcome.id = static_cast<WorkerId>(worker + 1);
  welcome.job = R"({"loss": "cross_entropy", "seed": 3, "epochs": 100, "device": "ref", "network": [{"type": "dense", "out": 40}],
      "optimizer": )" +
                optimizer + R"(, "averaging": )" + averaging +
                R"(, "data": {"train": {"type": "csv", "file": "table.csv", "target": -1}, "batch": 8, "shuffle": false}})";
  welcome.folder = table().folder();
  welcome.threads = 1;
  return welcome;
}

Replicas workers_of(const std::string& averaging, const std::string& optimizer) {
  Replicas nodes;
  for (size_t i = 0; i < kWorkers; ++i) {
    nodes.push_back(std::make_unique<TestReplica>(welcome_to_policy(averaging, optimizer, i)));
    EXPECT_FALSE(nodes.back()->failed) << nodes.back()->failure;
  }
  return nodes;
}

Vector ordered_parameters(TestReplica& node, Places* places = nullptr) {
  const LoadedModel loaded = load_model(*node.snapshot(false), "snapshot");
  const Params& params = loaded.model->params();
  const std::span<const float> block = loaded.model->params().values<float>();
  Vector all;
  for (const ParamWindow& window : params.windows()) {
    if (places) (window.shape.rank() == 2 ? places->weight : places->bias) = all.size();
    if (places && window.shape.rank() == 2) places->inputs_first = window.shape[0] == kFeatures;
    for (int64_t i = 0; i < window.elements; ++i) all.push_back(static_cast<double>(block[static_cast<size_t>(window.offset + i)]));
  }
  return all;
}

int64_t first_of(int64_t round, size_t worker) {
  return (round * static_cast<int64_t>(kWorkers) + static_cast<int64_t>(worker)) * kBatch % kExamples;
}

TrainOrder order_of(int64_t round, size_t worker) {
  const auto all = static_cast<int64_t>(kWorkers) * kBatch;
  TrainOrder order{.round = round,
                   .gradient = true,
                   .first_leaf = static_cast<int32_t>(worker),
                   .leaves = kWorkers,
                   .examples_before = round * all,
                   .examples_per_step = all};
  order.ranges = {{static_cast<uint64_t>(round * all / kExamples), first_of(round, worker), kBatch}};
  return order;
}

// The sums of one pass in all rows, and the next pass made of them.
void make_parts(Replicas& nodes, int64_t round, int64_t examples) {
  const ExchangeLayout layout = nodes[0]->replica->layout();
  const std::vector<Bucket>& buckets = nodes[0]->replica->buckets();
  for (int pass = 0; pass + 1 < layout.passes; ++pass) {
    const Bucket& bucket = buckets[static_cast<size_t>(pass)];
    const size_t begin = bucket.begin / sizeof(float), end = bucket.end / sizeof(float);
    std::vector<float> sum(end - begin);
    for (auto& node : nodes)
      for (size_t i = begin; i < end; ++i) sum[i - begin] += node->row()[i];
    for (auto& node : nodes) {
      std::copy(sum.begin(), sum.end(), node->row() + begin);
      node->make_part({.round = round, .examples = examples, .pass = pass + 1});
    }
  }
}

ApplyOrder exchanged(Replicas& nodes, int64_t round) {
  const ExchangeLayout layout = nodes[0]->replica->layout();
  make_parts(nodes, round, static_cast<int64_t>(nodes.size()) * kBatch);
  const size_t summed =
      layout.passes > 1 ? nodes[0]->replica->buckets().back().begin : layout.coded;  // before it nothing is to be added up
  ApplyOrder order{.round = round, .examples = static_cast<int64_t>(nodes.size()) * kBatch};
  order.examples_after = (round + 1) * order.examples;
  std::vector<std::byte> sum;
  for (auto& node : nodes) {
    const std::span<std::byte> row = node->replica->exchange_row(0);
    if (sum.empty()) sum.assign(row.begin(), row.end());
    else add_row(layout, sum.data(), row.data());
    EXPECT_EQ(node->contribution.payload != nullptr, layout.coded > 0);
    if (node->contribution.payload) order.payloads.push_back({node->contribution.payload, kBatch});
  }
  for (auto& node : nodes) {
    const std::span<std::byte> row = node->replica->exchange_row(0);
    std::copy(sum.begin() + static_cast<ptrdiff_t>(summed), sum.end(), row.begin() + static_cast<ptrdiff_t>(summed));
  }
  return order;
}

void stage(Replicas& nodes, int64_t round) {
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->start(order_of(round, i));
  for (auto& node : nodes) ASSERT_TRUE(node->finish().finite);
}

void play(Replicas& nodes, int64_t round) {
  stage(nodes, round);
  const ApplyOrder order = exchanged(nodes, round);
  for (auto& node : nodes) node->apply(order);
  for (auto& node : nodes) ASSERT_EQ(node->hash, nodes[0]->hash) << "round " << round;
}

// An algorithm's new parameters, from all workers' gradients.
using Algorithm = std::function<void(const Gradients&, Vector&)>;

void expect_trajectory(const std::string& averaging, const std::string& optimizer, int64_t rounds, const Algorithm& algorithm) {
  SCOPED_TRACE(averaging);
  Replicas nodes = workers_of(averaging, optimizer);
  Places places;
  Vector w = ordered_parameters(*nodes[0], &places);
  const Vector start = w;
  for (int64_t round = 0; round < rounds; ++round) {
    Gradients gradients;
    for (size_t i = 0; i < kWorkers; ++i) gradients.push_back(gradient_of(w, places, first_of(round, i)));
    algorithm(gradients, w);
    play(nodes, round);
    if (testing::Test::HasFatalFailure()) return;
    const Vector got = ordered_parameters(*nodes[0]);
    double worst = 0, moved = 0;
    for (size_t i = 0; i < w.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - w[i])), moved = std::max(moved, std::abs(w[i] - start[i]));
    ASSERT_GT(moved, 0);
    ASSERT_LE(worst, 2e-4 * moved) << "round " << round;
  }
}

Vector mean_of(const Gradients& all) {
  Vector mean(all[0].size());
  for (const Vector& one : all)
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / static_cast<double>(all.size());
  return mean;
}

void step(Vector& w, double rate, const Vector& direction) {
  for (size_t i = 0; i < w.size(); ++i) w[i] -= rate * direction[i];
}

// The places of the k largest magnitudes.
std::vector<size_t> largest(const Vector& v, size_t k) {
  std::vector<size_t> order(v.size());
  for (size_t i = 0; i < v.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
  order.resize(k);
  return order;
}

constexpr const char* kSgd = R"({"type": "sgd", "lr": 0.3})";
constexpr const char* kMomentum = R"({"type": "sgd", "lr": 0.1, "momentum": 0.9})";
constexpr int64_t kParameters = kFeatures * kClasses + kClasses;

// ---- trajectories ----

TEST(Steps, TopKWithFeedbackIsItsReference) {
  std::vector<Vector> residual(kWorkers, Vector(kParameters));
  Vector velocity(kParameters);
  const auto k = static_cast<size_t>(std::ceil(0.05 * kParameters));
  expect_trajectory(R"({"type": "allreduce", "codec": {"type": "topk", "share": 0.05}})", kMomentum, 12,
                    [&](const Gradients& gradients, Vector& w) {
                      Gradients sent(kWorkers, Vector(kParameters));
                      for (size_t n = 0; n < kWorkers; ++n) {
                        for (size_t i = 0; i < kParameters; ++i) residual[n][i] += gradients[n][i];
                        for (const size_t i : largest(residual[n], k)) std::swap(sent[n][i], residual[n][i]);
                      }
                      const Vector mean = mean_of(sent);
                      for (size_t i = 0; i < kParameters; ++i) velocity[i] = 0.9 * velocity[i] + mean[i];
                      step(w, 0.1, velocity);
                    });
}

// Bernstein et al. 2018; with momentum it is Signum. Three workers: no vote is a tie.
TEST(Steps, SignSgdIsTheVoteOfTheMajority) {
  for (const double momentum : {0.0, 0.9}) {
    std::vector<Vector> velocity(kWorkers, Vector(kParameters));
    expect_trajectory(R"({"type": "signsgd", "momentum": )" + std::to_string(momentum) + "}", R"({"type": "sgd", "lr": 0.01})", 10,
                      [&](const Gradients& gradients, Vector& w) {
                        Vector votes(kParameters);
                        for (size_t n = 0; n < kWorkers; ++n)
                          for (size_t i = 0; i < kParameters; ++i) {
                            velocity[n][i] = momentum * velocity[n][i] + gradients[n][i];
                            votes[i] += velocity[n][i] > 0 ? 1 : -1;
                          }
                        for (size_t i = 0; i < kParameters; ++i) w[i] -= 0.01 * (votes[i] > 0 ? 1 : -1);
                      });
  }
}

// Karimireddy et al. 2019, a scale for each 1024 elements.
TEST(Steps, SignWithFeedbackIsItsReference) {
  std::vector<Vector> residual(kWorkers, Vector(kParameters));
  expect_trajectory(R"({"type": "signsgd", "scale": "mean", "feedback": true, "vote": false})", kSgd, 8,
                    [&](const Gradients& gradients, Vector& w) {
                      Gradients sent(kWorkers, Vector(kParameters));
                      for (size_t n = 0; n < kWorkers; ++n)
                        for (size_t begin = 0; begin < kParameters; begin += 1024) {
                          const size_t end = std::min<size_t>(begin + 1024, kParameters);
                          double scale = 0;
                          for (size_t i = begin; i < end; ++i)
                            scale += std::abs(residual[n][i] += gradients[n][i]) / static_cast<double>(end - begin);
                          for (size_t i = begin; i < end; ++i) residual[n][i] -= sent[n][i] = residual[n][i] < 0 ? -scale : scale;
                        }
                      step(w, 0.3, mean_of(sent));
                    });
}

// Strom 2015 after the optimiser, as Deeplearning4j has it: each worker's own momentum, updates added up.
TEST(Steps, ThresholdSharesWhatOptimisersMade) {
  for (const bool sum : {true, false}) {
    std::vector<Vector> residual(kWorkers, Vector(kParameters)), velocity = residual;
    const double tau = 4e-3;
    expect_trajectory(
        std::string(R"({"type": "threshold", "tau": 4e-3, "adaptive": false, "clip": 0, "merge": ")") + (sum ? "sum" : "mean") + "\"}",
        kMomentum, 10, [&](const Gradients& gradients, Vector& w) {
          Vector all(kParameters);
          for (size_t n = 0; n < kWorkers; ++n)
            for (size_t i = 0; i < kParameters; ++i) {
              velocity[n][i] = 0.9 * velocity[n][i] + gradients[n][i];
              residual[n][i] += 0.1 * velocity[n][i];
              const double sent = residual[n][i] >= tau ? tau : residual[n][i] <= -tau ? -tau : 0;
              residual[n][i] -= sent, all[i] += sent;
            }
          step(w, sum ? 1 : 1.0 / kWorkers, all);
        });
  }
}

// Deeplearning4j's algorithm: tau follows the share that was sent; what is left is cut every 5 rounds.
TEST(Steps, AdaptiveThresholdIsItsReference) {
  std::vector<Vector> residual(kWorkers, Vector(kParameters));
  std::vector<double> tau(kWorkers, 1e-3), share(kWorkers, -1);
  const double rate = std::pow(0.5, 1.0 / 20);
  int64_t round = 0;
  expect_trajectory(R"({"type": "threshold", "tau": 1e-3, "adaptive": true, "clip": 5})", kSgd, 14,
                    [&](const Gradients& gradients, Vector& w) {
                      Vector all(kParameters);
                      for (size_t n = 0; n < kWorkers; ++n) {
                        if (round > 0 && share[n] < 1e-4) tau[n] *= rate;
                        if (round > 0 && share[n] > 1e-2) tau[n] /= rate;
                        size_t count = 0;
                        for (size_t i = 0; i < kParameters; ++i) {
                          residual[n][i] += 0.3 * gradients[n][i];
                          const double sent = std::abs(residual[n][i]) < tau[n] ? 0 : std::copysign(tau[n], residual[n][i]);
                          residual[n][i] -= sent, all[i] += sent, count += sent != 0;
                          if (round > 0 && round % 5 == 0) residual[n][i] = std::clamp(residual[n][i], -5 * tau[n], 5 * tau[n]);
                        }
                        share[n] = static_cast<double>(count) / kParameters;
                      }
                      ++round;
                      step(w, 1, all);
                    });
}

// Lin et al. 2018: u = m u + g, v = v + u, both zero where they were sent; the norm of g at most clip / sqrt(K); the share by a schedule.
TEST(Steps, DgcIsItsReference) {
  std::vector<Vector> u(kWorkers, Vector(kParameters)), v = u;
  int64_t round = 0;
  expect_trajectory(R"({"type": "dgc", "clip_norm": 1.5, "momentum": 0.8,
                        "share": {"type": "map", "by": "step", "values": {"0": 0.25, "4": 0.0625, "8": 0.01}}})",
                    kSgd, 14, [&](const Gradients& gradients, Vector& w) {
                      const double share = round < 4 ? 0.25 : round < 8 ? 0.0625 : 0.01;
                      ++round;
                      Gradients sent(kWorkers, Vector(kParameters));
                      for (size_t n = 0; n < kWorkers; ++n) {
                        double norm = 0;
                        for (const double g : gradients[n]) norm += g * g;
                        const double scale = std::min(1.0, 1.5 / std::sqrt(static_cast<double>(kWorkers)) / std::sqrt(norm));
                        for (size_t i = 0; i < kParameters; ++i) {
                          u[n][i] = 0.8 * u[n][i] + scale * gradients[n][i];
                          v[n][i] += u[n][i];
                        }
                        for (const size_t i : largest(v[n], static_cast<size_t>(std::ceil(share * kParameters)))) {
                          std::swap(sent[n][i], v[n][i]);
                          u[n][i] = 0;
                        }
                      }
                      step(w, 0.3, mean_of(sent));
                    });
}

// Peng et al. 2024, chunks of 64 in a row.
TEST(Steps, DemoIsItsReference) {
  std::vector<Vector> momentum(kWorkers, Vector(kParameters));
  const auto basis = [](size_t i, size_t j) {
    return std::sqrt((j == 0 ? 1.0 : 2.0) / 64) *
           std::cos(std::numbers::pi * (2 * static_cast<double>(i) + 1) * static_cast<double>(j) / 128);
  };
  // Where what all made together cancels, its sign is that of a rounding error: no more than a few places may differ.
  expect_trajectory(R"({"type": "custom", "what": "gradient", "codec": {"type": "dct", "count": 6, "decay": 0.999}})", kSgd, 10,
                    [&](const Gradients& gradients, Vector& w) {
                      Vector mean(kParameters);
                      for (size_t n = 0; n < kWorkers; ++n)
                        for (size_t begin = 0; begin < kParameters; begin += 64) {
                          const size_t count = std::min<size_t>(64, kParameters - begin);
                          Vector coefficients(64);
                          for (size_t i = 0; i < count; ++i) {
                            double& m = momentum[n][begin + i];
                            m = 0.999 * m + gradients[n][begin + i];
                            for (size_t j = 0; j < 64; ++j) coefficients[j] += m * basis(i, j);
                          }
                          for (const size_t j : largest(coefficients, 6))
                            for (size_t i = 0; i < count; ++i) {
                              const double made = coefficients[j] * basis(i, j);
                              momentum[n][begin + i] -= made;
                              mean[begin + i] += made / kWorkers;
                            }
                        }
                      step(w, 0.3, mean);
                    });
}

// A traced step over the mean gradient with a state of its own: here clipping by value, then momentum.
TEST(Steps, AnOuterStepMakesWhatTheOptimiserIsGiven) {
  Vector velocity(kParameters);
  for (const char* codec : {"", R"("codec": {"type": "topk", "share": 1, "feedback": false}, )"}) {
    std::fill(velocity.begin(), velocity.end(), 0);
    expect_trajectory(std::string(R"({"type": "custom", "what": "gradient", )") + codec + R"("state": {"velocity": 0}, "most": 0.02,
                        "outer": {"program": [{"op": "minimum", "in": ["gradient", "most"], "out": "t1"},
                                              {"op": "mul", "in": [0.5, "velocity"], "out": "t2"},
                                              {"op": "add", "in": ["t1", "t2"], "out": "t3"}],
                                  "outputs": {"gradient": "t3", "velocity": "t3"}}})",
                      kSgd, 8, [&](const Gradients& gradients, Vector& w) {
                        const Vector mean = mean_of(gradients);
                        for (size_t i = 0; i < kParameters; ++i) velocity[i] = 0.5 * velocity[i] + std::min(mean[i], 0.02);
                        step(w, 0.3, velocity);
                      });
  }
}

// Vogels et al. 2019, the bias dense: it is no matrix. Q begins with the codec's own draws.
TEST(Steps, PowerSgdIsItsReference) {
  constexpr size_t kRank = 2;
  Replicas probe = workers_of(R"("allreduce")", kSgd);
  Places places;
  ordered_parameters(*probe[0], &places);
  const size_t rows = places.inputs_first ? kFeatures : kClasses, columns = places.inputs_first ? kClasses : kFeatures;
  std::vector<Vector> residual(kWorkers, Vector(kParameters));
  Vector velocity(kParameters);
  std::vector<Vector> q(kRank, Vector(columns));
  const PhiloxKey key = philox_key(3, 0x6c6f7772616e6b ^ mix_bits(places.weight));
  for (size_t k = 0; k < kRank; ++k)
    for (size_t j = 0; j < columns; ++j)
      q[k][j] = 2 * static_cast<double>(
                        uniform_from_bits(philox4x32({{static_cast<uint32_t>(j), static_cast<uint32_t>(k), 0, 0}}, key).lane[0])) -
                1 + 0x1p-24;
  const auto normalise = [](Vector& v) {
    double length = 0;
    for (const double x : v) length += x * x;
    for (double& x : v) x /= std::sqrt(length);
  };
  expect_trajectory(R"({"type": "powersgd", "rank": 2})", kMomentum, 10, [&](const Gradients& gradients, Vector& w) {
    Vector given = mean_of(gradients);
    const auto m = [&](size_t n, size_t i, size_t j) -> double& { return residual[n][places.weight + i * columns + j]; };
    for (size_t n = 0; n < kWorkers; ++n)
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j) m(n, i, j) += gradients[n][places.weight + i * columns + j];
    std::vector<Vector> p(kRank, Vector(rows)), next(kRank, Vector(columns));
    for (size_t k = 0; k < kRank; ++k) {
      normalise(q[k]);
      for (size_t n = 0; n < kWorkers; ++n)
        for (size_t i = 0; i < rows; ++i)
          for (size_t j = 0; j < columns; ++j) p[k][i] += m(n, i, j) * q[k][j] / kWorkers;
      for (size_t l = 0; l < k; ++l) {
        double dot = 0;
        for (size_t i = 0; i < rows; ++i) dot += p[k][i] * p[l][i];
        for (size_t i = 0; i < rows; ++i) p[k][i] -= dot * p[l][i];
      }
      normalise(p[k]);
    }
    for (size_t n = 0; n < kWorkers; ++n) {
      std::vector<Vector> own(kRank, Vector(columns));
      for (size_t k = 0; k < kRank; ++k)
        for (size_t j = 0; j < columns; ++j) {
          for (size_t i = 0; i < rows; ++i) own[k][j] += m(n, i, j) * p[k][i];
          next[k][j] += own[k][j] / kWorkers;
        }
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j)
          for (size_t k = 0; k < kRank; ++k) m(n, i, j) -= p[k][i] * own[k][j];
    }
    q = next;
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        double& g = given[places.weight + i * columns + j] = 0;
        for (size_t k = 0; k < kRank; ++k) g += p[k][i] * q[k][j];
      }
    for (size_t i = 0; i < kParameters; ++i) velocity[i] = 0.9 * velocity[i] + given[i];
    step(w, 0.1, velocity);
  });
  const ExchangeLayout layout = workers_of(R"("powersgd")", kSgd)[0]->replica->layout();
  EXPECT_EQ(layout.passes, 2);
  EXPECT_LT(layout.bytes() * 8, probe[0]->replica->layout().bytes() * 2) << "two factors and a bias are a quarter of the matrix";
}

// Elements that all draw alike are added up: of fp32 values the mean is exact where they were drawn, and the rest stays with its worker.
TEST(Steps, RandomElementsAreAddedUp) {
  Replicas nodes = workers_of(R"({"type": "allreduce", "codec": {"type": "randomk", "share": 0.25}})", kSgd);
  EXPECT_EQ(nodes[0]->replica->layout().coded, 0u);
  EXPECT_LT(nodes[0]->replica->layout().sums, kParameters / 3);
  Places places;
  Vector w = ordered_parameters(*nodes[0], &places);
  std::vector<Vector> residual(kWorkers, Vector(kParameters));
  for (int64_t round = 0; round < 6; ++round) {
    for (size_t n = 0; n < kWorkers; ++n) {
      const Vector gradient = gradient_of(w, places, first_of(round, n));
      for (size_t i = 0; i < kParameters; ++i) residual[n][i] += gradient[i];
    }
    play(nodes, round);
    const Vector now = ordered_parameters(*nodes[0]), mean = mean_of(residual);
    size_t moved = 0;
    for (size_t i = 0; i < kParameters; ++i) {
      if (now[i] == w[i]) continue;
      ++moved;
      EXPECT_NEAR(now[i], w[i] - 0.3 * mean[i], 1e-5) << i;
      for (Vector& r : residual) r[i] = 0;
    }
    EXPECT_NEAR(static_cast<double>(moved), 0.25 * kParameters, 3);
    w = now;
  }
}

// ---- what becomes of it ----

// A round that comes to nothing leaves no trace: not in the codec's memory, and not in the optimiser.
TEST(Steps, AVoidRoundLeavesNoTrace) {
  for (const char* averaging : {R"({"type": "threshold", "tau": 4e-3})", R"({"type": "dgc", "share": 0.02})", R"("demo")",
                                R"({"type": "signsgd", "momentum": 0.9})", R"("powersgd")"}) {
    SCOPED_TRACE(averaging);
    Replicas nodes = workers_of(averaging, kMomentum), undisturbed = workers_of(averaging, kMomentum);
    for (int64_t round = 0; round < 4; ++round) {
      if (round % 2) {
        stage(nodes, round);
        for (auto& node : nodes) node->replica->drop();
      }
      play(nodes, round), play(undisturbed, round);
      EXPECT_EQ(nodes[0]->hash, undisturbed[0]->hash) << "round " << round;
    }
  }
}

// Who takes another's result takes its own last payload for counted; the replicas stay equal whatever it had.
TEST(Steps, WhoHealsGoesOnWithTheOthers) {
  for (const char* averaging : {R"({"type": "threshold", "tau": 4e-3})", R"({"type": "dgc", "share": 0.02})"}) {
    Replicas nodes = workers_of(averaging, kMomentum);
    play(nodes, 0);
    stage(nodes, 1);
    const ApplyOrder order = exchanged(nodes, 1);
    for (size_t i = 0; i + 1 < kWorkers; ++i) nodes[i]->apply(order);
    nodes.back()->replica->drop();
    EXPECT_EQ(nodes.back()->load(1, nodes[0]->snapshot()), nodes[0]->hash);
    for (int64_t round = 2; round < 5; ++round) play(nodes, round);
  }
}

TEST(Steps, APayloadThatIsNoneChangesNothing) {
  for (const char* averaging :
       {R"({"type": "threshold", "tau": 4e-3})", R"("signsgd")", R"({"type": "dgc", "share": 0.02})", R"("demo")"}) {
    SCOPED_TRACE(averaging);
    Replicas nodes = workers_of(averaging, kMomentum);
    play(nodes, 0);
    const uint64_t hash = nodes[0]->hash;
    stage(nodes, 1);
    const ApplyOrder right = exchanged(nodes, 1);
    ApplyOrder wrong = right;
    std::vector<std::byte> bytes = *right.payloads[2].bytes;
    bytes.pop_back();
    wrong.payloads[2].bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    nodes[0]->apply(wrong);
    EXPECT_EQ(nodes[0]->refused, 2);
    nodes[0]->snapshot();
    EXPECT_EQ(nodes[0]->image_hash, hash);
    for (auto& node : nodes) node->apply(right);
    EXPECT_EQ(nodes[0]->hash, nodes[1]->hash);
    EXPECT_NE(nodes[0]->hash, hash);
  }
}

// U5: a threshold message is min(4 n, P / 4) bytes and its header, and turns exactly above P / 16. P is what trains, without gaps.
TEST(Steps, AThresholdMessageIsAsLongAsReferencesSay) {
  constexpr size_t kHeader = 16, kCount = 8;
  for (const double tau : {2e-2, 5e-3, 1e-3, 2e-4, 1e-5}) {
    char text[160];
    std::snprintf(text, sizeof text, R"({"type": "threshold", "tau": %g, "adaptive": false, "indices": "int32"})", tau);
    Replicas nodes = workers_of(text, kSgd);
    Places places;
    const Vector gradient = gradient_of(ordered_parameters(*nodes[0], &places), places, first_of(0, 0));
    size_t n = 0;
    for (const double g : gradient) n += 0.3 * std::abs(g) >= tau;
    stage(nodes, 0);
    const size_t bitmap = (kParameters + 3) / 4;
    EXPECT_EQ(nodes[0]->contribution.payload->size(), 4 * n > bitmap ? kHeader + bitmap : kHeader + kCount + 4 * n) << tau << " " << n;
  }
}

}  // namespace
}  // namespace perigee
