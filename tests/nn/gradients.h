// A graph in float64 with a scalar at its end, checked against central differences: what layers and losses are tested with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "tests/graph/cases.h"
#include "tests/graph/interpreter.h"

namespace perigee {

// sum(values * random weights): a scalar whose gradient reaches every element.
inline Value weighted_total(Graph& graph, Value values, const std::string& name, std::map<std::string, Tensor>& leaves,
                            std::mt19937_64& random) {
  leaves[name] = case_values(real(values.shape(), -1, 1), true, random);
  std::vector<int64_t> axes;
  for (int d = 0; d < values.rank(); ++d) axes.push_back(d);
  return reduce_sum(values * graph.input(name, values.type()), axes);
}

// Compares d root / d target with finite differences of fourth order, at `probes` elements of each target.
inline void check_gradients(Graph& graph, Value root, const std::vector<std::string>& names, const std::vector<Value>& targets,
                            std::map<std::string, Tensor>& leaves, double tolerance = 1e-5, int probes = 8) {
  const std::vector<Value> flows = gradients(graph, root, graph.constant(1, root.type()), targets);
  Interpreter interpreter(graph);
  interpreter.step.training = true;
  interpreter.run(leaves);
  std::vector<Tensor> analytic;
  for (const Value& flow : flows) analytic.push_back(flow ? interpreter[flow].clone() : Tensor());
  std::mt19937_64 random(11);
  for (size_t k = 0; k < targets.size(); ++k) {
    const int64_t n = leaves[names[k]].elements();
    double largest = 0;
    for (int64_t i = 0; analytic[k].defined() && i < n; ++i) largest = std::max(largest, std::abs(analytic[k].data<double>()[i]));
    for (int probe = 0; probe < std::min<int64_t>(probes, n); ++probe) {
      const int64_t i = n <= probes ? probe : std::uniform_int_distribution<int64_t>(0, n - 1)(random);
      double& x = leaves[names[k]].data<double>()[i];
      const double middle = x, h = 1e-5 * std::max(1.0, std::abs(middle));
      double f[4];
      for (int p = 0; p < 4; ++p) {
        x = middle + (p < 2 ? p - 2 : p - 1) * h;
        interpreter.run(leaves);
        f[p] = *interpreter[root].data<double>();
      }
      x = middle;
      const double numeric = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
      const double got = analytic[k].defined() ? analytic[k].data<double>()[i] : 0.0;
      const double scale = std::max({std::abs(numeric), std::abs(got), 0.1 * largest, 1e-4});
      ASSERT_LE(std::abs(numeric - got), tolerance * scale)
          << names[k] << ", element " << i << ": gradient " << got << ", finite difference " << numeric;
    }
  }
}

}  // namespace perigee
