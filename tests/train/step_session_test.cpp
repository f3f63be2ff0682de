// Sessions: a sequence that a network reads in pieces gives what it gives at once.
#include <gtest/gtest.h>

#include <random>

#include "src/model/inference.h"
#include "src/model/steps/step_model.h"
#include "tests/core/refusal.h"

namespace perigee {
namespace {

constexpr int64_t kRows = 2;

std::unique_ptr<Model> model_of(const Json& network, const std::vector<NetworkInput>& inputs) {
  ModelSpec spec{.network = network, .where = "net.json", .dtype = Dtype::f64};
  spec.inputs = inputs;
  auto model = std::make_unique<Model>(std::move(spec));
  model->params().initialize(7);
  return model;
}
std::unique_ptr<Model> model_of(const std::string& layers, const Shape& input, Dtype dtype = Dtype::f64) {
  return model_of(Json::parse(layers, "test"), {{"x", {dtype, input}}});
}

Shape shape_of(int64_t rows, const Shape& one) {
  std::vector<int64_t> dims = one.vector();
  dims.insert(dims.begin(), rows);
  return Shape(dims);
}

Tensor numbers_for(const Type& one) {
  std::mt19937_64 random(3);
  std::vector<double> numbers(static_cast<size_t>(kRows * one.shape.elements()));
  for (double& number : numbers)
    number = one.dtype == Dtype::i64 ? static_cast<double>(random() % 3) : static_cast<double>(random() % 1000) / 500 - 1;
  return Tensor::from(shape_of(kRows, one.shape), numbers).to(one.dtype);
}

// Steps [first, end) of a tensor whose last dimension are steps.
std::vector<std::byte> piece_of(const Tensor& x, int64_t first, int64_t end) {
  const int64_t steps = x.shape().at(-1), rows = x.elements() / steps;
  const size_t item = dtype_bytes(x.dtype());
  std::vector<std::byte> piece;
  for (int64_t row = 0; row < rows; ++row) {
    const auto* from = static_cast<const std::byte*>(x.view().data) + static_cast<size_t>(row * steps + first) * item;
    piece.insert(piece.end(), from, from + static_cast<size_t>(end - first) * item);
  }
  return piece;
}

Tensor at_once(Model& model, const Tensor& x) {
  ThreadTeam team(1);
  Inference inference(model, team, false, kRows);
  return inference.run({static_cast<const std::byte*>(x.view().data)}, kRows).output.rows(0, kRows).clone();
}

// Pieces of 1, 2, 3, ... steps; their outputs beside what the whole sequence gives.
void expect_pieces_are_the_whole(Model& model, const std::string& of) {
  const Tensor x = numbers_for(model.spec().inputs[0].type), whole = at_once(model, x);
  StepSession session(std::make_shared<StepModel>(model, kRows));
  const int64_t steps = x.shape().at(-1);
  for (int turn = 0; turn < 2; ++turn, session.clear()) {
    int64_t length = 1;
    for (int64_t first = 0; first < steps; first += length++) {
      const int64_t end = std::min(steps, first + length);
      const std::vector<std::byte> piece = piece_of(x, first, end), expected = piece_of(whole, first, end);
      std::vector<std::byte> got(expected.size());
      session.step(piece.data(), end - first, got.data());
      for (size_t i = 0; i < got.size() / sizeof(double); ++i)
        ASSERT_NEAR(reinterpret_cast<const double*>(got.data())[i], reinterpret_cast<const double*>(expected.data())[i], 1e-12)
            << of << " step " << first << " turn " << turn;
    }
  }
}

TEST(StepSession, PiecesAreTheWhole) {
  for (const char* layers : {R"([{"type": "lstm", "units": 4, "layers": 2}])", R"([{"type": "gru", "units": 4}])",
                             R"([{"type": "gru", "units": 4, "reset": "before"}])", R"([{"type": "gru", "units": 4, "layer_norm": true}])",
                             R"([{"type": "rnn", "units": 4, "activation": "relu"}])",
                             R"([{"type": "lstm", "units": 5, "peepholes": true, "projection": 3, "zoneout": 0.1}])",
                             R"([{"type": "lstm", "units": 4, "state": "carry"}, {"type": "dense", "out": 3, "over": "steps"}])",
                             R"([{"type": "residual", "layers": [{"type": "lstm", "units": 3}, {"type": "layernorm", "over": "channels"}]},
            {"type": "time_distributed", "layer": {"type": "dense", "out": 2, "activation": "tanh"}}, {"type": "gru", "units": 2}])"})
    expect_pieces_are_the_whole(*model_of(layers, Shape{3, 9}), layers);
  expect_pieces_are_the_whole(
      *model_of(R"([{"type": "embedding", "size": 5, "out": 4}, {"type": "lstm", "units": 3}])", Shape{7}, Dtype::i64), "embedding");
}

// Attention keeps keys and values, a convolution the last steps.
TEST(StepSession, PiecesAreTheWholeForWhatLooksBackAtSteps) {
  for (
      const char* layers :
      {R"([{"type": "attention", "heads": 2, "causal": true}])",
       R"([{"type": "attention", "heads": 4, "kv_heads": 2, "head_size": 6, "out": 5, "bias": true, "causal": true, "positions": "rotary"}])",
       R"([{"type": "attention", "heads": 2, "kv_heads": 1, "head_size": 4, "causal": true, "positions": "rotary", "rotary_interleaved": true,
             "rotary_fraction": 0.5}])",
       R"([{"type": "attention", "heads": 3, "head_size": 2, "causal": true, "positions": "alibi"}])",
       R"([{"type": "attention", "heads": 2, "causal": true, "window": 3, "positions": "alibi"}])",
       R"([{"type": "attention", "causal": true, "window": 1}])", R"([{"type": "attention", "causal": true, "window": 9}])",
       R"([{"type": "attention", "causal": true, "window": 100, "positions": "rotary"}])",
       R"(["positions", {"type": "transformer", "layers": 2, "heads": 2, "hidden": 6, "causal": true}])",
       R"([{"type": "positions", "length": 12}, {"type": "transformer", "norm": "post", "causal": true, "window": 4}])",
       R"([{"type": "positions", "kind": "sinusoidal"}, {"type": "transformer", "rms": true, "gated": true, "activation": "swish",
             "heads": 2, "kv_heads": 1, "causal": true, "positions": "rotary"}, {"type": "gru", "units": 3}])",
       R"([{"type": "conv1d", "out": 4, "kernel": 3, "padding": "causal"}, {"type": "gru", "units": 4}])",
       R"([{"type": "conv1d", "out": 4, "kernel": 1}, {"type": "conv1d", "out": 6, "kernel": 2, "dilation": 5, "padding": "causal", "groups": 2},
            {"type": "residual", "layers": [{"type": "conv1d", "out": 6, "kernel": 3, "dilation": 2, "padding": "causal", "activation": "relu"}]}])"})
    expect_pieces_are_the_whole(*model_of(layers, Shape{4, 9}), layers);
}

