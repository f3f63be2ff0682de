// Lengths, masks and weights: what does not count changes no number, and what counts twice is there twice.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include "src/core/error.h"
#include "src/io/safetensors.h"
#include "src/model/evaluator.h"
#include "src/run/checkpoint.h"
#include "src/train/host/cut_rows.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push(std::trunc(value) == value ? Json(static_cast<int64_t>(value)) : Json(value));
  return list;
}

// Sequences of two features and a class for each step. Beyond the length lies what must not be seen.
struct Sequences {
  std::vector<int64_t> lengths;
  std::vector<std::vector<double>> x0, x1, y;

  static Sequences make(int64_t examples, uint64_t seed) {
    Sequences all;
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (int64_t n = 0; n < examples; ++n) {
      const auto length = static_cast<int64_t>(1 + random() % 20);
      all.lengths.push_back(length);
      std::vector<double> a, b, c;
      for (int64_t t = 0; t < length; ++t) {
        a.push_back(normal(random)), b.push_back(normal(random));
        c.push_back(static_cast<double>((a.back() > 0) + 2 * (b.back() > 0.5)));
      }
      all.x0.push_back(a), all.x1.push_back(b), all.y.push_back(c);
    }
    return all;
  }

  // The source, of some examples; `weights` of each of them, if any.
  Json source(int64_t steps, const std::vector<size_t>& chosen, double padding_label = -1, const std::vector<double>& weights = {}) const {
    Json x = Json::array(), labels = Json::array(), masks = Json::array();
    std::vector<double> n;
    std::mt19937_64 noise(static_cast<uint64_t>(steps));
    for (const size_t i : chosen) {
      std::vector<double> a = x0[i], b = x1[i], c = y[i], m(a.size(), 1);
      n.push_back(static_cast<double>(a.size()));
      while (static_cast<int64_t>(a.size()) < steps) {
        a.push_back(5 + static_cast<double>(noise() % 7) + 0.5), b.push_back(-3.25), c.push_back(padding_label), m.push_back(0);
      }
      Json both = Json::array();
      both.push(numbers(a)), both.push(numbers(b));
      x.push(both), labels.push(numbers(c)), masks.push(numbers(m));
    }
    Json source(Json::Object{{"type", "arrays"}, {"x", x}, {"t", labels}, {"n", numbers(n)}, {"m", masks}});
    if (!weights.empty()) source.set("w", numbers(weights));
    return source;
  }

  std::vector<size_t> everyone() const {
    std::vector<size_t> all(lengths.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
  }
};

constexpr const char* kTagger =
    R"([{"type": "conv1d", "out": 6, "kernel": 3, "padding": "same", "activation": "tanh"}, {"type": "conv1d", "out": 4, "kernel": 1}])";
constexpr const char* kPooled =
    R"([{"type": "conv1d", "out": 6, "kernel": 3, "padding": "causal", "activation": "relu"}, {"type": "maxpool1d", "kernel": 1},
        {"type": "global_pool", "kind": "average"}, {"type": "dense", "out": 4}])";

Job job_on(const Json& source, const std::string& network, const std::string& data, const std::string& more = "") {
  const std::string loss = more.find("\"loss\"") == std::string::npos ? R"(, "loss": "cross_entropy")" : "";
  Json job = Json::parse(R"({"target": "t", "optimizer": {"type": "adamw", "lr": 0.01}, "seed": 3, "epochs": 4, "network": )" + network +
                             R"(, "data": {"batch": 8)" + data + "}" + loss + more + "}",
                         "job");
  job.find("data")->set("train", source);
  return Job(job, "job");
}

std::vector<std::byte> trained_weights(const Job& job, TrainerOptions options, int steps = 12) {
  options.measure = false;
  Trainer trainer(job, options);
  for (int i = 0; i < steps; ++i) trainer.step();
  return bits_of(trainer).parameters;
}

void expect_close(const std::vector<std::byte>& a, const std::vector<std::byte>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  const auto *x = reinterpret_cast<const float*>(a.data()), *y = reinterpret_cast<const float*>(b.data());
  for (size_t i = 0; i < a.size() / sizeof(float); ++i) ASSERT_NEAR(x[i], y[i], tolerance * std::max(1.f, std::fabs(x[i]))) << i;
}

