#include "tests/nn/recurrent_oracle.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "src/graph/autodiff.h"
#include "src/graph/plan.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/nn/network.h"
#include "tests/graph/interpreter.h"

namespace perigee::oracle {
namespace {

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

}  // namespace

std::string path_of(const std::string& name) {
  const char* folder = std::getenv("PERIGEE_DATA");
  return std::string(folder ? folder : "$PERIGEE_DATA") + "/oracles/sequences/" + name + ".npz";
}

bool is_there(const std::string& name) { return std::filesystem::exists(path_of(name)); }

Arrays read(const std::string& name) {
  const std::string path = path_of(name);
  Arrays arrays;
  for (auto& [key, tensor] : parse_npz(read_file(path), path))
    arrays[key] =
        tensor.dtype() == Dtype::f32 || tensor.dtype() == Dtype::boolean || tensor.dtype() == Dtype::i64 ? tensor.to(Dtype::f64) : tensor;
  return arrays;
}

Tensor permuted(const Tensor& x, const std::vector<int>& order) {
  View view = x.view(), turned = view;
  for (int i = 0; i < view.rank; ++i) {
    turned.dims[i] = view.dims[order[static_cast<size_t>(i)]];
    turned.strides[i] = view.strides[order[static_cast<size_t>(i)]];
  }
  return contiguous_copy(turned);
}

Tensor blocks(const Tensor& x, const std::vector<int64_t>& order) {
  const int64_t columns = x.shape().at(-1), size = columns / static_cast<int64_t>(order.size()), rows = x.elements() / columns;
  Tensor result = x.clone();
  for (int64_t r = 0; r < rows; ++r)
    for (size_t b = 0; b < order.size(); ++b)
      std::copy_n(x.data<double>() + r * columns + order[b] * size, size,
                  result.data<double>() + r * columns + static_cast<int64_t>(b) * size);
  return result;
}

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

Tensor row_of(const Tensor& states, int64_t i) {
  const Shape shape{states.shape()[1], states.shape()[2]};
  return part(states, i * shape.elements(), shape);
}

Value Trial::input(const std::string& name, const Tensor& values) {
  leaves[name] = values.to(dtype);
  return graph.input(name, {dtype, values.shape()});
}

void Trial::run(const std::vector<std::pair<Value, Tensor>>& results, const Arrays& gradients_of) {
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

void Trial::check() {
  if (dtype == Dtype::f64) {
    Interpreter interpreter(graph);
    interpreter.run(leaves);
    std::map<std::string, Value> outputs;
    for (const NamedValue& output : graph.outputs()) outputs[output.name] = Value(&graph, output.value);
    for (const auto& [name, truth] : expected) expect_close(interpreter[outputs.at(name)], truth, tolerance, name);
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

void check_layer(const std::string& layer, const std::vector<std::pair<std::string, Tensor>>& inputs,
                 const std::map<std::string, Parameter>& parameters, const std::vector<std::pair<Tensor, Tensor>>& outputs,
                 const Arrays& input_gradients, double tolerance) {
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
    Arrays gradients = input_gradients;
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

std::vector<Value> run_op(Trial& trial, const std::string& cell, Value x, const std::string& suffix, Value h0, Value c0, Value mask,
                          bool reverse, const std::map<std::string, Parameter>& parameters) {
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

}  // namespace perigee::oracle
