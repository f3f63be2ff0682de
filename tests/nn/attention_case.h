// A network of one layer that attends, with inputs and parameters, and what a peer says that it gives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/graph/plan.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/nn/network.h"
#include "tests/nn/gradients.h"

namespace perigee::attention_case {

using Arrays = std::map<std::string, Tensor>;

// [B, T, C] -> [B, C, T].
inline Tensor features_first(const Tensor& x) {
  const int64_t n = x.shape()[0], rows = x.shape()[1], columns = x.shape()[2];
  const Tensor wide = x.to(Dtype::f64);
  Tensor y(Dtype::f64, Shape{n, columns, rows});
  for (int64_t i = 0; i < n * rows * columns; ++i)
    y.data<double>()[(i / columns / rows * columns + i % columns) * rows + i / columns % rows] = wide.data<double>()[i];
  return y;
}

// [rows, columns] -> [columns, rows].
inline Tensor transposed(const Tensor& x) {
  const Tensor y = features_first(x.reshape(Shape{1, x.shape()[0], x.shape()[1]}));
  return y.reshape(Shape{x.shape()[1], x.shape()[0]});
}

// Part `i` of `count` equal parts of the first dimension.
inline Tensor part(const Tensor& x, int64_t i, int64_t count) {
  const Tensor wide = x.to(Dtype::f64);
  const Shape shape = x.shape().with(0, x.shape()[0] / count);
  Tensor y(Dtype::f64, shape);
  std::copy_n(wide.data<double>() + i * shape.elements(), shape.elements(), y.data<double>());
  return y;
}

inline void expect_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const Tensor a = got.to(Dtype::f64), b = expected.to(Dtype::f64);
  double largest = 1e-3;
  for (int64_t i = 0; i < b.elements(); ++i) largest = std::max(largest, std::abs(b.data<double>()[i]));
  for (int64_t i = 0; i < b.elements(); ++i)
    ASSERT_NEAR(a.data<double>()[i], b.data<double>()[i], tolerance * largest) << what << ", element " << i;
}

struct Case {
  std::string layers;
  std::vector<std::pair<std::string, Tensor>> inputs;      // [B, C, T], or [B, T] of numbers
  Tensor mask;                                             // [B, T], 1 where a step of the last input counts
  std::vector<std::pair<std::string, Tensor>> parameters;  // of layer names
  Tensor y, gy;                                            // [B, C, T]
  Arrays gradients;                                        // by the names above
  Tensor compared;                                         // [B, T], 1 where y is compared; undefined: everywhere
  double tolerance = 1e-10;                                // of float64, as a share of the largest value
};

inline BuiltNetwork build_attention(Graph& graph, const Case& c, Dtype dtype, int64_t batch) {
  std::vector<NetworkInput> inputs;
  for (const auto& [name, tensor] : c.inputs) {
    std::vector<int64_t> dims = tensor.shape().vector();
    dims.erase(dims.begin());
    inputs.push_back({name, {tensor.dtype() == Dtype::i64 ? Dtype::i64 : dtype, Shape(dims)}});
  }
  if (c.mask.defined()) inputs.push_back({"mask", {Dtype::i64, Shape{c.mask.shape()[1]}}, FieldRole::mask, c.inputs.back().first});
  return Network(Json::parse(c.layers, "test"), "net.json").build(graph, inputs, {.batch = batch, .training = true, .dtype = dtype});
}

inline Arrays leaves_of(const Case& c, Dtype dtype) {
  Arrays leaves;
  for (const auto* list : {&c.inputs, &c.parameters})
    for (const auto& [name, tensor] : *list) leaves[name] = tensor.dtype() == Dtype::i64 ? tensor : tensor.to(dtype);
  if (c.mask.defined()) leaves["mask"] = c.mask.to(Dtype::i64);
  return leaves;
}

inline Tensor only_compared(const Tensor& y, const Case& c) {
  Tensor kept = y.to(Dtype::f64).clone();
  if (!c.compared.defined()) return kept;
  const Tensor steps = c.compared.to(Dtype::f64);
  const int64_t columns = y.shape()[1], rows = y.shape()[2];
  for (int64_t i = 0; i < y.elements(); ++i)  // what a peer gives elsewhere may be no number
    if (steps.data<double>()[i / rows / columns * rows + i % rows] == 0) kept.data<double>()[i] = 0;
  return kept;
}