TEST(Weights, PaddingChangesNoBitOfTheReferencesResult) {
  const Sequences all = Sequences::make(24, 1);
  const TrainerOptions reference{.threads = 1, .backend = Backend::ref}, fast{.threads = 1}, two{.threads = 2};
  const auto train = [&](int64_t steps, const TrainerOptions& options, const std::string& data) {
    return trained_weights(job_on(all.source(steps, all.everyone()), kTagger, data), options);
  };
  const std::string lengths = R"(, "lengths": {"x": "n"})";
  EXPECT_EQ(train(20, reference, lengths), train(37, reference, lengths));
  EXPECT_EQ(train(20, reference, lengths), train(20, reference, R"(, "masks": {"x": "m", "t": "m"})")) << "a mask of the same steps";
  expect_close(train(20, fast, lengths), train(37, fast, lengths), 1e-4);
  expect_close(train(20, fast, lengths), train(37, two, lengths), 1e-4);
  expect_close(train(20, fast, lengths), train(20, reference, lengths), 1e-4);
}

// Sub-batches end with their longest example (src/train/host/cut_rows.h).
TEST(Weights, ExamplesThatAreCutTrainAsWholeOnes) {
  const Sequences all = Sequences::make(24, 1);
  const auto train = [&](int64_t steps, const TrainerOptions& options, const std::string& data) {
    return trained_weights(job_on(all.source(steps, all.everyone()), kTagger, data), options);
  };
  const std::string lengths = R"(, "lengths": {"x": "n"})", masks = R"(, "masks": {"x": "m", "t": "m"})";
  const TrainerOptions reference{.threads = 2, .backend = Backend::ref, .sub_batch = 2}, fast{.threads = 1, .sub_batch = 3};
  EXPECT_EQ(train(20, reference, lengths), train(37, reference, lengths));
  EXPECT_EQ(train(20, reference, lengths), train(20, reference, masks));
  expect_close(train(20, fast, lengths), train(20, {.threads = 1, .backend = Backend::ref}, lengths), 1e-4);
  expect_close(train(37, fast, masks), train(20, {.threads = 1, .backend = Backend::ref}, lengths), 1e-4);
}

std::vector<int64_t> plan_steps_of(int64_t steps, const std::string& network, const std::string& data) {
  const Sequences all = Sequences::make(4, 1);
  return plan_steps(Trainer(job_on(all.source(steps, all.everyone()), network, data), {.threads = 1, .measure = false}).model());
}

TEST(Weights, PlansOfFewerStepsAreThoseThatFit) {
  const std::string lengths = R"(, "lengths": {"x": "n"})";
  EXPECT_EQ(plan_steps_of(37, kTagger, lengths), (std::vector<int64_t>{5, 13, 21, 29, 37}));
  EXPECT_EQ(plan_steps_of(128, kTagger, lengths),
            (std::vector<int64_t>{8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128}));
  EXPECT_EQ(plan_steps_of(200, kTagger, lengths), (std::vector<int64_t>{8, 24, 40, 56, 72, 88, 104, 120, 136, 152, 168, 184, 200}));
  EXPECT_TRUE(plan_steps_of(37, kTagger, "").empty()) << "nothing says where an example ends";
  const std::string placed = R"([{"type": "positions"}, {"type": "conv1d", "out": 4, "kernel": 1}])";
  EXPECT_EQ(plan_steps_of(37, placed, lengths), (std::vector<int64_t>{5, 13, 21, 29, 37}))
      << "a cut input takes the first rows of a learned table";
}