// Decoders, whose steps look at what an encoder has made of another sequence (m, of the lengths n): beside the whole sequence at once.
void expect_decoder_is_the_whole(const std::string& nodes) {
  const auto model =
      model_of(Json::parse(R"({"type": "graph", "inputs": ["m", "x"], "outputs": ["y"], "nodes": [)" + nodes + "]}", "test"),
               {{"m", {Dtype::f64, Shape{4, 5}}}, {"n", {Dtype::i64, Shape()}, FieldRole::length, "m"}, {"x", {Dtype::f64, Shape{4, 6}}}});
  const Tensor m = numbers_for(model->spec().inputs[0].type), n = Tensor::from(Shape{kRows}, std::vector<double>{5, 3}).to(Dtype::i64);
  const Tensor x = numbers_for(model->spec().inputs[2].type);
  const auto data = [](const Tensor& tensor) { return static_cast<const std::byte*>(tensor.view().data); };
  ThreadTeam team(1);
  Inference inference(*model, team, false, kRows);
  const Tensor whole = inference.run({data(m), data(n), data(x)}, kRows).output.rows(0, kRows).clone();
  const auto steps = std::make_shared<StepModel>(*model, kRows);
  ASSERT_EQ(steps->memory().size(), 2u);
  StepSession session(steps), other(steps);
  std::vector<std::byte> got(piece_of(whole, 0, 1).size());
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { session.step(x.view().data, 1, got.data()); }), "a memory that the session was not given");
  const std::vector<double> noise(static_cast<size_t>(m.elements()), 7);
  other.remember(0, noise.data()), other.remember(1, n.view().data);
  session.remember(0, m.view().data), session.remember(1, n.view().data);
  for (int turn = 0; turn < 2; ++turn, session.clear(), other.clear())
    for (int64_t t = 0; t < 6; ++t) {
      const std::vector<std::byte> piece = piece_of(x, t, t + 1), expected = piece_of(whole, t, t + 1);
      other.step(piece.data(), 1, got.data());  // what it remembers is its own
      session.step(piece.data(), 1, got.data());
      for (size_t i = 0; i < got.size() / sizeof(double); ++i)
        ASSERT_NEAR(reinterpret_cast<const double*>(got.data())[i], reinterpret_cast<const double*>(expected.data())[i], 1e-12)
            << nodes << " step " << t << " turn " << turn;
    }
}

