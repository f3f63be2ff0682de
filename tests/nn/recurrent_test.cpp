// Recurrent layers beside finite differences and formulas, their initial values and draws, and what a plan makes of a stack of them. The numbers of PyTorch and Keras:
// recurrent_pytorch_test.cpp, recurrent_keras_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "src/graph/op.h"
#include "src/graph/passes/simplify.h"
#include "src/graph/plan.h"
#include "src/nn/network.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

TEST(Recurrent, GradientsOfVariantsAgreeWithFiniteDifferences) {
  for (const char* layer :
       {R"({"type": "lstm", "units": 3, "peepholes": true})", R"({"type": "lstm", "units": 3, "projection": 2, "reverse": true})",
        R"({"type": "lstm", "units": 3, "layer_norm": true})", R"({"type": "gru", "units": 3, "layer_norm": true})",
        R"({"type": "rnn", "units": 3, "layer_norm": true, "activation": "softsign"})",
        R"({"type": "lstm", "units": 3, "zoneout": 0.3, "layers": 2, "stack_dropout": 0.3})",
        R"({"type": "gru", "units": 3, "recurrent_dropout": 0.4, "reset": "before", "zoneout": 0.2})",
        R"({"type": "lstm", "units": 3, "recurrent_dropout": 0.4, "bidirectional": "sum", "returns": "last"})"})
    for (const bool training : {true, false}) {
      SCOPED_TRACE(std::string(layer) + (training ? ", training" : ", inference"));
      Graph graph;
      std::mt19937_64 random(3);
      const BuiltNetwork net =
          Network(Json(Json::Array{Json::parse(layer, "test")}), "test")
              .build(graph, {{"x", {Dtype::f64, Shape{2, 3}}}}, {.batch = 3, .training = training, .dtype = Dtype::f64});
      std::map<std::string, Tensor> leaves{{"x", case_values(real(net.inputs[0].shape()), true, random)}};
      std::vector<std::string> names{"x"};
      std::vector<Value> targets{net.inputs[0]};
      for (const ParameterSpec& spec : net.parameters) {
        leaves[spec.name] = case_values(real(spec.shape, -1, 1), true, random);
        names.push_back(spec.name);
        targets.push_back(graph.parameter(spec.name, {Dtype::f64, spec.shape}));
      }
      const Value root = weighted_total(graph, net.outputs[0], "weights", leaves, random);
      check_gradients(graph, root, names, targets, leaves);
    }
}

BuiltNetwork build_recurrent(Graph& graph, const std::string& layer, const Shape& x, bool training = false) {
  std::vector<int64_t> dims = x.vector();
  dims.erase(dims.begin());
  return Network(Json(Json::Array{Json::parse(layer, "test")}), "test")
      .build(graph, {{"x", {Dtype::f64, Shape(dims)}}}, {.batch = x[0], .training = training, .dtype = Dtype::f64});
}

// The first result. Parameters have the values of their names in `values`, without the layer's name.
Tensor result_of(const std::string& layer, const Tensor& x, const std::map<std::string, Tensor>& values) {
  Graph graph;
  const BuiltNetwork net = build_recurrent(graph, layer, x.shape());
  std::map<std::string, Tensor> leaves{{"x", x}};
  for (const ParameterSpec& spec : net.parameters) leaves[spec.name] = values.at(spec.name.substr(spec.name.find('.') + 1));
  Interpreter interpreter(graph);
  interpreter.run(leaves);
  return interpreter[net.outputs.at(0)].clone();
}

TEST(Recurrent, BothDirectionsAreJoinedAsNamed) {
  std::mt19937_64 random(5);
  const Tensor x = case_values(real(Shape{2, 3, 4}), true, random);
  std::map<std::string, Tensor> values;
  for (const auto& [suffix, part] : {std::pair{"", "forward."}, {"_reverse", "backward."}})
    for (const auto& [name, shape] :
         {std::pair{"weight", Shape{6, 3}}, {"recurrent", Shape{2, 6}}, {"bias", Shape{6}}, {"bias_recurrent", Shape{2}}})
      values[std::string(name) + suffix] = values[std::string(part) + name] = case_values(real(shape, -1, 1), true, random);
  const auto joined = [&](const std::string& how, const std::string& more) {
    return result_of(R"({"type": "gru", "units": 2, "bidirectional": ")" + how + '"' + more + "}", x, values);
  };
  for (const std::string more : {"", R"(, "returns": "last")"}) {
    const Tensor both = joined("concat", more), sum = joined("sum", more), mean = joined("mean", more), product = joined("multiply", more);
    const Tensor wrapped = result_of(R"({"type": "bidirectional", "layer": {"type": "gru", "units": 2)" + more + "}}", x, values);
    const int64_t half = sum.elements() / 2;  // of each example
    for (int64_t i = 0; i < sum.elements(); ++i) {
      const double a = both.data<double>()[i / half * 2 * half + i % half], b = both.data<double>()[i / half * 2 * half + half + i % half];
      EXPECT_NE(a, b);
      EXPECT_EQ(sum.data<double>()[i], a + b);
      EXPECT_EQ(mean.data<double>()[i], (a + b) * 0.5);
      EXPECT_EQ(product.data<double>()[i], a * b);
    }
    for (int64_t i = 0; i < both.elements(); ++i) EXPECT_EQ(wrapped.data<double>()[i], both.data<double>()[i]);
  }
}