TEST(Weights, SubBatchesEndWithTheirLongestExample) {
  const Sequences all = Sequences::make(12, 5);
  const TrainingSetup setup(job_on(all.source(37, all.everyone()), kTagger, R"(, "lengths": {"x": "n"}, "shuffle": false)"),
                            {.threads = 2, .measure = false});
  const auto cut = CutRows::of(setup);
  ASSERT_NE(cut, nullptr);
  Loader loader(setup.source, {.batch = 12, .shuffle = false, .threads = 0});
  const Batch& batch = loader.next();
  std::vector<std::unique_ptr<ThreadSlice>> slices;
  for (int64_t begin : {0, 6}) {
    slices.push_back(std::make_unique<ThreadSlice>(setup.model->params(), 2));
    slices.back()->begin = begin, slices.back()->end = begin + 6, slices.back()->full_size = 4;
  }
  cut->divide(slices);
  cut->arrange(batch);
  std::vector<int64_t> seen, longest;
  for (size_t rank = 0; rank < 2; ++rank)
    for (const auto& [row, n] : {std::pair<int64_t, int64_t>{0, 4}, {4, 2}}) {
      const CutRows::Piece piece = cut->gather(rank, batch, slices[rank]->begin + row, n);
      const int64_t steps = cut->sizes()[piece.size];
      int64_t most = 0;
      for (int64_t i = 0; i < n; ++i) {
        const auto id = static_cast<size_t>(piece.ids[i]);
        seen.push_back(piece.ids[i]);
        most = std::max(most, all.lengths[id]);
        const auto* x = reinterpret_cast<const float*>(piece.fields[0].data()) + i * 2 * steps;
        for (int64_t t = 0; t < all.lengths[id]; ++t) {
          ASSERT_EQ(x[t], static_cast<float>(all.x0[id][static_cast<size_t>(t)]));
          ASSERT_EQ(x[steps + t], static_cast<float>(all.x1[id][static_cast<size_t>(t)]));
        }
      }
      EXPECT_GE(steps, most);
      EXPECT_LT(steps, most + 8) << "no longer than it must be";
      longest.push_back(most);
    }
  EXPECT_LE(longest[0], longest[2]);
  EXPECT_LE(longest[2], longest[3]) << "the second turn goes backwards";
  EXPECT_LE(longest[3], longest[1]);
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(seen[i], static_cast<int64_t>(i)) << "each example once";
  EXPECT_DOUBLE_EQ(cut->share(std::vector<int64_t>{5, 10, 20, 37}, 2), (13 + 37) / 74.0);
  EXPECT_DOUBLE_EQ(cut->share(std::vector<int64_t>{5, 10, 20, 37}, 4), 1);
}

struct Gradient {
  double loss = 0, weight = 0;
  std::vector<double> values;
};

Gradient gradient_of(const Job& job, const std::vector<std::byte>& parameters = {}) {
  Trainer trainer(job, {.threads = 1, .measure = false});
  if (!parameters.empty()) std::memcpy(trainer.model().params().block(), parameters.data(), parameters.size());
  std::vector<std::byte> sum(trainer.model().params().block_bytes());
  const GradientReport report = trainer.sum_gradient(trainer.next_batch(), {.to = sum.data()});
  Gradient gradient{.loss = report.loss_sum, .weight = report.weight};
  const auto* values = reinterpret_cast<const float*>(sum.data());
  gradient.values.assign(values, values + sum.size() / sizeof(float));
  return gradient;
}

void expect_same(const Gradient& a, const Gradient& b, double tolerance) {
  EXPECT_NEAR(a.loss / a.weight, b.loss / b.weight, tolerance);
  EXPECT_DOUBLE_EQ(a.weight, b.weight);
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) EXPECT_NEAR(a.values[i] / a.weight, b.values[i] / b.weight, tolerance) << i;
}

