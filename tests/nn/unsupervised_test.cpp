// Learning without labels: penalties and likelihoods against PyTorch (unsupervised_reference.py), contrastive divergence against sums over
// all states, corruption against counting.
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "src/nn/loss.h"
#include "src/nn/network.h"
#include "tests/nn/gradients.h"
#include "tests/nn/unsupervised_reference.h"

namespace perigee {
namespace {

// values() of unsupervised_reference.py.
Tensor filled(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  std::vector<double> numbers(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = low + (high - low) * static_cast<double>(((i + 1) * 2654435761u + seed * 40503u) % 65536) / 65536;
  return Tensor::from(shape, numbers);
}

template <size_t N>
void expect_near(const Tensor& got, const double (&wanted)[N], double tolerance = 1e-12) {
  ASSERT_LE(N, static_cast<size_t>(got.elements()));
  for (size_t i = 0; i < N; ++i) EXPECT_NEAR(got.data<double>()[i], wanted[i], tolerance) << i;
}

struct Built {
  Graph graph;
  BuiltNetwork network;
  std::map<std::string, Tensor> leaves;
  Tensor output, losses;                    // [N, ...], and the sum [N] of the layers' terms
  std::map<std::string, Tensor> gradients;  // of the sum over the examples, by parameters' names and "x"
};

// Layers, as training or evaluation computes them, of x; parameters not in `leaves` are 0.
void run_unsupervised(Built& built, const std::string& layers, const Tensor& x, bool training, std::vector<std::string> freeze = {}) {
  std::vector<int64_t> dims = x.shape().vector();
  dims.erase(dims.begin());
  built.network = Network(Json::parse(layers, "test"), "net")
                      .build(built.graph, {{"x", {Dtype::f64, Shape(dims)}}},
                             {.batch = x.shape()[0], .training = training, .dtype = Dtype::f64, .freeze = freeze});
  Value sum;
  for (const Value& term : built.network.losses) sum = sum ? sum + term : term;
  std::vector<std::string> names = {"x"};
  std::vector<Value> targets = {built.network.inputs[0]}, flows;
  built.leaves["x"] = x;
  for (const ParameterSpec& spec : built.network.parameters) {
    names.push_back(spec.name);
    targets.push_back(built.graph.parameter(spec.name, {Dtype::f64, spec.shape}));
    if (!built.leaves.contains(spec.name)) built.leaves[spec.name] = filled(spec.shape, 0, 0, 0);
  }
  for (const StateSpec& spec : built.network.states)
    if (!built.leaves.contains(spec.name)) built.leaves[spec.name] = filled(spec.shape, 0, 0, 0);
  if (sum) flows = gradients(built.graph, sum, ones_like(sum), targets);
  Interpreter interpreter(built.graph);
  interpreter.step.training = training;
  interpreter.run(built.leaves);
  built.output = interpreter[built.network.outputs[0]].clone();
  if (sum) built.losses = interpreter[sum].clone();
  for (size_t i = 0; i < flows.size(); ++i)
    if (flows[i]) built.gradients[names[i]] = interpreter[flows[i]].clone();
}

void divide(std::map<std::string, Tensor>& gradients, double by) {
  for (auto& [name, gradient] : gradients)
    for (int64_t i = 0; i < gradient.elements(); ++i) gradient.data<double>()[i] /= by;
}

double mean_of(const Tensor& values) {
  double sum = 0;
  for (int64_t i = 0; i < values.elements(); ++i) sum += values.data<double>()[i];
  return sum / static_cast<double>(values.elements());
}

// --- corruption ---

TEST(Corruption, MaskingSetsTheShareToZeroAndLeavesTheRest) {
  Built noisy, plain;
  const Tensor x = filled({100, 200}, 1, 1, 2);
  run_unsupervised(noisy, R"([{"type": "masking_noise", "rate": 0.3}])", x, true);
  run_unsupervised(plain, R"([{"type": "masking_noise", "rate": 0.3}])", x, false);
  int64_t zeros = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const double y = noisy.output.data<double>()[i];
    if (y == 0) ++zeros;
    else ASSERT_EQ(y, x.data<double>()[i]) << "what is kept does not grow";
    ASSERT_EQ(plain.output.data<double>()[i], x.data<double>()[i]);
  }
  EXPECT_NEAR(static_cast<double>(zeros) / 20000, 0.3, 0.013);  // four standard deviations
}

TEST(Corruption, SaltAndPepperReplaceHalfOfTheShareEach) {
  Built noisy;
  run_unsupervised(noisy, R"([{"type": "salt_and_pepper", "rate": 0.4, "low": -5, "high": 7}])", filled({100, 200}, 1, 1, 2), true);
  int64_t salt = 0, pepper = 0;
  for (int64_t i = 0; i < 20000; ++i) {
    salt += noisy.output.data<double>()[i] == 7;
    pepper += noisy.output.data<double>()[i] == -5;
  }
  EXPECT_NEAR(static_cast<double>(salt) / 20000, 0.2, 0.012);
  EXPECT_NEAR(static_cast<double>(pepper) / 20000, 0.2, 0.012);
}

// --- penalties ---

TEST(Penalty, SparsityIsTheDivergenceOfTheBatchsMeans) {
  Built built, evaluated;
  run_unsupervised(built, R"([{"type": "sparsity", "target": 0.1}])", filled({4, 3}, 1, 0.05, 0.95), true);
  EXPECT_NEAR(mean_of(built.losses), kSparsityMean[0], 1e-12);
  divide(built.gradients, 4);  // of the sum; PyTorch's is of the divergence
  expect_near(built.gradients.at("x"), kSparsityGradient);
  run_unsupervised(evaluated, R"([{"type": "sparsity", "target": 0.1}])", filled({4, 3}, 1, 0.05, 0.95), false);
  EXPECT_TRUE(evaluated.network.losses.empty());
}

template <size_t N, size_t M>
void check_contraction(const char* activation, const double (&norms)[N], const double (&weight)[M]) {
  Built built;
  built.leaves = {{"dense1.weight", filled({2, 4}, 3)}, {"dense1.bias", filled({2}, 4)}};
  run_unsupervised(built, std::string(R"([{"type": "dense", "out": 2, "contractive": 1, "activation": ")") + activation + "\"}]",
                   filled({3, 4}, 2), true);
  expect_near(built.losses, norms);
  expect_near(built.gradients.at("dense1.weight"), weight);
}

TEST(Penalty, ContractionIsTheNormOfTheJacobian) {
  check_contraction("sigmoid", kContractiveSigmoid, kContractiveSigmoidWeight);
  check_contraction("tanh", kContractiveTanh, kContractiveTanhWeight);
}

std::string unsupervised_error(const std::string& layers, const Shape& example) {
  try {
    Graph graph;
    Network(Json::parse(layers, "test"), "net").build(graph, {{"x", {Dtype::f32, example}}}, {.batch = 2});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Penalty, ErrorsSayWhatToDo) {
  EXPECT_NE(unsupervised_error(R"([{"type": "dense", "out": 2, "contractive": 1, "activation": "softmax"}])", {3})
                .find("needs an activation that takes each number by itself"),
            std::string::npos);
  EXPECT_NE(unsupervised_error(R"([{"type": "dense", "out": 2, "contractive": 1, "over": "steps"}])", {3, 4}).find("is for whole examples"),
            std::string::npos);
  EXPECT_NE(unsupervised_error(R"([{"type": "dense", "out": 2, "transposed": true}])", {3}).find("is about the weight of another layer"),
            std::string::npos);
  EXPECT_NE(
      unsupervised_error(R"([{"type": "dense", "out": 2}, {"type": "dense", "out": 3, "tied": "dense1"}])", {3}).find("transposed = true"),
      std::string::npos);
  EXPECT_NE(
      unsupervised_error(
          R"([{"type": "time_distributed", "layer": {"type": "sequential", "layers": [{"type": "dense", "out": 2, "contractive": 1}]}}])",
          {3, 4})
          .find("adds a number to the loss of each example, and here each step is an example of its own"),
      std::string::npos);
  EXPECT_NE(unsupervised_error(R"(["gaussian_sample"])", {3}).find("needs as many means as logarithms of variances"), std::string::npos);
  EXPECT_NE(unsupervised_error(R"([{"type": "rbm", "hidden": 2, "hidden_units": "gaussian", "sparsity": 0.1}])", {3})
                .find("is the share of time in which a unit is on"),
            std::string::npos);
}

TEST(TiedWeights, TransposedUsesTheEncodersWeight) {
  Built built;
  built.leaves = {{"dense1.weight", filled({2, 3}, 1)}};
  const Tensor x = filled({4, 3}, 2);
  run_unsupervised(
      built,
      R"([{"type": "dense", "out": 2, "bias": false}, {"type": "dense", "out": 3, "bias": false, "tied": "dense1", "transposed": true}])",
      x, true);
  EXPECT_EQ(built.network.parameters.size(), 1u);
  const double *w = built.leaves["dense1.weight"].data<double>(), *in = x.data<double>();
  for (int64_t n = 0; n < 4; ++n)
    for (int64_t k = 0; k < 3; ++k) {
      double wanted = 0;
      for (int64_t j = 0; j < 2; ++j)
        for (int64_t i = 0; i < 3; ++i) wanted += w[3 * j + k] * w[3 * j + i] * in[3 * n + i];
      EXPECT_NEAR(built.output.data<double>()[3 * n + k], wanted, 1e-12);
    }
}

// --- variational autoencoders ---

TEST(Variational, TheTermIsTheDivergenceFromTheStandardNormal) {
  Built built;
  const Tensor x = filled({3, 6}, 5, -1.5, 1.5);
  run_unsupervised(built, R"(["gaussian_sample"])", x, false);
  expect_near(built.losses, kDivergence);
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(built.output.data<double>()[3 * n + i], x.data<double>()[6 * n + i]) << "inference: the mean";
}

TEST(Variational, DrawsHaveTheMeanAndTheVariance) {
  Built built;
  std::vector<double> rows;
  for (int i = 0; i < 20000; ++i) rows.insert(rows.end(), {0.7, std::log(0.25)});
  run_unsupervised(built, R"(["gaussian_sample"])", Tensor::from(Shape{20000, 2}, rows), true);
  const double mean = mean_of(built.output);
  double variance = 0;
  for (int64_t i = 0; i < 20000; ++i) variance += std::pow(built.output.data<double>()[i] - mean, 2) / 20000;
  EXPECT_NEAR(mean, 0.7, 0.015);
  EXPECT_NEAR(variance, 0.25, 0.01);
}

Tensor loss_of(const std::string& loss, const Tensor& output, const Tensor& target) {
  Graph graph;
  const Value x = graph.input("x", {output.dtype(), output.shape()}), y = graph.input("y", {target.dtype(), target.shape()});
  const Value values = build_loss(graph, Json::parse(loss, "test"), "loss", x, y);
  Interpreter interpreter(graph);
  interpreter.run({{"x", output}, {"y", target}});
  return interpreter[values].clone();
}

TEST(Variational, AllDrawsHaveOneDecoder) {
  const auto parameters_of = [](const std::string& samples) {
    Built built;
    run_unsupervised(
        built,
        R"([{"type": "vae", "latent": 2, "encoder": ["flatten"], "decoder": [{"type": "dense", "out": 3}, {"type": "dense", "out": 4}],
                    "samples": )" +
            samples + "}]",
        filled({5, 4}, 1, 0, 1), true);
    std::vector<std::string> names;
    for (const ParameterSpec& spec : built.network.parameters) names.push_back(spec.name);
    return names;
  };
  const std::vector<std::string> wanted = {"vae1.code.weight",           "vae1.code.bias",
                                           "vae1.decoder.dense1.weight", "vae1.decoder.dense1.bias",
                                           "vae1.decoder.dense2.weight", "vae1.decoder.dense2.bias"};
  EXPECT_EQ(parameters_of("1"), wanted);
  EXPECT_EQ(parameters_of("3"), wanted);
}

TEST(Variational, LikelihoodsAreThoseOfPyTorchsDistributions) {
  const Tensor x = filled({3, 6}, 5, -1.5, 1.5);
  expect_near(loss_of("\"gaussian_likelihood\"", x, filled({3, 3}, 6, -2, 2)), kGaussian);
  expect_near(loss_of("\"exponential_likelihood\"", x, filled({3, 6}, 7, 0.1, 3)), kExponential);
  Tensor target = filled({3, 4}, 8, -2, 2);
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t i = 2; i < 4; ++i) target.data<double>()[4 * n + i] = target.data<double>()[4 * n + i] > 0;
  expect_near(loss_of(R"({"type": "composite", "parts": [{"size": 2, "loss": "gaussian_likelihood"},
                          {"size": 2, "loss": "reconstruction_cross_entropy", "weight": 2}]})",
                      x, target),
              kComposite);
}

