// Recurrent layers and ops against outputs and gradients of PyTorch and Keras: $PERIGEE_DATA/oracles/sequences. In float64 by the reference
// kernels to 1e-10, in float32 by the plan's kernels to 1e-5.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>

#include "src/graph/autodiff.h"
#include "src/graph/passes/simplify.h"
#include "src/graph/plan.h"
#include "src/io/npy.h"
#include "src/nn/network.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

using Arrays = std::map<std::string, Tensor>;

Tensor permuted(const Tensor& x, const std::vector<int>& order) {
  View view = x.view(), turned = view;
  for (int i = 0; i < view.rank; ++i) {
    turned.dims[i] = view.dims[order[static_cast<size_t>(i)]];
    turned.strides[i] = view.strides[order[static_cast<size_t>(i)]];
  }
  return contiguous_copy(turned);
}

// Blocks of `size` along the last dimension in another order.
Tensor blocks(const Tensor& x, const std::vector<int64_t>& order) {
  const int64_t columns = x.shape().at(-1), size = columns / static_cast<int64_t>(order.size()), rows = x.elements() / columns;
  Tensor result = x.clone();
  for (int64_t r = 0; r < rows; ++r)
    for (size_t b = 0; b < order.size(); ++b)
      std::copy_n(x.data<double>() + r * columns + order[b] * size, size,
                  result.data<double>() + r * columns + static_cast<int64_t>(b) * size);
  return result;
}

// Elements [first, first + shape's) in memory order.
Tensor part(const Tensor& x, int64_t first, const Shape& shape) {
  Tensor result(Dtype::f64, shape);
  std::copy_n(x.data<double>() + first, shape.elements(), result.data<double>());
  return result;
}

Tensor plus(const Tensor& a, const Tensor& b) {
  Tensor sum = a.clone();
  for (int64_t i = 0; i < sum.elements(); ++i) sum.data<double>()[i] += b.data<double>()[i];
  return sum;
}

Arrays read(const std::string& name) {
  const char* folder = std::getenv("PERIGEE_DATA");
  const std::string path = std::string(folder ? folder : "") + "/oracles/sequences/" + name + ".npz";
  Arrays arrays;
  for (auto& [key, tensor] : parse_npz(read_file(path), path))
    arrays[key] =
        tensor.dtype() == Dtype::f32 || tensor.dtype() == Dtype::boolean || tensor.dtype() == Dtype::i64 ? tensor.to(Dtype::f64) : tensor;
  return arrays;
}

// Not every copy of the data has all of them.
bool has_oracle(const std::string& name) {
  const char* folder = std::getenv("PERIGEE_DATA");
  return folder != nullptr && std::filesystem::exists(std::string(folder) + "/oracles/sequences/" + name + ".npz");
}

void expect_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.shape().text(), expected.shape().text()) << what;
  double largest = 1, error = 0;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double truth = load_as<double>(expected.view(), i), value = load_as<double>(got.view(), i);
    largest = std::max(largest, std::abs(truth));
    error = std::isnan(value) ? HUGE_VAL : std::max(error, std::abs(value - truth));
  }
  EXPECT_LE(error, tolerance * largest) << what;
}

// A function of named leaves: its results, each times a given gradient, are summed up and differentiated.
struct Trial {
  Graph graph;
  Arrays leaves;
  Dtype dtype = Dtype::f64;
  double tolerance = 1e-10;  // in f64
  std::vector<std::pair<std::string, Tensor>> expected;

  Value input(const std::string& name, const Tensor& values) {
    leaves[name] = values.to(dtype);
    return graph.input(name, {dtype, values.shape()});
  }

  void run(const std::vector<std::pair<Value, Tensor>>& results, const std::map<std::string, Tensor>& gradients_of) {
    Value root;
    for (size_t i = 0; i < results.size(); ++i) {
      const auto& [value, gradient] = results[i];
      const Value weight = input("weight of result " + std::to_string(i), gradient);
      std::vector<int64_t> axes;
      for (int d = 0; d < value.rank(); ++d) axes.push_back(d);
      const Value sum = reduce_sum(value * weight, axes);
      root = root ? root + sum : sum;
    }
    std::vector<Value> targets;
    for (const auto& [name, truth] : gradients_of)
      for (const Leaf& leaf : graph.leaves())
        if (leaf.name == name) targets.push_back(Value(&graph, leaf.value));
    ASSERT_EQ(targets.size(), gradients_of.size());
    const std::vector<Value> flows = gradients(graph, root, graph.constant(1, root.type()), targets);
    size_t k = 0;
    for (const auto& [name, truth] : gradients_of) {
      ASSERT_TRUE(flows[k]) << name;
      graph.output("d." + name, flows[k++]);
      expected.emplace_back("d." + name, truth);
    }
  }