// As many places for labels as there are steps of x, which makes them no labels of these steps.
// A pass forward takes examples by length too (src/model/steps/cut_fields.h), and gives what a plan of all steps gives for each.
TEST(Weights, APassForwardLeavesPaddingOut) {
  const Sequences all = Sequences::make(70, 8);
  Trainer trainer(job_on(all.source(37, all.everyone()), kTagger, R"(, "lengths": {"x": "n"}, "shuffle": false)"), {.threads = 1});
  for (int i = 0; i < 3; ++i) trainer.step();
  Model& model = trainer.model();
  const SourcePtr source(SourcePtr(), &trainer.train_source());  // the trainer's
  Loader loader(source, {.batch = 70, .shuffle = false, .threads = 0});
  const Batch& batch = loader.next();
  std::vector<const std::byte*> fields;
  for (const NetworkInput& field : fields_of(model.spec(), true))
    fields.push_back(static_cast<const std::byte*>(batch.fields[static_cast<size_t>(field_index(*source, field.name))].view().data));
  PlanSet plans(model, PlanSet::Kind::inference_with_loss);
  PlanMemory memory(plans, model.params(), nullptr);
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    Inference inference(model, team, true, 70);
    const Inference::Result& result = inference.run(fields, 70);
    int64_t left_out = 0;
    for (int64_t n = 0; n < 70; ++n) {
      PlanRun& run = memory.at(1);
      run.pack();
      size_t place = 0;
      for (const NetworkInput& field : fields_of(model.spec(), true)) {
        if (const int index = run.plan().input_index(field.name); index >= 0)
          run.set_input(index, fields[place] + static_cast<size_t>(n) * byte_size(field.type));
        ++place;
      }
      run.run(nullptr, StepInfo{});
      EXPECT_NEAR(result.loss[static_cast<size_t>(n)], *run.output("loss").as<float>(), 1e-5) << n;
      const View whole = run.output("output");
      for (int64_t c = 0; c < 4; ++c)
        for (int64_t t = 0; t < 37; ++t) {
          const float got = result.output.data<float>()[(n * 4 + c) * 37 + t];
          if (t < all.lengths[static_cast<size_t>(n)])
            EXPECT_NEAR(got, whole.as<float>()[c * whole.strides[1] + t * whole.strides[2]], 1e-5) << n << " " << c << " " << t;
          else left_out += got == 0;
        }
    }
    EXPECT_GT(left_out, 70 * 4 * 16) << "at least what lies beyond the longest";
  }
}

TEST(Weights, LabelsWithoutPlacesDoNotSeeThePadding) {
  const Sequences all = Sequences::make(24, 1);
  const auto train = [&](int64_t steps, const std::string& data) {
    Json source = all.source(steps, all.everyone()), labels = Json::array();
    for (size_t i = 0; i < all.lengths.size(); ++i) {
      std::vector<double> own(20, -1);
      own[0] = static_cast<double>(1 + i % 3), own[1] = i % 2 == 0 ? 2 : -1;
      labels.push(numbers(own));
    }
    source.set("t", labels);
    return trained_weights(job_on(source, kTagger, data, R"(, "loss": {"type": "ctc", "zero_infinity": true})"),
                           {.threads = 1, .backend = Backend::ref});
  };
  const std::string lengths = R"(, "lengths": {"x": "n"})";
  EXPECT_EQ(train(20, lengths), train(37, lengths));
  EXPECT_NE(train(20, lengths), train(20, ""));
}

TEST(Weights, APaddedBatchIsItsExamplesOneByOne) {
  const Sequences all = Sequences::make(8, 2);
  const std::string lengths = R"(, "lengths": {"x": "n"}, "shuffle": false)";
  const Gradient whole = gradient_of(job_on(all.source(25, all.everyone()), kTagger, lengths));
  Gradient sum;
  for (size_t i = 0; i < 8; ++i) {
    const int64_t steps = all.lengths[i];
    const Gradient one = gradient_of(job_on(all.source(steps, {i}), kTagger, R"(, "shuffle": false)"));
    // Without lengths an example's loss is the mean over its steps.
    sum.values.resize(one.values.size());
    for (size_t k = 0; k < one.values.size(); ++k) sum.values[k] += one.values[k] * static_cast<double>(steps);
    sum.loss += one.loss * static_cast<double>(steps), sum.weight += static_cast<double>(steps);
  }
  expect_same(whole, sum, 1e-6);
}

TEST(Weights, AWeightOfTwoIsTheExampleTwice) {
  const Sequences all = Sequences::make(5, 4);
  const std::string one = R"(, "lengths": {"x": "n"}, "shuffle": false)";
  const Gradient weighted = gradient_of(job_on(all.source(20, {0, 1, 2, 3, 4}, -1, {1, 2, 0, 1, 3}), kTagger,
                                               R"(, "lengths": {"x": "n"}, "weights": "w", "shuffle": false)"));
  const Gradient repeated = gradient_of(job_on(all.source(20, {0, 1, 1, 3, 4, 4, 4}), kTagger, one));
  expect_same(weighted, repeated, 1e-6);
  const Gradient of_target = gradient_of(job_on(all.source(20, {0, 1, 2, 3, 4}, -1, {1, 2, 0, 1, 3}), kTagger,
                                                R"(, "lengths": {"x": "n"}, "weights": {"t": "w"}, "shuffle": false)"));
  EXPECT_EQ(weighted.values, of_target.values);
}

