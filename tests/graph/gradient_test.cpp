// Every differentiable op, by enumeration: its VJP against central differences, in float64 with the reference kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "tests/graph/cases.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

constexpr int kSeeds = 3;
constexpr int kProbes = 10;  // elements of each operand that are moved
constexpr double kStep = 1e-5;

bool is_leaf(const OpDef& op) { return op.max_inputs == 0 && !op.params; }

// sum(weights * op(operands)) as a graph, with its gradients.
class Probe {
 public:
  Probe(const OpCase& tested, uint64_t seed) : random_(seed) {
    std::vector<Value> operands;
    for (size_t i = 0; i < tested.inputs.size(); ++i) {
      const CaseOperand& operand = tested.inputs[i];
      if (!operand.present) {
        operands.emplace_back();
        continue;
      }
      const std::string name = "x" + std::to_string(i);
      leaves_[name] = case_values(operand, true, random_);
      operands.push_back(graph_.input(name, {leaves_[name].dtype(), operand.type.shape}));
      if (!operand.gradient || leaves_[name].dtype() != Dtype::f64) continue;
      names_.push_back(name);
      targets_.push_back(operands.back());
    }
    for (const Value& output : graph_.apply_all(tested.op, operands, tested.attrs)) {
      if (output.dtype() != Dtype::f64 || output.id().output >= static_cast<int>(tested.differentiable_outputs)) continue;
      const std::string name = "w" + std::to_string(leaves_.size());
      leaves_[name] = case_values(real(output.shape(), -1, 1), true, random_);
      const Value weight = graph_.input(name, output.type());
      std::vector<int64_t> axes;
      for (int d = 0; d < output.rank(); ++d) axes.push_back(d);
      const Value sum = reduce_sum(output * weight, axes);
      root_ = root_ ? root_ + sum : sum;
    }
    if (root_) gradients_ = gradients(graph_, root_, graph_.constant(1, root_.type()), targets_);
  }

  void check(const OpCase& tested) {
    if (!root_) return;
    Interpreter interpreter(graph_);
    interpreter.step.training = true;
    interpreter.run(leaves_);
    std::vector<Tensor> analytic;
    for (const Value& gradient : gradients_) analytic.push_back(gradient ? interpreter[gradient].clone() : Tensor());
    for (size_t k = 0; k < targets_.size(); ++k) {
      const int64_t n = leaves_[names_[k]].elements();
      double largest = 0;
      for (int64_t i = 0; analytic[k].defined() && i < n; ++i) largest = std::max(largest, std::abs(analytic[k].data<double>()[i]));
      for (int probe = 0; probe < std::min<int64_t>(kProbes, n); ++probe) {
        const int64_t i = n <= kProbes ? probe : std::uniform_int_distribution<int64_t>(0, n - 1)(random_);
        const double numeric = difference(interpreter, names_[k], i);
        const double got = analytic[k].defined() ? analytic[k].data<double>()[i] : 0.0;
        const double scale = std::max({std::abs(numeric), std::abs(got), 0.1 * largest, 1e-4});
        ASSERT_LE(std::abs(numeric - got), tested.gradient_tolerance * scale)
            << tested.text() << ": operand " << k << ", element " << i << ": gradient " << got << ", finite difference " << numeric;
      }
    }
  }

 private:
  double value_at(Interpreter& interpreter) {
    interpreter.run(leaves_);
    return *interpreter[root_].data<double>();
  }

  // A fourth-order formula: its own error is far below the tolerance.
  double difference(Interpreter& interpreter, const std::string& name, int64_t i) {
    double& x = leaves_[name].data<double>()[i];
    const double middle = x, h = kStep * std::max(1.0, std::abs(middle));
    double f[4];
    const double at[4] = {-2, -1, 1, 2};
    for (int k = 0; k < 4; ++k) {
      x = middle + at[k] * h;
      f[k] = value_at(interpreter);
    }
    x = middle;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::map<std::string, Tensor> leaves_;
  std::vector<std::string> names_;
  std::vector<Value> targets_, gradients_;
  Value root_;
};

TEST(Gradient, OfEveryOpAgreesWithFiniteDifferences) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const OpCase& tested : all_cases(seed)) {
      if (!tested.gradient || !op_named(tested.op).vjp) continue;
      SCOPED_TRACE(tested.text());
      try {
        Probe(tested, seed).check(tested);
      } catch (const std::exception& error) {
        ADD_FAILURE() << tested.text() << ": " << error.what();
      }
    }
}

TEST(Gradient, EveryDifferentiableOpHasACheckedCase) {
  std::set<std::string> covered;
  for (const OpCase& tested : all_cases(0)) {
    bool differentiated = false;
    for (const CaseOperand& operand : tested.inputs)
      differentiated |= operand.present && operand.gradient && operand.type.dtype == Dtype::f32;
    if (tested.gradient && differentiated) covered.insert(tested.op);
  }
  for (const OpDef* op : all_ops()) {
    if (!op->vjp || op->loop) continue;  // loops: scan_test.cpp
    EXPECT_TRUE(covered.contains(op->name)) << op->name << " has a gradient but no case that checks it; see tests/graph/cases.h";
  }
}

TEST(Gradient, EveryOpHasCases) {
  std::set<std::string> covered;
  for (const OpCase& tested : all_cases(0)) covered.insert(tested.op);
  for (const OpDef* op : all_ops()) {
    if (is_leaf(*op) || op->loop) continue;
    EXPECT_TRUE(covered.contains(op->name)) << op->name << " has no cases; see tests/graph/cases.h";
  }
}

}  // namespace
}  // namespace perigee