inline void check_wide(const Case& c) {
  Graph graph;
  const BuiltNetwork network = build_attention(graph, c, Dtype::f64, c.y.shape()[0]);
  Arrays leaves = leaves_of(c, Dtype::f64);
  EXPECT_EQ(network.parameters.size(), c.parameters.size());
  const Value y = network.outputs.at(0);
  std::vector<Value> flows;
  std::vector<std::string> names;
  if (c.gy.defined()) {
    std::vector<Value> targets;
    for (const auto& [name, expected] : c.gradients) {
      names.push_back(name);
      const bool input = std::any_of(c.inputs.begin(), c.inputs.end(), [&name = name](const auto& in) { return in.first == name; });
      targets.push_back(input ? graph.input(name, {Dtype::f64, expected.shape()}) : graph.parameter(name, {Dtype::f64, expected.shape()}));
    }
    leaves["gy"] = c.gy;
    const Value root = reduce_sum(y * graph.input("gy", y.type()), {0, 1, 2});
    flows = gradients(graph, root, graph.constant(1, root.type()), targets);
  }
  Interpreter interpreter(graph);
  interpreter.run(leaves);
  expect_close(only_compared(interpreter[y], c), only_compared(c.y, c), c.tolerance, "y");
  for (size_t i = 0; i < flows.size(); ++i)
    expect_close(interpreter[flows[i]], c.gradients.at(names[i]), c.tolerance, "gradient of " + names[i]);
}

inline void check_host(const Case& c) {
  Graph graph;
  const BuiltNetwork network = build_attention(graph, c, Dtype::f32, c.y.shape()[0]);
  graph.output("y", network.outputs.at(0));
  const Arrays leaves = leaves_of(c, Dtype::f32);
  const auto plan = Plan::compile(graph, {});
  Storage arena(plan->arena_bytes());
  std::vector<void*> parameters;
  for (const std::string& name : plan->parameters()) parameters.push_back(leaves.at(name).view().data);
  PlanRun run(plan, {arena.data(), parameters, {}, {}});
  for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), leaves.at(plan->inputs()[i]).view().data);
  run.pack();
  run.run(nullptr, StepInfo{.training = true});
  expect_close(only_compared(contiguous_copy(run.output("y")), c), only_compared(c.y, c), 1e-5, "y in f32");
}

inline void check(const Case& c) {
  check_wide(c);
  check_host(c);
}

inline Tensor inverted(const Tensor& mask) {
  Tensor kept = mask.to(Dtype::f64).clone();
  for (int64_t i = 0; i < kept.elements(); ++i) kept.data<double>()[i] = 1 - kept.data<double>()[i];
  return kept;
}

// The path of a file of $PERIGEE_DATA/oracles/sequences; empty: it is not there.
inline std::string oracle_path(const std::string& file) {
  const char* data = std::getenv("PERIGEE_DATA");
  const std::string path = std::string(data != nullptr ? data : "") + "/oracles/sequences/" + file;
  return std::filesystem::exists(path) ? path : "";
}

inline Arrays oracle(const std::string& path) {
  Arrays arrays;
  for (auto& [name, tensor] : parse_npz(read_file(path), path)) arrays[name] = tensor;
  return arrays;
}

#define PERIGEE_ORACLE(arrays, name)                                                                                 \
  if (oracle_path(name ".npz").empty()) GTEST_SKIP() << "$PERIGEE_DATA/oracles/sequences/" name ".npz is not there"; \
  const Arrays arrays = oracle(oracle_path(name ".npz"))

// Rows one after another.
inline Tensor joined(std::initializer_list<const Tensor*> parts) {
  std::vector<double> values;
  std::vector<int64_t> dims = (*parts.begin())->shape().vector();
  for (const Tensor* x : parts) values.insert(values.end(), x->data<double>(), x->data<double>() + x->elements());
  dims[0] *= static_cast<int64_t>(parts.size());
  return Tensor::from(Shape(dims), values);
}

}  // namespace perigee::attention_case