// F.cross_entropy of PyTorch 2.12 with ignore_index = -100, in float64; `gradient` is that of the weight of a 1x1 convolution in front.
TEST(Weights, IgnoredClassesAreThoseOfPyTorch) {
  const std::string x =
      R"([[[-0.151605409, 1.106190273, 1.5092827, -0.559836408], [-0.789354993, 1.923940517, -2.253604677, 1.394664037],
      [-0.540823367, -0.298859182, -0.286597077, -0.414631428], [-0.555895244, 0.311205489, -0.099584807, 0.353355465],
      [-0.3905265, -1.480873979, 0.882609219, -0.041465177]], [[0.915421811, -0.793882507, -1.746006277, 0.554499062],
      [-0.186928762, -0.549741013, -1.660605901, 1.146619028], [-0.475513362, -0.754010779, 0.085246721, 2.467339226],
      [1.981864257, -0.238756701, 0.646079112, -1.07438623], [-1.103859872, 0.567195948, 0.965689768, 0.663117564]]])";
  const std::string source =
      R"({"type": "arrays", "t": [[1, 4, -100, -100], [0, 2, 3, -100]], "w": [[2, 3, 7, 7], [1, 0.5, 1, 7]], "x": )" + x + "}";
  struct Case {
    const char *loss, *data;
    double value;
    std::vector<double> first_row;
  };
  const Case cases[] = {{R"({"type": "cross_entropy", "ignore": -100})",
                         "",
                         2.1489760509457754,
                         {-0.124827492, 0.059522559, 0.013828591, -0.327071693, 0.096571728}},
                        {R"({"type": "cross_entropy", "ignore": -100, "label_smoothing": 0.1})",
                         "",
                         2.1325789141906406,
                         {-0.103839528, 0.060834745, 0.012254164, -0.296012395, 0.080264029}},
                        {R"({"type": "cross_entropy", "ignore": -100})",
                         R"(, "weights": "w")",
                         2.609246524147222,
                         {-0.009773169, 0.142092715, -0.02460586, -0.215963052, -0.051868151}}};
  for (const Case& each : cases) {
    SCOPED_TRACE(std::string(each.loss) + each.data);
    Job job = job_on(Json::parse(source, "source"), R"([{"type": "conv1d", "out": 5, "kernel": 1, "bias": false}])", each.data,
                     std::string(R"(, "precision": "float64", "loss": )") + each.loss);
    Trainer trainer(job, {.threads = 1, .measure = false});
    auto* weight = reinterpret_cast<double*>(trainer.model().params().block());
    for (int i = 0; i < 25; ++i) weight[i] = i % 6 == 0;
    EXPECT_NEAR(trainer.evaluate("train").find("loss")->as_number(), each.value, 1e-8);
    std::vector<std::byte> sum(trainer.model().params().block_bytes());
    const GradientReport report = trainer.sum_gradient(trainer.next_batch(), {.to = sum.data()});
    EXPECT_NEAR(report.loss_sum / report.weight, each.value, 1e-8);
    for (size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(reinterpret_cast<const double*>(sum.data())[i] / report.weight, each.first_row[i], 1e-7) << i;
  }
}

TEST(Weights, PooledSequencesDoNotSeeTheirPadding) {
  const Sequences all = Sequences::make(24, 6);
  const auto train = [&](int64_t steps) {
    Json source = all.source(steps, all.everyone());
    std::vector<double> labels;
    for (const auto& y : all.y) labels.push_back(y[0]);
    source.set("t", numbers(labels));
    return trained_weights(job_on(source, kPooled, R"(, "lengths": {"x": "n"})"), {.threads = 1, .backend = Backend::ref});
  };
  EXPECT_EQ(train(20), train(37));
}