  void check() {
    if (dtype == Dtype::f64) {
      Interpreter interpreter(graph);
      interpreter.run(leaves);
      for (const auto& [name, truth] : expected)
        for (const NamedValue& output : graph.outputs())
          if (output.name == name) expect_close(interpreter[Value(&graph, output.value)], truth, tolerance, name);
      return;
    }
    const auto plan = Plan::compile(graph, {});
    Storage arena(plan->arena_bytes());
    std::memset(arena.data(), 0xff, arena.bytes());
    std::vector<void*> parameters;
    for (const std::string& name : plan->parameters()) parameters.push_back(leaves.at(name).view().data);
    PlanRun run(plan, {arena.data(), parameters, {}, {}});
    for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), leaves.at(plan->inputs()[i]).view().data);
    run.pack();
    run.run(nullptr, StepInfo{});
    for (const auto& [name, truth] : expected) expect_close(contiguous_copy(run.output(name)), truth, 1e-5, name);
  }
};

// --- layers ---

struct Parameter {
  Tensor value, gradient;
};

// A layer on a sequence [N, features, T] and its first states.
void check_layer(const std::string& layer, const std::vector<std::pair<std::string, Tensor>>& inputs,
                 const std::map<std::string, Parameter>& parameters, const std::vector<std::pair<Tensor, Tensor>>& outputs,
                 const std::map<std::string, Tensor>& input_gradients, double tolerance = 1e-10) {
  for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
    SCOPED_TRACE(layer + (dtype == Dtype::f32 ? " in f32" : ""));
    Trial trial;
    trial.dtype = dtype;
    trial.tolerance = tolerance;
    std::vector<NetworkInput> network_inputs;
    for (const auto& [name, values] : inputs) {
      std::vector<int64_t> dims = values.shape().vector();
      dims.erase(dims.begin());
      network_inputs.push_back({name, {dtype, Shape(dims)}});
      trial.leaves[name] = values.to(dtype);
    }
    const Json description = Json::parse(layer, "test");
    const BuiltNetwork net =
        Network(description.find("outputs") ? description : Json(Json::Array{description}), "test")
            .build(trial.graph, network_inputs, {.batch = inputs[0].second.shape()[0], .training = true, .dtype = dtype});
    std::map<std::string, Tensor> gradients = input_gradients;
    ASSERT_EQ(net.parameters.size(), parameters.size());
    for (const ParameterSpec& spec : net.parameters) {
      const std::string own = parameters.contains(spec.name) ? spec.name : spec.name.substr(spec.name.find('.') + 1);
      ASSERT_TRUE(parameters.contains(own)) << own;
      ASSERT_EQ(spec.shape.text(), parameters.at(own).value.shape().text()) << own;
      trial.leaves[spec.name] = parameters.at(own).value.to(dtype);
      gradients[spec.name] = parameters.at(own).gradient;
    }
    ASSERT_EQ(net.outputs.size(), outputs.size());
    std::vector<std::pair<Value, Tensor>> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      trial.graph.output("result" + std::to_string(i), net.outputs[i]);
      trial.expected.emplace_back("result" + std::to_string(i), outputs[i].first);
      if (outputs[i].second.defined()) results.emplace_back(net.outputs[i], outputs[i].second);
    }
    trial.run(results, gradients);
    trial.check();
  }
}

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

Tensor row_of(const Tensor& states, int64_t i) {
  const Shape shape{states.shape()[1], states.shape()[2]};
  return part(states, i * shape.elements(), shape);
}

void check_torch(const std::string& file, const std::string& layer) {
  if (!has_oracle(file)) return;
  SCOPED_TRACE(file);
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
  check_layer(layer, inputs, from_torch(a, "_l0", "", file == "gru"), outputs, gradients);
}

