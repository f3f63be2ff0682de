// Cases of the normalisations: batch, layer, local response.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

void batch_norm(Cases& cases) {
  for (int layout = 0; layout < 3; ++layout) {
    const int64_t n = cases.pick(3, 9), c = cases.pick(1, 37);
    const Shape x = layout == 0   ? Shape{n, c}
                    : layout == 1 ? Shape{n, c, cases.pick(1, 6), cases.pick(2, 7)}
                                  : Shape{n, c, cases.pick(2, 9)};
    const Shape v{c};
    const auto add = [&](std::vector<CaseOperand> inputs, const char* attrs) {
      cases.add("batch_norm", std::move(inputs), attrs).differentiable_outputs = 1;
    };
    add({real(x), real(v, 0.5, 1.5), real(v)}, R"({"epsilon":1e-3})");
    add({real(x), real(v, 0.5, 1.5), real(v)}, R"({"activation":"relu"})");
    add({real(x), real(v, 0.5, 1.5), real(v), real(x)}, R"({"activation":"relu"})");
    add({real(x), absent(), real(v), real(x)}, "");
    add({real(x), real(v, -1.5, -0.5)}, "");
    add({real(x)}, R"({"activation":"relu"})");
    const CaseOperand y = fixed(x, -1, 1), mean = fixed(v, -0.5, 0.5), variance = fixed(v, 0.5, 2);
    cases.add("batch_norm_grad", {real(x), real(x), absent(), real(v, 0.5, 1.5), real(v), mean, variance}, R"({"activation":"relu"})");
    cases.add("batch_norm_grad", {real(x), real(x), y, real(v, 0.5, 1.5), absent(), mean, variance},
              R"({"activation":"relu","residual":true})");
    cases.add("batch_norm_grad", {real(x), real(x), absent(), absent(), absent(), mean, variance});
  }
  // The channels of real networks: one vector, several, and more than a register holds.
  for (const int64_t c : {16, 64, 80})
    cases.add("batch_norm", {real({2, c, 9, 5}), real({c}), real({c})}, R"({"activation":"relu"})").gradient = false;
  for (const int64_t c : {8, 24, 264}) {
    const Shape x{3, c, 5, 3}, v{c};
    const CaseOperand y = fixed(x, -1, 1), mean = fixed(v, -0.5, 0.5), variance = fixed(v, 0.5, 2);
    cases.add("batch_norm", {real(x), real(v), real(v), real(x)}, R"({"activation":"relu"})").gradient = false;
    cases.add("batch_norm_grad", {real(x), real(x), absent(), real(v, 0.5, 1.5), real(v), mean, variance}, R"({"activation":"relu"})");
    cases.add("batch_norm_grad", {real(x), real(x), y, real(v, 0.5, 1.5), absent(), mean, variance},
              R"({"activation":"relu","residual":true})");
  }
}

void layer_norm(Cases& cases) {
  const int64_t n = cases.pick(1, 6), k = cases.pick(2, 70);
  for (const Shape& x : {Shape{n, k}, Shape{n, cases.pick(1, 4), k}}) {
    cases.add("layer_norm", {real(x), real({k}, 0.5, 1.5), real({k})}, R"({"epsilon":1e-3})").differentiable_outputs = 1;
    cases.add("layer_norm", {real(x)}).differentiable_outputs = 1;
    cases.add("layer_norm", {real(x), absent(), real({k})}).differentiable_outputs = 1;
    cases.add("layer_norm", {real(x), real({k}, 0.5, 1.5)}, R"({"centre":false})").differentiable_outputs = 1;
    std::vector<int64_t> dims = x.vector();
    dims.pop_back();
    const CaseOperand mean = fixed(Shape(dims), -0.5, 0.5), inverse = fixed(Shape(dims), 0.5, 2);
    cases.add("layer_norm_grad", {real(x), real(x), real({k}), mean, inverse});
    cases.add("layer_norm_grad", {real(x), real(x), absent(), mean, inverse});
    cases.add("layer_norm_grad", {real(x), real(x), real({k}), mean, inverse}, R"({"centre":false})");
    cases.add("layer_norm_grad_params", {real(x), real(x), mean, inverse});
  }
}

void lrn(Cases& cases) {
  const Shape x{cases.pick(1, 3), cases.pick(1, 21), cases.pick(1, 5), cases.pick(1, 5)};
  cases.add("lrn", {real(x)}, R"({"size":5,"alpha":0.3,"beta":0.75,"k":2})");
  cases.add("lrn", {real(x)}, R"({"size":3,"alpha":0.7,"beta":0.4,"k":1})");
  cases.add("lrn", {real(x)}, R"({"size":4,"alpha":0.2,"beta":0.5})");
  cases.add("lrn_grad", {real(x), real(x)}, R"({"size":5,"alpha":0.3,"beta":0.75})");
}

void make(Cases& cases) {
  batch_norm(cases);
  layer_norm(cases);
  lrn(cases);
}

}  // namespace

extern const CaseFamily cases_norm;
const CaseFamily cases_norm = {"norm", make};

}  // namespace perigee