std::string loss_error(const std::string& loss, const Shape& output, const Shape& target) {
  try {
    loss_of(loss, filled(output, 1), filled(target, 2));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Variational, LossesThatDoNotFitSayWhy) {
  EXPECT_NE(loss_error("\"gaussian_likelihood\"", {2, 3}, {2, 3}).find("not a mean and a logarithm of a variance"), std::string::npos);
  const std::string one = R"({"type": "composite", "parts": [{"size": 2, "loss": "mse"}]})";
  EXPECT_NE(loss_error(one, {2, 3}, {2, 3}).find("leave numbers without a loss"), std::string::npos);
  EXPECT_NE(loss_error(one, {2, 1}, {2, 1}).find("ends behind the last number"), std::string::npos);
  EXPECT_NE(loss_error(R"({"type": "composite", "parts": []})", {2, 1}, {2, 1}).find("must name at least one part"), std::string::npos);
  EXPECT_NE(loss_error(R"({"type": "yolo2", "boxes": []})", {2, 7, 2, 2}, {2, 6, 2, 2}).find("must name 1 to 64 boxes"), std::string::npos);
  EXPECT_NE(loss_error(R"({"type": "yolo2", "boxes": [[0, 1]]})", {2, 7, 2, 2}, {2, 6, 2, 2}).find("pairs of a width and a height"),
            std::string::npos);
  EXPECT_NE(loss_error(R"({"type": "yolo2", "boxes": [[1, 1]]})", {2, 7, 2, 2}, {2, 5, 2, 2}).find("are no grids of boxes"),
            std::string::npos);
}

// --- Boltzmann machines ---

// 40,000 times the same example: the mean of what single draws of hidden states give is the sum over all of them.
template <size_t N>
void check_machine(const char* units, const double (&weight)[N], const double (&visible)[4], const double (&hidden)[3]) {
  constexpr int64_t kRows = 40000;
  Built built;
  built.leaves = {{"rbm1.weight", filled({3, 4}, 15)}, {"rbm1.visible_bias", filled({4}, 16)}, {"rbm1.bias", filled({3}, 17)}};
  const Tensor one = filled({1, 4}, 14, 0, 1);
  std::vector<double> rows;
  for (int64_t n = 0; n < kRows; ++n)
    for (int64_t i = 0; i < 4; ++i) rows.push_back(std::nearbyint(one.data<double>()[i]));
  run_unsupervised(built, std::string(R"([{"type": "rbm", "hidden": 3, "visible_units": ")") + units + "\"}]",
                   Tensor::from(Shape{kRows, 4}, rows), true);
  divide(built.gradients, kRows);
  expect_near(built.gradients.at("rbm1.weight"), weight, 0.02);
  expect_near(built.gradients.at("rbm1.visible_bias"), visible, 0.02);
  expect_near(built.gradients.at("rbm1.bias"), hidden, 0.02);
}

TEST(Boltzmann, TheSlopeIsThatOfContrastiveDivergence) {
  check_machine("binary", kMachineBinaryWeight, kMachineBinaryVisible, kMachineBinaryHidden);
  check_machine("linear", kMachineGaussianWeight, kMachineGaussianVisible, kMachineGaussianHidden);
}

// Chains that go on, many and long, draw from the machine itself: their products are those of a sum over all states.
TEST(Boltzmann, PersistentChainsDrawFromTheMachine) {
  Built built;
  built.leaves = {{"rbm1.weight", filled({3, 4}, 15)}, {"rbm1.visible_bias", filled({4}, 16)}, {"rbm1.bias", filled({3}, 17)}};
  Tensor x = filled({1, 4}, 14, 0, 1);
  for (int64_t i = 0; i < 4; ++i) x.data<double>()[i] = std::nearbyint(x.data<double>()[i]);
  run_unsupervised(built, R"([{"type": "rbm", "hidden": 3, "persistent": 20000, "steps": 15}])", x, true);
  ASSERT_EQ(built.graph.assignments().size(), 1u);
  double wanted[12];
  for (size_t i = 0; i < 12; ++i) wanted[i] = kModelProducts[i] - kDataProducts[i];
  expect_near(built.gradients.at("rbm1.weight"), wanted, 0.02);
}

TEST(Boltzmann, EveryKindOfUnitLearnsAndAFrozenMachineDoesNot) {
  for (const char* visible : {"binary", "gaussian", "linear", "softmax"})
    for (const char* hidden : {"binary", "gaussian", "rectified", "softmax"})
      for (const char* more : {"", R"(, "persistent": 7)", R"(, "steps": 2, "reconstruction": "sample")"}) {
        SCOPED_TRACE(std::string(visible) + ", " + hidden + more);
        const std::string layers = std::string(R"([{"type": "rbm", "hidden": 3, "visible_units": ")") + visible +
                                   R"(", "hidden_units": ")" + hidden + "\"" + more + "}]";
        Built built, frozen;
        built.leaves["rbm1.weight"] = filled({3, 4}, 15);
        run_unsupervised(built, layers, filled({5, 4}, 14, 0, 1), true);
        for (const char* name : {"rbm1.weight", "rbm1.bias", "rbm1.visible_bias"})
          for (int64_t i = 0; i < built.gradients.at(name).elements(); ++i)
            EXPECT_TRUE(std::isfinite(built.gradients.at(name).data<double>()[i])) << name;
        EXPECT_TRUE(std::isfinite(mean_of(built.losses)));
        run_unsupervised(frozen, layers, filled({5, 4}, 14, 0, 1), true, {"rbm1.*"});
        EXPECT_TRUE(frozen.network.losses.empty());
      }
}

// --- capsules, one class ---

TEST(Capsule, RoutingIsThatOfPyTorch) {
  Built built;
  built.leaves = {{"capsule1.weight", filled({5, 3, 24}, 10)}};
  run_unsupervised(built, R"([{"type": "capsule", "capsules": 4, "size": 6}])", filled({2, 5, 3}, 9), true);
  expect_near(built.output, kCapsules);
  Built strength;
  run_unsupervised(strength, R"(["capsule_strength"])", built.output, true);
  expect_near(loss_of("\"margin\"", strength.output, Tensor::from<int64_t>({2}, {2, 0})), kMargin);
}

TEST(OneClass, LossAndSlopesAreThoseOfPyTorch) {
  Built built;
  built.leaves = {{"ocnn1.weight", filled({2, 3}, 12)}, {"ocnn1.score", filled({1, 2}, 13)}, {"ocnn1.radius", filled({1}, 0, 0.5, 0.5)}};
  run_unsupervised(built, R"([{"type": "ocnn", "hidden": 2, "nu": 0.3, "activation": "sigmoid"}])", filled({4, 3}, 11), true);
  EXPECT_NEAR(mean_of(built.losses), kOneClass[0], 1e-12);
  divide(built.gradients, 4);
  expect_near(built.gradients.at("ocnn1.weight"), kOneClassWeight);
  expect_near(built.gradients.at("ocnn1.score"), kOneClassScore);
  expect_near(built.gradients.at("ocnn1.radius"), kOneClassRadius);
}

TEST(Center, HalfTheSquaredDistanceFromTheRightCentre) {
  Built built;
  built.leaves = {{"centers1.weight", Tensor::from(Shape{2, 2}, std::vector<double>{1, 0, -1, 2})}};
  run_unsupervised(built, R"([{"type": "centers", "classes": 2}])", Tensor::from(Shape{1, 2}, std::vector<double>{3, 1}), true);
  EXPECT_NEAR(built.output.data<double>()[0], 5, 1e-12);
  EXPECT_NEAR(loss_of("\"center\"", built.output, Tensor::from<int64_t>({1}, {1})).data<double>()[0], (16 + 1) / 2.0, 1e-12);
}

struct Refusal {
  const char* what;
  Shape shape;
  const char* said;
};

TEST(Errors, OfLayersSayWhatIsExpected) {
  const Refusal refusals[] = {
      {R"([{"type": "capsule", "capsules": 2}])", {3}, "needs capsules (count x size); got 3"},
      {R"(["capsule_strength"])", {3}, "needs capsules (count x size); got 3"},
      {R"(["gaussian_sample"])", {3}, "put dense { 2 * dimensions of the code } in front"},
      {R"([{"type": "vae", "latent": 2, "decoder": ["flatten"]}])", {3}, "'encoder' is missing; expected a list of layers"},
      {R"([{"type": "vae", "latent": 2, "encoder": ["flatten"], "decoder": [{"type": "unstack", "parts": 2}]}])",
       {3},
       "must have one result"},
      {R"(["loss_value"])", {3}, "has the wrong number of inputs"}};
  for (const Refusal& refusal : refusals)
    EXPECT_NE(unsupervised_error(refusal.what, refusal.shape).find(refusal.said), std::string::npos)
        << unsupervised_error(refusal.what, refusal.shape);
  try {
    Graph graph;
    Network(Json::parse(R"({"type": "graph", "inputs": ["a", "b"], "nodes": [{"name": "n", "layer": "loss_value", "inputs": ["a", "b"]}],
                            "outputs": ["n"]})",
                        "test"),
            "net")
        .build(graph, {{"a", {Dtype::f32, {3}}}, {"b", {Dtype::f32, {3}}}}, {.batch = 2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a loss, such as \"mse\""), std::string::npos) << error.what();
  }
}