TEST(Recurrent, ForgetGatesBeginOpenAndStatesOrthogonal) {
  const auto init_of = [](const std::string& more, const std::string& name) {
    Graph graph;
    for (const ParameterSpec& spec :
         build_recurrent(graph, R"({"type": "lstm", "units": 3, "layers": 2)" + more + "}", Shape{1, 2, 2}).parameters)
      if (spec.name == "lstm1." + name) return spec.init;
    return Json();
  };
  EXPECT_EQ(init_of("", "bias_2"), Json::parse(R"({"type": "blocks", "values": [0.0, 1.0, 0.0, 0.0]})", "test"));
  EXPECT_EQ(init_of(R"(, "forget_bias": 2.5)", "bias"), Json::parse(R"({"type": "blocks", "values": [0.0, 2.5, 0.0, 0.0]})", "test"));
  EXPECT_EQ(init_of("", "recurrent_2"), Json("orthogonal"));
  EXPECT_EQ(init_of("", "weight"), Json("xavier"));
  const std::string own = R"(, "recurrent_init": "zeros", "weight_init": "ones")";
  EXPECT_EQ(init_of(own, "recurrent_2"), Json("zeros"));
  EXPECT_EQ(init_of(own, "weight_2"), Json("ones"));
}

TEST(Recurrent, DrawsAreMadeBetweenLayersAndOnceForASequence) {
  const auto draws = [](const std::string& layer, bool training = true) {
    Graph graph;
    build_recurrent(graph, layer, Shape{2, 3, 5}, training);
    int64_t count = 0;
    for (const Node& node : graph.nodes()) count += node.op->random;
    return count;
  };
  EXPECT_EQ(draws(R"({"type": "gru", "units": 3, "stack_dropout": 0.3})"), 0) << "one layer has no other behind it";
  EXPECT_EQ(draws(R"({"type": "gru", "units": 3, "stack_dropout": 0.3, "layers": 3})"), 2);
  EXPECT_EQ(draws(R"({"type": "lstm", "units": 3, "recurrent_dropout": 0.3})"), 1) << "the same units at all steps";
  EXPECT_EQ(draws(R"({"type": "lstm", "units": 3, "zoneout": 0.3})"), 10) << "h and c at each of 5 steps";
  for (const char* option : {R"("stack_dropout": 0.3, "layers": 3)", R"("recurrent_dropout": 0.3)", R"("zoneout": 0.3)"})
    EXPECT_EQ(draws(std::string(R"({"type": "lstm", "units": 3, )") + option + "}", false), 0) << option;
}

// Krueger et al. 2017: in inference a state moves by its expectation. The first step starts from 0.
TEST(Recurrent, ZoneoutInInferenceIsTheExpectation) {
  std::mt19937_64 random(5);
  const Tensor x = case_values(real(Shape{2, 3, 1}), true, random);
  const std::map<std::string, Tensor> values = {{"weight", case_values(real(Shape{2, 3}, -1, 1), true, random)},
                                                {"recurrent", case_values(real(Shape{2, 2}, -1, 1), true, random)},
                                                {"bias", case_values(real(Shape{2}, -1, 1), true, random)}};
  const Tensor all = result_of(R"({"type": "rnn", "units": 2})", x, values),
               some = result_of(R"({"type": "rnn", "units": 2, "zoneout": 0.3})", x, values);
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(some.data<double>()[i], 0.7 * all.data<double>()[i], 1e-15);
}

// Gers and Schmidhuber 2000: the gates i and f see the cell before the step, o the cell behind it.
TEST(Recurrent, PeepholesSeeTheCell) {
  constexpr int64_t kSteps = 4;
  std::mt19937_64 random(7);
  const auto draw = [&](const Shape& shape) { return case_values(real(shape, -1, 1), true, random); };
  std::map<std::string, Tensor> values = {{"weight", draw({4, 1})}, {"recurrent", draw({1, 4})}, {"bias", draw({4})}};
  for (const char* name : {"peephole_i", "peephole_f", "peephole_o"}) values[name] = draw({1});
  const Tensor x = draw({1, 1, kSteps}), got = result_of(R"({"type": "lstm", "units": 1, "peepholes": true})", x, values);
  const auto number = [&](const char* name, int64_t i = 0) { return values.at(name).data<double>()[i]; };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  double h = 0, c = 0;
  for (int64_t t = 0; t < kSteps; ++t) {
    const auto sum = [&](int64_t g) { return number("weight", g) * x.data<double>()[t] + number("recurrent", g) * h + number("bias", g); };
    const double input = sigmoid(sum(0) + number("peephole_i") * c), forget = sigmoid(sum(1) + number("peephole_f") * c);
    c = forget * c + input * std::tanh(sum(2));
    h = sigmoid(sum(3) + number("peephole_o") * c) * std::tanh(c);
    EXPECT_NEAR(got.data<double>()[t], h, 1e-14) << "step " << t;
  }
}

// The dimensions are turned at the borders of each layer; between layers nothing is copied.
TEST(Recurrent, StacksOfLayersCopyNothing) {
  Graph graph;
  const Json layers =
      Json::parse(R"([{"type": "embedding", "size": 9, "out": 6}, {"type": "lstm", "units": 16}, {"type": "gru", "units": 16},
                                      {"type": "time_distributed", "layer": {"type": "dense", "out": 9}}])",
                  "test");
  const BuiltNetwork net = Network(layers, "test").build(graph, {{"x", {Dtype::i64, Shape{5}}}}, {.batch = 4, .training = true});
  graph.output("y", net.outputs[0]);
  const auto plan = Plan::compile(simplify(graph), {});
  for (const PlanStep& planned : plan->steps()) EXPECT_STRNE(planned.op->name, "copy") << planned.scope;
}

}  // namespace
}  // namespace perigee
