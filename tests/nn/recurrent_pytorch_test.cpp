// Recurrent layers and ops against PyTorch.
#include <functional>

#include "src/graph/op.h"
#include "tests/nn/recurrent_oracle.h"

namespace perigee {
namespace {

using namespace oracle;

// PyTorch's parameters of one layer and direction in our names.
std::map<std::string, Parameter> from_torch(Arrays& a, const std::string& tail, const std::string& suffix, bool gru) {
  std::map<std::string, Parameter> result;
  const auto both = [&](const std::string& name, const std::function<Tensor(const std::string&)>& make) {
    result[name + suffix] = {make(""), make("d.")};
  };
  both("weight", [&](const std::string& d) { return a.at(d + "weight_ih" + tail); });
  both("recurrent", [&](const std::string& d) { return permuted(a.at(d + "weight_hh" + tail), {1, 0}); });
  if (a.contains("weight_hr" + tail))
    both("projection", [&](const std::string& d) { return permuted(a.at(d + "weight_hr" + tail), {1, 0}); });
  if (!a.contains("bias_ih" + tail)) return result;
  const Tensor &in = a.at("bias_ih" + tail), &recurrent = a.at("bias_hh" + tail);
  const int64_t units = recurrent.elements() / 3;
  Tensor sum = plus(in, recurrent);
  if (gru) std::copy_n(in.data<double>() + 2 * units, units, sum.data<double>() + 2 * units);
  result["bias" + suffix] = {sum, a.at("d.bias_ih" + tail)};
  if (gru)
    result["bias_recurrent" + suffix] = {part(recurrent, 2 * units, Shape{units}), part(a.at("d.bias_hh" + tail), 2 * units, Shape{units})};
  return result;
}

class PyTorchLayer : public testing::TestWithParam<LayerCase> {};

TEST_P(PyTorchLayer, AgreesInOutputsAndGradients) {
  const std::string file = GetParam().file;
  PERIGEE_NEEDS_ORACLE(file);
  Arrays a = read(file);
  std::vector<std::pair<std::string, Tensor>> inputs{{"x", permuted(a.at("x"), {1, 2, 0})}, {"h0", row_of(a.at("h0"), 0)}};
  std::map<std::string, Tensor> gradients{{"x", permuted(a.at("dx"), {1, 2, 0})}, {"h0", row_of(a.at("dh0"), 0)}};
  std::vector<std::pair<Tensor, Tensor>> outputs{{permuted(a.at("y"), {1, 2, 0}), permuted(a.at("gy"), {1, 2, 0})},
                                                 {row_of(a.at("hn"), 0), row_of(a.at("ghn"), 0)}};
  if (a.contains("c0")) {
    inputs.emplace_back("c0", row_of(a.at("c0"), 0));
    gradients["c0"] = row_of(a.at("dc0"), 0);
    outputs.emplace_back(row_of(a.at("cn"), 0), row_of(a.at("gcn"), 0));
  }
  check_layer(GetParam().layer, inputs, from_torch(a, "_l0", "", file == "gru"), outputs, gradients);
}

INSTANTIATE_TEST_SUITE_P(Recurrent, PyTorchLayer,
                         testing::Values(LayerCase{"lstm", R"({"type": "lstm", "units": 5, "returns": "both"})"},
                                         LayerCase{"lstm_nobias", R"({"type": "lstm", "units": 5, "returns": "both", "bias": false})"},
                                         LayerCase{"gru", R"({"type": "gru", "units": 5, "returns": "both"})"},
                                         LayerCase{"rnn_tanh", R"({"type": "rnn", "units": 5, "returns": "both"})"},
                                         LayerCase{"rnn_relu", R"({"type": "rnn", "units": 5, "returns": "both", "activation": "relu"})"}),
                         case_name);

TEST(Recurrent, ProjectedStatesAgreeWithPyTorch) {
  PERIGEE_NEEDS_ORACLE("lstm_proj");
  Arrays a = read("lstm_proj");
  std::vector<std::pair<std::string, Tensor>> inputs{{"x", permuted(a.at("x"), {1, 2, 0})}};
  std::map<std::string, Tensor> gradients{{"x", permuted(a.at("dx"), {1, 2, 0})}};
  std::vector<std::pair<Tensor, Tensor>> outputs{{permuted(a.at("y"), {1, 2, 0}), permuted(a.at("gy"), {1, 2, 0})}};
  std::map<std::string, Parameter> parameters;
  for (const int64_t l : {0, 1}) {
    const std::string number = std::to_string(l);
    for (const char* state : {"h", "c"}) {
      inputs.emplace_back(state + number, row_of(a.at(state + std::string("0")), l));
      gradients[state + number] = row_of(a.at("d" + std::string(state) + "0"), l);
      outputs.emplace_back(row_of(a.at(state + std::string("n")), l), row_of(a.at("g" + std::string(state) + "n"), l));
    }
    for (const auto& [name, parameter] : from_torch(a, "_l" + number, "", false)) parameters["layer" + number + "." + name] = parameter;
  }
  const auto layer = [](const char* number, const char* x) {
    return std::string(R"({"name": "layer)") + number +
           R"(", "layer": {"type": "lstm", "units": 5, "projection": 3, "returns": "both"}, "inputs": [")" + x + "\", \"h" + number +
           "\", \"c" + number + "\"]}";
  };
  check_layer(R"({"type": "graph", "inputs": ["x", "h0", "c0", "h1", "c1"], "nodes": [)" + layer("0", "x") + ", " + layer("1", "layer0:0") +
                  R"(], "outputs": ["layer1:0", "layer0:1", "layer0:2", "layer1:1", "layer1:2"]})",
              inputs, parameters, outputs, gradients);
}

// Stacks in both directions with first states and lengths: PyTorch's packed sequences.
struct PackedCase {
  const char *file, *cell;
  int64_t layers;
};
class PyTorchPacked : public testing::TestWithParam<PackedCase> {};

TEST_P(PyTorchPacked, AgreesInStatesAndGradients) {
  const PackedCase& given = GetParam();
  const std::string cell = given.cell;
  PERIGEE_NEEDS_ORACLE(given.file);
  in_both_dtypes(given.file, [&](Arrays a, Trial& trial) {
    const auto by_example = [](const Tensor& x) { return permuted(x, {1, 0, 2}); };
    Value x = trial.input("x", by_example(a.at("x")));
    const int64_t n = x.shape()[0], t = x.shape()[1];
    Tensor counts(Dtype::f64, Shape{n, t});
    for (int64_t i = 0; i < n * t; ++i) counts.data<double>()[i] = static_cast<double>(i % t) < a.at("lengths").data<double>()[i / t];
    const Value mask = trial.input("mask", counts);
    std::map<std::string, Tensor> gradients{{"x", by_example(a.at("dx"))}};
    std::vector<std::pair<Value, Tensor>> results;
    for (int64_t layer = 0; layer < given.layers; ++layer) {
      Value sides[2];
      for (int64_t side = 0; side < 2; ++side) {
        const int64_t which = 2 * layer + side;
        const std::string number = std::to_string(which), tail = "_l" + std::to_string(layer) + (side == 1 ? "_reverse" : "");
        std::map<std::string, Parameter> parameters = from_torch(a, tail, number, cell == "gru");
        for (const auto& [name, parameter] : parameters) gradients[name] = parameter.gradient;
        const Value h0 = trial.input("h0 " + number, row_of(a.at("h0"), which));
        gradients["h0 " + number] = row_of(a.at("dh0"), which);
        const Value c0 = cell == "lstm" ? trial.input("c0 " + number, row_of(a.at("c0"), which)) : Value();
        if (c0) gradients["c0 " + number] = row_of(a.at("dc0"), which);
        const std::vector<Value> states = run_op(trial, cell, x, number, h0, c0, mask, side == 1, parameters);
        sides[side] = states[0];
        const int64_t last = side == 1 ? 0 : t - 1;
        const auto ends = [&](const char* name, const char* gradient, Value value) {
          trial.graph.output(name + number, value);
          trial.expected.emplace_back(name + number, row_of(a.at(name), which));
          results.emplace_back(value, row_of(a.at(gradient), which));
        };
        ends("hn", "ghn", step(states[0], last));
        if (cell == "lstm") ends("cn", "gcn", step(states[1], last));
      }
      x = trial.graph.apply("concatenate", {sides[0], sides[1]}, Json(Json::Object{{"axis", Json(2)}}));
    }
    x = x * reshape(mask, Shape{n, t, 1});
    trial.graph.output("y", x);
    trial.expected.emplace_back("y", by_example(a.at("y")));
    results.emplace_back(x, by_example(a.at("gy")));
    trial.run(results, gradients);
    trial.check();
  });
}

INSTANTIATE_TEST_SUITE_P(Recurrent, PyTorchPacked,
                         testing::Values(PackedCase{"lstm_2bi_lengths", "lstm", 2}, PackedCase{"gru_2bi_lengths", "gru", 2},
                                         PackedCase{"rnn_bi_lengths", "rnn", 1}),
                         [](const auto& info) { return std::string(info.param.file); });

}  // namespace
}  // namespace perigee