TEST(Weights, EvaluationCountsOnlyWhatCounts) {
  const Sequences all = Sequences::make(9, 7);
  const auto report = [&](const Json& source, const std::string& data) {
    Trainer trainer(job_on(source, kTagger, data, R"(, "metrics": ["classification", "calibration"])"), {.threads = 2, .measure = false});
    return trainer.evaluate("train");
  };
  const std::string lengths = R"(, "lengths": {"x": "n"})";
  const Json a = report(all.source(20, all.everyone()), lengths), b = report(all.source(37, all.everyone()), lengths);
  int64_t steps = 0;
  for (const int64_t n : all.lengths) steps += n;
  int64_t counted = 0;
  for (const Json& row : a.find("classes")->as_array()) counted += row.find("examples")->as_int();
  EXPECT_EQ(counted, steps);
  EXPECT_EQ(a.find("confusion")->dump(), b.find("confusion")->dump());
  EXPECT_NEAR(a.find("loss")->as_number(), b.find("loss")->as_number(), 1e-6);
  EXPECT_NEAR(a.find("calibration")->find("brier")->as_number(), b.find("calibration")->find("brier")->as_number(), 1e-6);
  const std::string both = R"(, "lengths": {"x": "n"}, "weights": "w")";
  const Json weighted = report(all.source(20, {0, 1, 2}, -1, {1, 2, 0}), both), repeated = report(all.source(20, {0, 1, 1}), lengths);
  EXPECT_EQ(weighted.find("confusion")->dump(), repeated.find("confusion")->dump());
  EXPECT_NEAR(weighted.find("loss")->as_number(), repeated.find("loss")->as_number(), 1e-6);
}

TEST(Weights, AColumnOfATableIsOne) {
  const auto table = [](const std::string& name, const std::string& rows) {
    const std::string path = testing::TempDir() + name;
    std::ofstream(path) << "a,w,b,t\n" << rows;
    return path;
  };
  const auto on = [&](const std::string& path, const std::string& more) {
    const Json source = Json::parse(R"({"type": "csv", "file": ")" + path + R"(", "target": "t")" + more + "}", "source");
    Json job = Json::parse(
        R"({"loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.1}, "seed": 3, "network": [{"type": "dense", "out": 2}],
      "data": {"batch": 8, "shuffle": false}})",
        "job");
    job.find("data")->set("train", source);
    return Job(job, "job");
  };
  const std::string weighted = table("weighted.csv", "1,2,0.5,0\n-1,0,2,1\n3,1,-1,1\n");
  const std::string repeated = table("repeated.csv", "1,9,0.5,0\n1,9,0.5,0\n3,9,-1,1\n");
  const Gradient a = gradient_of(on(weighted, R"(, "weight": "w")")), b = gradient_of(on(repeated, R"(, "drop": ["w"])"));
  EXPECT_EQ(a.weight, 3);
  expect_same(a, b, 1e-6);
  Trainer trainer(on(weighted, R"(, "weight": 1)"), {.threads = 1, .measure = false});
  EXPECT_EQ(trainer.train_source().fields()[0].shape, Shape{2}) << "the weight is no feature";
  const Json report = trainer.evaluate("train");
  EXPECT_EQ(report.find("classes")->as_array()[0].find("examples")->as_int(), 2);
}