TEST(Recurrent, LayersAgreeWithPyTorch) {
  if (!has_oracle("lstm")) GTEST_SKIP() << "PERIGEE_DATA has no oracles";
  check_torch("lstm", R"({"type": "lstm", "units": 5, "returns": "both"})");
  check_torch("lstm_nobias", R"({"type": "lstm", "units": 5, "returns": "both", "bias": false})");
  check_torch("gru", R"({"type": "gru", "units": 5, "returns": "both"})");
  check_torch("rnn_tanh", R"({"type": "rnn", "units": 5, "returns": "both"})");
  check_torch("rnn_relu", R"({"type": "rnn", "units": 5, "returns": "both", "activation": "relu"})");
}

TEST(Recurrent, ProjectedStatesAgreeWithPyTorch) {
  if (!has_oracle("lstm_proj")) GTEST_SKIP() << "PERIGEE_DATA has no oracles";
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

void check_keras(const std::string& file, const std::string& layer, bool turned = false) {
  if (!has_oracle(file)) return;
  SCOPED_TRACE(file);
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
  check_layer(layer, {{"x", permuted(a.at("x"), {0, 2, 1})}}, parameters, {{sequence(a.at("out0")), sequence(a.at("gy"))}},
              {{"x", permuted(a.at("dx"), {0, 2, 1})}}, kPartlyFloat32);
}

TEST(Recurrent, LayersAgreeWithKeras) {
  if (!has_oracle("lstm")) GTEST_SKIP() << "PERIGEE_DATA has no oracles";
  check_keras("keras_lstm", R"({"type": "lstm", "units": 5})");
  check_keras("keras_lstm_last", R"({"type": "lstm", "units": 5, "returns": "last"})");
  check_keras("keras_lstm_hard", R"({"type": "lstm", "units": 5, "gate_activation": "hard_sigmoid6"})");
  check_keras("keras_lstm_backwards", R"({"type": "lstm", "units": 5, "reverse": true})", true);
  check_keras("keras_gru_after", R"({"type": "gru", "units": 5})");
  check_keras("keras_gru_before", R"({"type": "gru", "units": 5, "reset": "before"})");
  check_keras("keras_rnn", R"({"type": "rnn", "units": 5})");
  for (const auto& [how, ours] : {std::pair{"concat", "concat"}, {"sum", "sum"}, {"mul", "multiply"}, {"ave", "mean"}})
    check_keras(std::string("keras_bi_") + how, std::string(R"({"type": "lstm", "units": 5, "bidirectional": ")") + ours + "\"}");
  check_keras("keras_bi_last", R"({"type": "lstm", "units": 5, "bidirectional": "concat", "returns": "last"})");
}

// Step by step where an activation has options: the same numbers.
TEST(Recurrent, StepsAgreeWithKeras) {
  if (!has_oracle("lstm")) GTEST_SKIP() << "PERIGEE_DATA has no oracles";
  check_keras("keras_lstm", R"({"type": "lstm", "units": 5, "activation": {"type": "tanh"}})");
  check_keras("keras_gru_after", R"({"type": "gru", "units": 5, "activation": {"type": "tanh"}})");
  check_keras("keras_gru_before", R"({"type": "gru", "units": 5, "reset": "before", "activation": {"type": "tanh"}})");
  check_keras("keras_rnn", R"({"type": "rnn", "units": 5, "activation": {"type": "tanh"}})");
  check_keras("keras_bi_concat", R"({"type": "lstm", "units": 5, "bidirectional": "concat", "activation": {"type": "tanh"}})");
}

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
      Arrays leaves{{"x", case_values(real(net.inputs[0].shape()), true, random)}};
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

// --- ops, with masks ---

// One direction; `p` are the parameters' leaves.
std::vector<Value> run_op(Trial& trial, const std::string& cell, Value x, const std::string& suffix, Value h0, Value c0, Value mask,
                          bool reverse, std::map<std::string, Parameter>& parameters) {
  const auto leaf = [&](const std::string& name) { return trial.input(name + suffix, parameters.at(name + suffix).value); };
  const Value z = trial.graph.apply("linear", {x, leaf("weight"), leaf("bias")});
  Json attrs(Json::Object{{"reverse", Json(reverse)}});
  if (cell == "lstm") {
    const Value operands[] = {z, leaf("recurrent"), h0, c0, mask};
    return trial.graph.apply_all("lstm", operands, attrs);
  }
  if (cell != "gru") {
    const Value operands[] = {z, leaf("recurrent"), h0, mask};
    return trial.graph.apply_all("rnn", operands, attrs);
  }
  const bool after = parameters.contains("bias_recurrent" + suffix);
  attrs.set("reset", after ? "after" : "before");
  const Value operands[] = {z, leaf("recurrent"), after ? leaf("bias_recurrent") : Value(), h0, mask};
  return trial.graph.apply_all("gru", operands, attrs);
}

Value step(Value h, int64_t t) {
  Json attrs = Json::object();
  const int64_t start[] = {0, t, 0}, stop[] = {h.shape()[0], t + 1, h.shape()[2]};
  attrs.set("start", ints_json(start));
  attrs.set("stop", ints_json(stop));
  return reshape(h.graph().apply("slice", {h}, attrs), Shape{h.shape()[0], h.shape()[2]});
}

// Masked steps keep the state and repeat it, as Keras has it.
void check_keras_mask(const std::string& file, const std::string& cell, bool zero) {
  if (!has_oracle(file)) return;
  for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
    SCOPED_TRACE(file);
    Arrays a = read(file);
    Trial trial;
    trial.dtype = dtype;
    trial.tolerance = kPartlyFloat32;
    std::map<std::string, Parameter> parameters;
    for (const auto& [name, tensor] : a)
      if (name.ends_with("/kernel") && !name.starts_with("d.")) parameters = from_keras(a, name.substr(0, name.size() - 6), "");
    const Value x = trial.input("x", a.at("x")), mask = trial.input("mask", a.at("mask"));
    Value h = run_op(trial, cell, x, "", {}, {}, mask, false, parameters)[0];
    if (a.at("out0").shape().rank() == 2) h = step(h, h.shape()[1] - 1);
    if (zero) h = h * reshape(mask, Shape{mask.shape()[0], mask.shape()[1], 1});
    trial.graph.output("y", h);
    trial.expected.emplace_back("y", a.at("out0"));
    std::map<std::string, Tensor> gradients{{"x", a.at("dx")}};
    for (const auto& [name, parameter] : parameters) gradients[name] = parameter.gradient;
    trial.run({{h, a.at("gy")}}, gradients);
    trial.check();
  }
}

