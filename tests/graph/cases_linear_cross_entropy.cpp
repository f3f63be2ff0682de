// Cases of a classifier's head as one op.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

void make(Cases& cases) {
  struct Sizes {
    int64_t rows, classes, inputs;
  };
  const Sizes drawn{cases.pick(1, 9), cases.pick(2, 32), 4 * cases.pick(1, 40)};
  for (const Sizes s : {drawn, {1, 2, 1}, {7, 10, 37}, {33, 32, 4}, {3, 10, 500}, {2, 17, 1036}}) {
    const CaseOperand x = real({s.rows, s.inputs}), weight = real({s.classes, s.inputs}, -0.3, 0.3), label = index({s.rows}, s.classes),
                      flow = real({s.rows}), bias = real({s.classes});
    cases.add("linear_cross_entropy", {x, weight, label, flow, bias}, R"({"activation":"relu"})");
    cases.add("linear_cross_entropy", {x, weight, label, flow}, R"({"label_smoothing":0.1})");
  }
  // Classes that do not exist; logits whose exponentials overflow.
  cases.add("linear_cross_entropy", {real({6, 8}), real({3, 8}), integers(Dtype::i64, {6}, -2, 5), real({6}), real({3})});
  cases.add("linear_cross_entropy", {real({5, 8}, -60, 60), real({4, 8}), index({5}, 4), real({5}), absent()}, R"({"activation":"relu"})");
}

}  // namespace

extern const CaseFamily cases_linear_cross_entropy;
const CaseFamily cases_linear_cross_entropy = {"linear_cross_entropy", make};

}  // namespace perigee