TEST(StepSession, StepsLookAtAMemory) {
  const std::string encoder = R"({"name": "pos", "inputs": ["m"], "layer": {"type": "positions"}},
      {"name": "enc", "inputs": ["pos"], "layer": {"type": "transformer", "layers": 2, "heads": 2, "hidden": 6}}, )";
  const std::string both = R"({"name": "enc", "inputs": ["m"], "layer": {"type": "lstm", "units": 2, "bidirectional": "concat"}}, )";
  expect_decoder_is_the_whole(encoder + R"({"name": "at", "inputs": ["x"], "layer": {"type": "positions"}},
      {"name": "y", "inputs": ["at", "enc"], "layer": {"type": "transformer", "layers": 2, "heads": 2, "hidden": 6, "causal": true, "cross": true}})");
  expect_decoder_is_the_whole(both + R"({"name": "h", "inputs": ["x"], "layer": {"type": "gru", "units": 4}},
      {"name": "seen", "inputs": ["h", "enc"], "layer": {"type": "additive_attention", "units": 3}},
      {"name": "both", "inputs": ["h", "seen"], "layer": {"type": "concat"}}, {"name": "y", "inputs": ["both"], "layer": {"type": "dense", "out": 3, "over": "steps"}})");
  expect_decoder_is_the_whole(both + R"({"name": "h", "inputs": ["x"], "layer": {"type": "lstm", "units": 4}},
      {"name": "y", "inputs": ["h", "enc"], "layer": {"type": "attention", "heads": 2}})");
  expect_decoder_is_the_whole(R"({"name": "enc", "inputs": ["m"], "layer": {"type": "gru", "units": 3, "returns": "last"}},
      {"name": "h", "inputs": ["x", "enc"], "layer": {"type": "gru", "units": 3}}, {"name": "y", "inputs": ["h"], "layer": {"type": "lstm", "units": 2}})");
}

TEST(StepSession, OfADecoderRefusesWhatIsNotThereStepByStep) {
  const std::vector<NetworkInput> inputs = {{"m", {Dtype::f64, Shape{4, 5}}}, {"x", {Dtype::f64, Shape{4, 6}}}};
  const auto refused = [&](const std::string& nodes) {
    const auto model =
        model_of(Json::parse(R"({"type": "graph", "inputs": ["m", "x"], "outputs": ["y"], "nodes": [)" + nodes + "]}", "test"), inputs);
    return refusal(ErrorKind::model, [&] { StepModel steps(*model); });
  };
  EXPECT_HAS(refused(R"({"name": "h", "inputs": ["x"], "layer": {"type": "gru", "units": 4, "reverse": true}},
      {"name": "y", "inputs": ["h", "m"], "layer": {"type": "attention", "heads": 2}})"),
             "does not go step by step");
  EXPECT_HAS(refused(R"({"name": "h", "inputs": ["x"], "layer": {"type": "gru", "units": 4}},
      {"name": "y", "inputs": ["h", "m"], "layer": {"type": "transformer", "cross": true}})"),
             "does not go step by step");
}