TEST(Errors, OfLossesSayWhatIsExpected) {
  const Refusal refusals[] = {
      {"\"gaussian_likelihood\"", {2, 3}, "the outputs are not a mean and a logarithm of a variance for each number of the target"},
      {R"({"type": "composite", "parts": []})", {2, 3}, "{ { size = 3, loss = \"mse\" }, ... }"},
      {R"({"type": "composite", "parts": [{"size": 3}]})", {2, 3}, "a loss, such as \"mse\""},
      {R"({"type": "composite", "parts": [{"size": 3}]})", {2, 3}, "parts[1]"},
      {R"({"type": "yolo2", "boxes": []})", {2, 7, 2, 2}, "{ { 1.5, 2 }, { 3, 3 } }"},
      {R"({"type": "yolo2", "boxes": [[0, 1]]})", {2, 7, 2, 2}, "are pairs of a width and a height above 0"},
      {R"({"type": "yolo2", "boxes": [[1, 1]]})", {2, 7, 2, 2}, "*(5 + classes) x H x W, targets N x (4 + classes) x H x W"}};
  for (const Refusal& refusal : refusals)
    EXPECT_NE(loss_error(refusal.what, refusal.shape, refusal.shape).find(refusal.said), std::string::npos)
        << loss_error(refusal.what, refusal.shape, refusal.shape);
}

// One cell with one box of 1 x 1 in its middle, of one class, with a confidence of 1/2. An object of half its sides: IoU 1/4.
TEST(Yolo, TheLossIsThatOfTheFormula) {
  const Tensor output = filled({1, 6, 1, 1}, 0, 0, 0);
  const std::string loss = R"({"type": "yolo2", "boxes": [[1, 1]]})";
  const Tensor object = Tensor::from(Shape{1, 5, 1, 1}, std::vector<double>{0.25, 0.25, 0.75, 0.75, 1});
  EXPECT_NEAR(loss_of(loss, output, object).data<double>()[0], 5 * 2 * std::pow(1 - std::sqrt(0.5), 2) + std::pow(0.5 - 0.25, 2), 1e-7);
  EXPECT_NEAR(loss_of(loss, output, filled({1, 5, 1, 1}, 0, 0, 0)).data<double>()[0], 0.5 * 0.25, 1e-12) << "nothing is there";
}

}  // namespace
}  // namespace perigee