TEST(Weights, WhatDoesNotFitIsRefused) {
  const Sequences all = Sequences::make(4, 9);
  const auto on = [&](const Json& source, const std::string& data, const std::string& network = kTagger) {
    return refusal([&] {
      Trainer trainer(job_on(source, network, data + R"(, "shuffle": false)"), {.threads = 1, .measure = false});
      trainer.step();
    });
  };
  const Json good = all.source(20, all.everyone(), -1, {1, 1, 1, 1});
  EXPECT_EQ(on(good, R"(, "lengths": {"x": "n"}, "weights": "w")"), "accepted");
  const auto with = [&](const char* field, const Json& values) {
    Json source = good;
    source.set(field, values);
    return source;
  };
  const std::string lengths = R"(, "lengths": {"x": "n"})";
  EXPECT_NE(on(with("n", numbers({3, 21, 4, 5})), lengths).find("field 'n' of example 1 is no length of 'x'; got 21, expected 0 to 20"),
            std::string::npos);
  EXPECT_NE(on(with("n", numbers({0, 0, 0, 0})), lengths).find("nothing in the batch counts"), std::string::npos);
  EXPECT_NE(on(with("w", numbers({1, -1, 1, 1})), R"(, "lengths": {"x": "n"}, "weights": "w")")
                .find("field 'w' of example 1 is no weight of 't'; got -1"),
            std::string::npos);
  EXPECT_NE(on(good, R"(, "masks": {"x": "n"})").find("field 'n' cannot be a mask of 'x'"), std::string::npos);
  EXPECT_NE(on(good, R"(, "lengths": {"x": "m"})").find("field 'm' cannot be a length of 'x'"), std::string::npos);
  EXPECT_NE(on(good, R"(, "lengths": {"z": "n"})").find("'z' is neither an input nor a target"), std::string::npos);
  EXPECT_NE(on(good, R"(, "weights": {"x": "w"})").find("'x' is no target of the job"), std::string::npos);
  EXPECT_NE(on(good, R"(, "weights": "v")").find("no field 'v'"), std::string::npos);
  Json broken = all.source(20, all.everyone());
  broken.find("m")->as_array()[2].as_array()[0] = Json(3);
  EXPECT_NE(on(broken, R"(, "masks": {"t": "m"})").find("field 'm' of example 2, element 0 is no mask of 't'; got 3, expected 0 or 1"),
            std::string::npos);
  Json wrong = good;
  wrong.find("t")->as_array()[0].as_array()[0] = Json(4);
  EXPECT_NE(on(wrong, lengths).find("field 't' of example 0, element 0 is no class of the network's output; got 4, expected 0 to 3"),
            std::string::npos);
  for (const char* layer : {R"("batchnorm")", R"("flatten")", R"({"type": "dense", "out": 4})", R"("layernorm")"})
    EXPECT_NE(on(good, lengths, std::string("[") + layer + "]").find("mixes the steps of a sequence, of which some are padding"),
              std::string::npos)
        << layer;
}

TEST(Weights, AModelFileKeepsThemAndRefusesThoseThatDoNotFit) {
  const TemporaryFolder folder;
  const Sequences all = Sequences::make(9, 7);
  const Json source = all.source(20, all.everyone(), -1, {1, 2, 0, 1, 1, 3, 1, 1, 0.5});
  Trainer trainer(job_on(source, kTagger, R"(, "lengths": {"x": "n"}, "weights": "w")"), {.threads = 1, .measure = false});
  trainer.step();
  save_model(trainer, folder / "model.safetensors");
  LoadedModel loaded = load_model(folder / "model.safetensors");
  ThreadTeam team(1);
  const Json described = Json(Json::Object{{"data", source}});
  const SourcePtr opened = open_source(Config(described, "test").object("data"), "");
  EXPECT_EQ(Evaluator(*loaded.model, team, opened, nullptr, "test").run().find("loss")->dump(),
            trainer.evaluate("train").find("loss")->dump());

  const Safetensors file = read_safetensors(folder / "model.safetensors");
  const auto changed = [&](const char* key, const std::string& from, const std::string& to) {
    Metadata metadata = file.metadata;
    std::string& text = metadata.at(key);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    text.replace(at, from.size(), to);
    return refusal([&] { load_model(safetensors_bytes(file.tensors, metadata), "file"); });
  };
  const std::string length = R"({"name":"n","dtype":"f32","shape":[],"role":"length","of":)", of_x = length + R"("x"})";
  EXPECT_NE(changed("inputs", of_x, length + R"("z"})").find("file: inputs: 'n' is of no input; got 'z'"), std::string::npos);
  EXPECT_NE(changed("inputs", R"("shape":[],"role")", R"("shape":[3],"role")").find("file: inputs: field 'n' cannot be a length of 'x'"),
            std::string::npos);
  EXPECT_NE(changed("inputs", R"("role":"length")", R"("role":"weight")").find("file: inputs: 'n' is of no input"), std::string::npos);
  EXPECT_NE(changed("target_roles", R"("of":"t")", R"("of":"z")").find("file: target_roles: 'w' is of no target; got 'z'"),
            std::string::npos);
  EXPECT_NE(changed("target_roles", R"("role":"weight")", R"("role":"mask")").find("field 'w' cannot be a mask of 't'"), std::string::npos);
}

}  // namespace
}  // namespace perigee