TEST(Recurrent, MaskedStepsAgreeWithKeras) {
  if (!has_oracle("lstm")) GTEST_SKIP() << "PERIGEE_DATA has no oracles";
  check_keras_mask("keras_lstm_mask", "lstm", false);
  check_keras_mask("keras_lstm_last_mask", "lstm", false);
  check_keras_mask("keras_rnn_zero_mask", "lstm", true);
  check_keras_mask("keras_gru_after_mask", "gru", false);
  check_keras_mask("keras_gru_before_mask", "gru", false);
  check_keras_mask("keras_rnn_mask", "rnn", false);
}

// Stacks in both directions with first states and lengths: PyTorch's packed sequences.
void check_packed(const std::string& file, const std::string& cell, int64_t layers) {
  if (!has_oracle(file)) return;
  for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
    SCOPED_TRACE(file + (dtype == Dtype::f32 ? " in f32" : ""));
    Arrays a = read(file);
    Trial trial;
    trial.dtype = dtype;
    const auto by_example = [](const Tensor& x) { return permuted(x, {1, 0, 2}); };
    Value x = trial.input("x", by_example(a.at("x")));
    const int64_t n = x.shape()[0], t = x.shape()[1];
    Tensor counts(Dtype::f64, Shape{n, t});
    for (int64_t i = 0; i < n * t; ++i) counts.data<double>()[i] = static_cast<double>(i % t) < a.at("lengths").data<double>()[i / t];
    const Value mask = trial.input("mask", counts);
    std::map<std::string, Tensor> gradients{{"x", by_example(a.at("dx"))}};
    std::vector<std::pair<Value, Tensor>> results;
    for (int64_t layer = 0; layer < layers; ++layer) {
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
  }
}

TEST(Recurrent, PackedStacksAgreeWithPyTorch) {
  if (!has_oracle("lstm")) GTEST_SKIP() << "PERIGEE_DATA has no oracles";
  check_packed("lstm_2bi_lengths", "lstm", 2);
  check_packed("gru_2bi_lengths", "gru", 2);
  check_packed("rnn_bi_lengths", "rnn", 1);
}

}  // namespace
}  // namespace perigee
