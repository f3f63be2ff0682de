// A loop over the steps of sequences as one op, `scan`. Its body is a graph that computes one step:
//
//     leaves of the body       inputs c0, c1, ... the carried values before the step          [N, ...]
//                              inputs x0, x1, ... the step's part of the sequences            [N, ...] of [N, T, ...]
//                              inputs f0, f1, ... values by example that all steps share      [N, ...]
//                              parameters w0, ... values that all examples and steps share
//     outputs of the body      c0, c1, ... the carried values after the step
//                              y0, y1, ... the step's part of the results                     [N, ...] of [N, T, ...]
//                              s0, s1, ... values that are summed over the steps
//
// The node's operands are the first carried values, the sequences, the f and the w; its results the last carried values, the y and the s, and
// the carried values before each step [N, T, ...], which the gradient begins with: that is a scan too, in the other direction, which computes
// each step once more, but for what is among the results. So memory grows with the carried values alone, and a gradient can be differentiated again. Kernels of a CPU run the
// body as a plan of its own, step after step; for a device, passes/unroll_scan.h writes the steps out.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/graph/graph.h"

namespace perigee {

// The operands and results of a scan, in this order.
struct ScanLayout {
  int carries = 0, steps = 0, fixed = 0, weights = 0;  // operands; the results begin with the carries
  int results = 0, sums = 0;                           // and end with the carries before each step
  int64_t length = 0;                                  // T
  bool reverse = false;                                // from the last step to the first

  int operand_of_step(int i) const { return carries + i; }
  int operand_of_fixed(int i) const { return carries + steps + i; }
  int operand_of_weight(int i) const { return carries + steps + fixed + i; }
  int result(int i) const { return carries + i; }
  int sum(int i) const { return carries + results + i; }
  int before(int i) const { return carries + results + sums + i; }
  int outputs() const { return 2 * carries + results + sums; }
};
ScanLayout scan_layout(const Json& attrs, const Graph& body, size_t operands);

// The body's leaf or output of a name ("c0"); node -1 when it has none.
ValueId body_leaf(const Graph& body, const std::string& name);
ValueId body_output(const Graph& body, const std::string& name);

struct ScanOperands {
  std::vector<Value> carries;  // before the first step; one value for all examples will do
  std::vector<Value> steps;    // [N, T, ...]
  int64_t length = 0;          // T, where there are no sequences
  bool reverse = false;
  int64_t recompute = 0;  // keep the carried values of each so-many-th step alone and compute those between once more; 0: keep all
  bool keep = false;      // keep whatever the gradient reads of the steps, too, so that it computes nothing once more
};
struct ScanStep {
  std::vector<Value> carries, results;
};
struct ScanResults {
  std::vector<Value> carries;  // after the last step
  std::vector<Value> results;  // [N, T, ...]
};

// The body of a scan while it grows: the values of one step, and those of the graph around it as values of the body.
class ScanBody {
 public:
  ScanBody(Graph& outer, const ScanOperands& operands);
  Graph& graph() { return *body_; }
  const std::vector<Value>& carries() const { return carries_; }
  const std::vector<Value>& steps() const { return steps_; }
  // A value of the outer graph, the same in each step.
  Value outside(Value value);
  // Appends the loop. Numbers that a step draws for its examples are drawn outside, for all steps at once: they are the same wherever a step is
  // computed again. Error(model) when what is carried changes its type, or when the body draws numbers that examples share.
  ScanResults finish(const ScanStep& step);

 private:
  void check(const ScanStep& step) const;

  Graph& outer_;
  ScanOperands operands_;
  std::shared_ptr<Graph> body_;
  std::vector<Value> carries_, steps_;
  std::vector<Value> fixed_, weights_;  // of the outer graph
  std::vector<std::pair<ValueId, Value>> known_;
};

}  // namespace perigee
