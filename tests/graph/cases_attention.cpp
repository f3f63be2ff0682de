// Cases of attention: heads in groups, masks, positions; sizes at and around the tiles of kernels.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

struct Sizes {
  int64_t n, queries, keys, heads, groups, features, values;
};

std::vector<CaseOperand> operands(const Sizes& s) {
  return {real({s.n, s.queries, s.heads, s.features}), real({s.n, s.keys, s.groups, s.features}), real({s.n, s.keys, s.groups, s.values})};
}

void add_both(Cases& cases, const Sizes& s, std::vector<CaseOperand> inputs, const std::string& attrs, bool gradient) {
  OpCase& forward = cases.add("attention", inputs, attrs);
  forward.differentiable_outputs = 1;
  forward.gradient = gradient;
  const CaseOperand result = real({s.n, s.queries, s.heads, s.values});
  inputs.resize(4, absent());
  inputs.insert(inputs.begin(), result);
  inputs.push_back(real({s.n, s.queries, s.heads, s.values}, -1, 1));
  inputs.push_back(fixed({s.n, s.heads, s.queries}, 2, 4));
  cases.add("attention_grad", std::move(inputs), attrs);
}

void separate(Cases& cases, const Sizes& s, const std::string& attrs, bool masked = false, bool gradient = true) {
  std::vector<CaseOperand> inputs = operands(s);
  if (masked) inputs.push_back(fixed({s.n, s.keys}, -1, 1));
  add_both(cases, s, std::move(inputs), attrs, gradient);
}

void packed(Cases& cases, const Sizes& s, const std::string& attrs, bool masked, bool gradient = true) {
  std::vector<CaseOperand> inputs{real({s.n, s.queries, s.heads + 2 * s.groups, s.features})};
  if (masked) inputs.insert(inputs.end(), {absent(), absent(), fixed({s.n, s.keys}, -1, 1)});
  else inputs.insert(inputs.end(), {absent(), absent()});
  add_both(cases, s, std::move(inputs), R"({"kv_heads":)" + std::to_string(s.groups) + (attrs.empty() ? "}" : "," + attrs + "}"), gradient);
}

// Several sequences in a row, the first steps of none: as one operand, and as three.
void rows_of_sequences(Cases& cases, const Sizes& s, const std::string& attrs, bool gradient = true) {
  const CaseOperand mask = runs({s.n, s.keys}, 0, 2 + static_cast<double>(s.keys) / 5);
  const std::string more = R"("segments":true)" + (attrs.empty() ? "" : "," + attrs);
  add_both(cases, s, {real({s.n, s.queries, s.heads + 2 * s.groups, s.features}), absent(), absent(), mask},
           R"({"kv_heads":)" + std::to_string(s.groups) + "," + more + "}", gradient);
  std::vector<CaseOperand> inputs = operands(s);
  inputs.push_back(mask);
  add_both(cases, s, std::move(inputs), "{" + more + "}", gradient);
}

void make(Cases& cases) {
  const int64_t n = cases.pick(1, 2), a = cases.pick(1, 6), b = cases.pick(2, 9), d = cases.pick(1, 5), v = cases.pick(1, 4);
  const Sizes cross{n, a, b, 4, 2, d, v}, self{n, b, b, 2, 2, d, d}, grouped{n, b, b, 3, 1, d, d};
  separate(cases, cross, "");
  separate(cases, cross, R"({"scale":0.3,"causal":"upper_left"})");
  separate(cases, cross, R"({"causal":"lower_right"})", true);
  separate(cases, cross, R"({"window":2,"causal":"lower_right","alibi":true})");
  separate(cases, cross, R"({"window":3})", true);
  separate(cases, cross, R"({"dropout":0.4,"stream":3})");
  packed(cases, self, R"("causal":"upper_left")", false);
  packed(cases, self, R"("alibi":true)", true);
  packed(cases, grouped, R"("causal":"upper_left","window":2)", true);
  packed(cases, grouped, R"("dropout":0.3,"causal":"upper_left")", false);
  rows_of_sequences(cases, self, "");
  rows_of_sequences(cases, grouped, R"("causal":"upper_left","window":3)");
  rows_of_sequences(cases, self, R"("causal":"upper_left","dropout":0.3,"alibi":true)");
  rows_of_sequences(cases, {2, 34, 34, 2, 1, 24, 24}, R"("causal":"upper_left")", false);
  rows_of_sequences(cases, {1, 400, 400, 1, 1, 16, 16}, "", false);
  rows_of_sequences(cases, {1, 150, 150, 2, 2, 17, 17}, R"("window":30)", false);
  // Whole tiles of kernels, and a little more.
  packed(cases, {1, 34, 34, 2, 2, 32, 32}, R"("causal":"upper_left")", false, false);
  packed(cases, {1, 40, 40, 2, 1, 24, 24}, R"("causal":"upper_left","window":20)", true, false);
  separate(cases, {1, 3, 150, 2, 2, 64, 40}, R"({"causal":"lower_right","dropout":0.2})", false, false);
  separate(cases, {1, 150, 3, 2, 1, 17, 33}, R"({"alibi":true})", true, false);
  separate(cases, {1, 20, 420, 1, 1, 16, 16}, R"({"causal":"lower_right"})", false, false);
  separate(cases, {1, 2, 5, 2, 1, 130, 70}, "", false, false);
  // Scores as large as those of a trained network; half of the rows' largest score comes late.
  OpCase& sharp = cases.add("attention", {real({1, 2, 1, 8}, -30, 30), real({1, 400, 1, 8}, -30, 30), real({1, 400, 1, 8})});
  sharp.gradient = false;
}

}  // namespace

extern const CaseFamily cases_attention;
const CaseFamily cases_attention = {"attention", make};

}  // namespace perigee