// Layers that see a part of the past alone go on for ever, the others as far as the model reads at once.
TEST(StepSession, SaysHowFarTheModelLooks) {
  const auto most = [](const std::string& layers) { return StepModel(*model_of(layers, Shape{4, 6})).most_steps(); };
  EXPECT_EQ(most(R"([{"type": "attention", "causal": true}])"), 6);
  EXPECT_EQ(most(R"([{"type": "attention", "causal": true, "window": 7}])"), 6);
  EXPECT_EQ(most(R"([{"type": "attention", "causal": true, "window": 6}])"), 0);
  EXPECT_EQ(most(R"(["positions", {"type": "gru", "units": 4}])"), 6);
  EXPECT_EQ(most(R"([{"type": "conv1d", "out": 4, "kernel": 3, "dilation": 4, "padding": "causal"}])"), 0);
  StepSession session(std::make_shared<StepModel>(*model_of(R"([{"type": "attention", "causal": true}])", Shape{4, 6})));
  std::vector<double> x(4 * 7), y(4 * 7);
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { session.step(x.data(), 7, y.data()); }), "0 steps read, and 7 more");
  session.step(x.data(), 6, y.data());
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { session.step(x.data(), 1, y.data()); }), "clear the session");
  session.clear();
  session.step(x.data(), 1, y.data());
}

// A ring of three steps, over which the session goes many times: the same as a model that has the whole text at once.
TEST(StepSession, ARingGoesOnForEver) {
  const char* const layers = R"([{"type": "attention", "heads": 2, "causal": true, "window": 3, "positions": "rotary"},
      {"type": "conv1d", "out": 3, "kernel": 2, "dilation": 2, "padding": "causal"}])";
  const auto small = model_of(layers, Shape{4, 3}), large = model_of(layers, Shape{4, 20});
  StepSession session(std::make_shared<StepModel>(*small, kRows));
  const Tensor x = numbers_for(large->spec().inputs[0].type), whole = at_once(*large, x);
  std::vector<double> got(static_cast<size_t>(whole.elements()));
  session.step(x.view().data, 20, got.data());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], whole.view().as<double>()[i], 1e-12) << i;
}

// Each row may be at a step of its own, as a state that comes from elsewhere has it.
TEST(StepSession, RowsAreAtTheirOwnSteps) {
  const auto model = model_of(R"(["positions", {"type": "attention", "heads": 2, "causal": true, "positions": "rotary"}])", Shape{4, 6});
  const auto one = std::make_shared<StepModel>(*model, 1), two = std::make_shared<StepModel>(*model, 2);
  StepSession ahead(one), fresh(one), both(two);
  const std::vector<double> x{1, 2, 0.5, 1, -1, 1, 0.3, 2};  // two rows of one step
  std::vector<double> a(8), b(4), c(4);
  ahead.step(x.data(), 1, b.data());
  ahead.step(x.data() + 4, 1, b.data());
  for (size_t i = 0; i < one->carried().size(); ++i) std::ranges::copy(ahead.state().now(i), both.state().now(i).begin());
  EXPECT_EQ(both.state().steps_read(), 2);
  for (int turn = 0; turn < 3; ++turn) {  // the later ones read what the first has kept
    both.step(x.data(), 1, a.data());
    ahead.step(x.data(), 1, b.data());
    fresh.step(x.data() + 4, 1, c.data());
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(a[i], b[i], 1e-12) << turn;
      EXPECT_NEAR(a[4 + i], c[i], 1e-12) << turn;
    }
  }
}

