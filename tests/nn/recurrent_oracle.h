// Recurrent layers and ops beside the outputs and gradients that PyTorch and Keras computed: $PERIGEE_DATA/oracles/sequences. In float64 by the
// reference kernels to 1e-10, in float32 by the plan's kernels to 1e-5.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/graph/build.h"
#include "src/tensor/tensor.h"

namespace perigee::oracle {

using Arrays = std::map<std::string, Tensor>;

// The arrays of a file, numbers as f64. Not every copy of the data has all files: a test of one that is not there is skipped and names it.
std::string path_of(const std::string& name);
bool is_there(const std::string& name);
Arrays read(const std::string& name);
#define PERIGEE_NEEDS_ORACLE(name) \
  if (!oracle::is_there(name)) GTEST_SKIP() << oracle::path_of(name) << " is not there"

Tensor permuted(const Tensor& x, const std::vector<int>& order);
// Blocks of equal size along the last dimension in another order.
Tensor blocks(const Tensor& x, const std::vector<int64_t>& order);
// Elements [first, first + shape's) in memory order.
Tensor part(const Tensor& x, int64_t first, const Shape& shape);
Tensor plus(const Tensor& a, const Tensor& b);
Tensor row_of(const Tensor& states, int64_t i);  // [i] of [layers, N, units]

// A function of named leaves: its results, each times a given gradient, are summed up and differentiated.
struct Trial {
  Graph graph;
  Arrays leaves;
  Dtype dtype = Dtype::f64;
  double tolerance = 1e-10;                              // in f64
  std::vector<std::pair<std::string, Tensor>> expected;  // of the graph's outputs

  Value input(const std::string& name, const Tensor& values);
  // Appends the gradients of the leaves that `gradients_of` names, and expects them.
  void run(const std::vector<std::pair<Value, Tensor>>& results, const Arrays& gradients_of);
  void check();
};

struct Parameter {
  Tensor value, gradient;
};

// `check(arrays of the file, trial)` in float64 and in float32.
template <class Check>
void in_both_dtypes(const std::string& file, Check&& check) {
  for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
    SCOPED_TRACE(dtype == Dtype::f32 ? "f32" : "f64");
    Trial trial;
    trial.dtype = dtype;
    check(read(file), trial);
  }
}

// A layer on a sequence [N, features, T] and its first states. `outputs`: values and the gradients that flow to them.
void check_layer(const std::string& layer, const std::vector<std::pair<std::string, Tensor>>& inputs,
                 const std::map<std::string, Parameter>& parameters, const std::vector<std::pair<Tensor, Tensor>>& outputs,
                 const Arrays& input_gradients, double tolerance = 1e-10);

// The results of the op of a cell in one direction; the names of `parameters` end with `suffix`. Absent: h0, c0, mask.
std::vector<Value> run_op(Trial& trial, const std::string& cell, Value x, const std::string& suffix, Value h0, Value c0, Value mask,
                          bool reverse, const std::map<std::string, Parameter>& parameters);
Value step(Value h, int64_t t);  // [N, units] of [N, T, units]

// For names of tests.
struct LayerCase {
  const char* file;
  const char* layer;
  const char* name = nullptr;  // instead of the file's
};
inline std::string case_name(const testing::TestParamInfo<LayerCase>& info) { return info.param.name ? info.param.name : info.param.file; }

}  // namespace perigee::oracle
