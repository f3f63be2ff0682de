// Recurrent layers and ops against Keras.
#include "src/graph/op.h"
#include "tests/nn/recurrent_oracle.h"

namespace perigee {
namespace {

using namespace oracle;

// Keras computed some of its files in float32; PyTorch's are checked to 1e-10.
constexpr double kPartlyFloat32 = 1e-6;

// A cell of Keras in our names: `cell` ends in '/'.
std::map<std::string, Parameter> from_keras(Arrays& a, const std::string& cell, const std::string& suffix) {
  const bool gru = cell.find("gru") != std::string::npos;
  const auto ordered = [&](const Tensor& x) { return gru ? blocks(x, {1, 0, 2}) : x; };
  const auto make = [&](const std::string& d) {
    std::map<std::string, Tensor> made;
    made["weight"] = permuted(ordered(a.at(d + cell + "kernel")), {1, 0});
    made["recurrent"] = ordered(a.at(d + cell + "recurrent_kernel"));
    const Tensor bias = ordered(a.at(d + cell + "bias"));
    if (bias.shape().rank() == 1) {
      made["bias"] = bias;
      return made;
    }
    const int64_t columns = bias.shape()[1], units = columns / 3;
    const Tensor first = part(bias, 0, Shape{columns}), second = part(bias, columns, Shape{columns});
    made["bias"] = d.empty() ? plus(first, second) : first;
    std::copy_n(first.data<double>() + 2 * units, units, made["bias"].data<double>() + 2 * units);
    made["bias_recurrent"] = part(second, 2 * units, Shape{units});
    return made;
  };
  std::map<std::string, Tensor> values = make(""), gradients = make("d.");
  std::map<std::string, Parameter> result;
  for (const auto& [name, value] : values) result[name + suffix] = {value, gradients.at(name)};
  return result;
}

class KerasLayer : public testing::TestWithParam<LayerCase> {};

TEST_P(KerasLayer, AgreesInOutputsAndGradients) {
  const std::string file = GetParam().file;
  PERIGEE_NEEDS_ORACLE(file);
  const bool turned = file.ends_with("_backwards");  // Keras gives the last step first
  Arrays a = read(file);
  std::map<std::string, Parameter> parameters;
  for (const auto& [name, tensor] : a) {
    if (!name.ends_with("/kernel") || name.starts_with("d.")) continue;
    const bool backward = name.starts_with("backward");
    parameters.merge(from_keras(a, name.substr(0, name.size() - 6), backward ? "_reverse" : ""));
  }
  const auto sequence = [&](const Tensor& x) {
    if (x.shape().rank() == 2) return x;
    Tensor steps = permuted(x, {0, 2, 1});
    if (!turned) return steps;
    Tensor back = steps.clone();  // outputs in reversed order
    const int64_t t = steps.shape()[2];
    for (int64_t i = 0; i < steps.elements(); ++i) back.data<double>()[i / t * t + t - 1 - i % t] = steps.data<double>()[i];
    return back;
  };
  check_layer(GetParam().layer, {{"x", permuted(a.at("x"), {0, 2, 1})}}, parameters, {{sequence(a.at("out0")), sequence(a.at("gy"))}},
              {{"x", permuted(a.at("dx"), {0, 2, 1})}}, kPartlyFloat32);
}

INSTANTIATE_TEST_SUITE_P(
    Recurrent, KerasLayer,
    testing::Values(LayerCase{"keras_lstm", R"({"type": "lstm", "units": 5})"},
                    LayerCase{"keras_lstm_last", R"({"type": "lstm", "units": 5, "returns": "last"})"},
                    LayerCase{"keras_lstm_hard", R"({"type": "lstm", "units": 5, "gate_activation": "hard_sigmoid6"})"},
                    LayerCase{"keras_lstm_backwards", R"({"type": "lstm", "units": 5, "reverse": true})"},
                    LayerCase{"keras_gru_after", R"({"type": "gru", "units": 5})"},
                    LayerCase{"keras_gru_before", R"({"type": "gru", "units": 5, "reset": "before"})"},
                    LayerCase{"keras_rnn", R"({"type": "rnn", "units": 5})"},
                    LayerCase{"keras_bi_concat", R"({"type": "lstm", "units": 5, "bidirectional": "concat"})"},
                    LayerCase{"keras_bi_sum", R"({"type": "lstm", "units": 5, "bidirectional": "sum"})"},
                    LayerCase{"keras_bi_mul", R"({"type": "lstm", "units": 5, "bidirectional": "multiply"})"},
                    LayerCase{"keras_bi_ave", R"({"type": "lstm", "units": 5, "bidirectional": "mean"})"},
                    LayerCase{"keras_bi_last", R"({"type": "lstm", "units": 5, "bidirectional": "concat", "returns": "last"})"}),
    case_name);

// An activation with options makes a layer go step by step: the same numbers.
INSTANTIATE_TEST_SUITE_P(
    StepByStep, KerasLayer,
    testing::Values(LayerCase{"keras_lstm", R"({"type": "lstm", "units": 5, "activation": {"type": "tanh"}})"},
                    LayerCase{"keras_gru_after", R"({"type": "gru", "units": 5, "activation": {"type": "tanh"}})"},
                    LayerCase{"keras_gru_before", R"({"type": "gru", "units": 5, "reset": "before", "activation": {"type": "tanh"}})"},
                    LayerCase{"keras_rnn", R"({"type": "rnn", "units": 5, "activation": {"type": "tanh"}})"},
                    LayerCase{"keras_bi_concat",
                              R"({"type": "lstm", "units": 5, "bidirectional": "concat", "activation": {"type": "tanh"}})"}),
    case_name);

// Masked steps keep the state and repeat it, as Keras has it.
struct MaskCase {
  const char *file, *cell;
  bool zero = false;  // masked steps of the result are 0
};
class KerasMask : public testing::TestWithParam<MaskCase> {};

TEST_P(KerasMask, AgreesInStatesAndGradients) {
  const MaskCase& given = GetParam();
  PERIGEE_NEEDS_ORACLE(given.file);
  in_both_dtypes(given.file, [&](Arrays a, Trial& trial) {
    trial.tolerance = kPartlyFloat32;
    std::map<std::string, Parameter> parameters;
    for (const auto& [name, tensor] : a)
      if (name.ends_with("/kernel") && !name.starts_with("d.")) parameters = from_keras(a, name.substr(0, name.size() - 6), "");
    const Value x = trial.input("x", a.at("x")), mask = trial.input("mask", a.at("mask"));
    Value h = run_op(trial, given.cell, x, "", {}, {}, mask, false, parameters)[0];
    if (a.at("out0").shape().rank() == 2) h = step(h, h.shape()[1] - 1);
    if (given.zero) h = h * reshape(mask, Shape{mask.shape()[0], mask.shape()[1], 1});
    trial.graph.output("y", h);
    trial.expected.emplace_back("y", a.at("out0"));
    std::map<std::string, Tensor> gradients{{"x", a.at("dx")}};
    for (const auto& [name, parameter] : parameters) gradients[name] = parameter.gradient;
    trial.run({{h, a.at("gy")}}, gradients);
    trial.check();
  });
}

INSTANTIATE_TEST_SUITE_P(Recurrent, KerasMask,
                         testing::Values(MaskCase{"keras_lstm_mask", "lstm"}, MaskCase{"keras_lstm_last_mask", "lstm"},
                                         MaskCase{"keras_rnn_zero_mask", "lstm", true}, MaskCase{"keras_gru_after_mask", "gru"},
                                         MaskCase{"keras_gru_before_mask", "gru"}, MaskCase{"keras_rnn_mask", "rnn"}),
                         [](const auto& info) { return std::string(info.param.file); });

// Bidirectional sets zero_output_for_mask: masked steps are 0.
TEST(Recurrent, MaskedStepsOfBothDirectionsAreKeras) {
  PERIGEE_NEEDS_ORACLE("keras_bi_mask");
  in_both_dtypes("keras_bi_mask", [&](Arrays a, Trial& trial) {
    trial.tolerance = kPartlyFloat32;
    const Value x = trial.input("x", a.at("x")), mask = trial.input("mask", a.at("mask"));
    std::map<std::string, Tensor> gradients{{"x", a.at("dx")}};
    Value sides[2];
    for (const auto& [name, tensor] : a) {
      if (!name.ends_with("/kernel") || name.starts_with("d.")) continue;
      const bool backward = name.starts_with("backward");
      const std::string suffix = backward ? "_reverse" : "";
      const std::map<std::string, Parameter> parameters = from_keras(a, name.substr(0, name.size() - 6), suffix);
      for (const auto& [own, parameter] : parameters) gradients[own] = parameter.gradient;
      sides[backward] = run_op(trial, "lstm", x, suffix, {}, {}, mask, backward, parameters)[0];
    }
    const Value both = trial.graph.apply("concatenate", {sides[0], sides[1]}, Json(Json::Object{{"axis", Json(2)}}));
    const Value y = both * reshape(mask, Shape{mask.shape()[0], mask.shape()[1], 1});
    trial.graph.output("y", y);
    trial.expected.emplace_back("y", a.at("out0"));
    trial.run({{y, a.at("gy")}}, gradients);
    trial.check();
  });
}

// As Keras's Masking in front: steps that are nothing but the value are passed over.
class KerasMasking : public testing::TestWithParam<double> {};

TEST_P(KerasMasking, AgreesInLastStatesAndGradients) {
  PERIGEE_NEEDS_ORACLE("keras_lstm_last_mask");
  Arrays a = read("keras_lstm_last_mask");
  Tensor x = permuted(a.at("x"), {0, 2, 1}), dx = permuted(a.at("dx"), {0, 2, 1});
  const Tensor mask = a.at("mask").to(Dtype::f64);
  const int64_t features = x.shape()[1], steps = x.shape()[2];
  for (int64_t i = 0; i < x.elements(); ++i)
    if (mask.data<double>()[i / (features * steps) * steps + i % steps] == 0) x.data<double>()[i] = GetParam();
  const Json layer = Json::parse(R"({"type": "graph", "inputs": ["x"], "outputs": ["l"], "nodes": [
      {"name": "m", "layer": {"type": "mask"}, "inputs": ["x"]},
      {"name": "l", "layer": {"type": "lstm", "units": 5, "returns": "last"}, "inputs": ["m"]}]})",
                                 "test");
  Json with_value = layer;
  with_value.find("nodes")->as_array()[0].find("layer")->set("value", GetParam());
  for (const auto& [name, tensor] : a)
    if (name.ends_with("/kernel") && !name.starts_with("d."))
      check_layer(with_value.dump(), {{"x", x}}, from_keras(a, name.substr(0, name.size() - 6), ""), {{a.at("out0"), a.at("gy")}},
                  {{"x", dx}}, kPartlyFloat32);
}

INSTANTIATE_TEST_SUITE_P(Recurrent, KerasMasking, testing::Values(0, -1.5));

}  // namespace
}  // namespace perigee