bool goes_by_steps(const Model& model) {
  try {
    StepModel step(model);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// A layer that says so in its table does so in its example.
TEST(StepSession, LayersThatSaySoGoStepByStep) {
  int tested = 0;
  for (const LayerDef* def : all_layers()) {
    if (def->step_use == nullptr || def->min_inputs > 1 || def->max_inputs < 0) continue;
    const Json shape = Json::parse(def->example_input, def->name);
    const bool floating = std::string(def->name) != "embedding";
    std::vector<int64_t> dims;
    for (const Json& dim : shape.as_array())
      if (dim.is_int()) dims.push_back(dim.as_int());
    if (dims.size() < 2 && floating) dims = {3, 6};
    const auto model =
        model_of(Json(Json::Array{Json::parse(def->example, def->name)}), {{"x", {floating ? Dtype::f64 : Dtype::i64, Shape(dims)}}});
    if (!goes_by_steps(*model)) continue;  // as its example has it
    expect_pieces_are_the_whole(*model, def->name);
    ++tested;
  }
  EXPECT_GE(tested, 12);
}

TEST(StepSession, StateIsAllThatASessionIs) {
  const auto model = model_of(R"([{"type": "lstm", "units": 4}])", Shape{3, 6});
  const auto shared = std::make_shared<StepModel>(*model, 1);
  StepSession one(shared), other(shared), third(shared);
  const std::vector<double> x{1, -1, 0.5}, none(3, 0);
  std::vector<double> a(4), b(4), c(4);
  one.step(x.data(), 1, a.data());
  other.step(none.data(), 1, b.data());
  EXPECT_NE(a, b) << "they do not share their states";
  for (size_t i = 0; i < shared->carried().size(); ++i) std::ranges::copy(one.state().now(i), third.state().now(i).begin());
  one.step(x.data(), 1, a.data());
  third.step(x.data(), 1, c.data());
  EXPECT_EQ(a, c);
}

TEST(StepSession, KnowsWhetherParametersAndStatesAreTheModels) {
  const auto model = model_of(R"([{"type": "batchnorm"}, {"type": "gru", "units": 4}])", Shape{3, 6});
  const StepModel before(*model);
  EXPECT_TRUE(before.has_parameters_of(*model));
  model->params().state_bytes()[0] ^= std::byte{1};
  EXPECT_FALSE(before.has_parameters_of(*model)) << "a statistic";
  const StepModel after(*model);
  EXPECT_TRUE(after.has_parameters_of(*model));
  model->params().initialize(8);
  EXPECT_FALSE(after.has_parameters_of(*model));
}

TEST(StepSession, NamesTheLayerThatNeedsOtherSteps) {
  const auto of = [](const std::string& layers, ErrorKind kind = ErrorKind::model) {
    return refusal(kind, [&] { StepModel step(*model_of(layers, Shape{4, 6})); });
  };
  EXPECT_HAS(of(R"([{"type": "conv1d", "out": 4, "kernel": 3, "padding": "same"}, {"type": "gru", "units": 4}])"), "conv1d 'conv1'");
  EXPECT_HAS(of(R"([{"type": "conv1d", "out": 4, "kernel": 2, "stride": 2, "padding": "causal"}])", ErrorKind::usage),
             "an output for each step");
  EXPECT_HAS(of(R"([{"type": "gru", "units": 4, "reverse": true}])"), "gru 'gru1'");
  EXPECT_HAS(of(R"([{"type": "lstm", "units": 4, "bidirectional": "sum"}])"), "lstm 'lstm1'");
  EXPECT_HAS(of(R"([{"type": "lstm", "units": 4, "returns": "both"}])"), "lstm 'lstm1'");
  EXPECT_HAS(of(R"([{"type": "attention", "heads": 2}])"), "attention 'attention1'");
  EXPECT_HAS(of(R"([{"type": "layernorm", "scale": false, "shift": false}])"), "layernorm 'ln1'");
  EXPECT_HAS(of(R"([{"type": "activation", "activation": {"type": "softmax", "axis": 2}}])"), "axis");
  EXPECT_HAS(of(R"([{"type": "lstm", "units": 4, "returns": "last"}])", ErrorKind::usage), "an output for each step");
}

}  // namespace
}  // namespace perigee
