// Cases of the recurrent cells: both directions, with and without first states, masks with padding and with gaps, sizes that fill no vector.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

struct Operands {
  CaseOperand sequence(int64_t width) const { return real({n, t, width * h}, -1, 1); }
  CaseOperand given(int64_t width, double low, double high) const { return fixed({n, t, width * h}, low, high); }
  CaseOperand weight(int64_t gates) const { return real({h, gates * h}, -0.5, 0.5); }
  CaseOperand state() const { return real({n, h}, -1, 1); }
  // Steps from 1/2 on count.
  CaseOperand mask() const { return fixed({n, t}, 0, 1); }
  int64_t n, t, h;
};

void lstm(Cases& cases, const Operands& o, bool smooth) {
  const auto add = [&](const char* op, std::vector<CaseOperand> inputs, const char* attrs, size_t outputs) {
    OpCase& added = cases.add(op, std::move(inputs), attrs);
    added.differentiable_outputs = outputs;
    added.gradient = smooth;
  };
  add("lstm", {o.sequence(4), o.weight(4)}, "", 2);
  add("lstm", {o.sequence(4), o.weight(4), o.state(), o.state(), o.mask()}, R"({"reverse":true})", 2);
  add("lstm", {o.sequence(4), o.weight(4), absent(), o.state()}, "", 1);
  add("lstm", {o.sequence(4), o.weight(4), o.state(), absent(), o.mask()}, "", 2);
  const CaseOperand c = o.given(1, -1, 1), gates = o.given(4, 0, 1);
  cases.add("lstm_grad", {o.sequence(1), o.sequence(1), o.weight(4), c, gates, o.state(), o.mask()});
  cases.add("lstm_grad", {o.sequence(1), absent(), o.weight(4), c, gates}, R"({"reverse":true})");
  cases.add("lstm_grad", {absent(), o.sequence(1), o.weight(4), c, gates, absent(), o.mask()}, R"({"reverse":true})");
  cases.add("recurrent_grad_weight", {o.sequence(4), o.given(1, -1, 1), o.state()});
  cases.add("recurrent_grad_weight", {o.sequence(4), o.given(1, -1, 1)}, R"({"reverse":true})");
}

void gru(Cases& cases, const Operands& o, bool smooth) {
  const auto add = [&](std::vector<CaseOperand> inputs, const char* attrs) {
    OpCase& added = cases.add("gru", std::move(inputs), attrs);
    added.differentiable_outputs = 1;
    added.gradient = smooth;
  };
  const CaseOperand bias = real({o.h}, -1, 1);
  add({o.sequence(3), o.weight(3)}, "");
  add({o.sequence(3), o.weight(3), bias, o.state(), o.mask()}, R"({"reverse":true})");
  add({o.sequence(3), o.weight(3)}, R"({"reset":"before","reverse":true})");
  add({o.sequence(3), o.weight(3), absent(), o.state(), o.mask()}, R"({"reset":"before"})");
  const CaseOperand h = o.given(1, -1, 1), gates = o.given(4, 0, 1);
  cases.add("gru_grad", {o.sequence(1), o.weight(3), h, gates, o.state(), o.mask()});
  cases.add("gru_grad", {o.sequence(1), o.weight(3), h, gates, absent(), o.mask()}, R"({"reset":"before","reverse":true})");
  cases.add("gru_grad", {o.sequence(1), o.weight(3), h, gates}, R"({"reverse":true})");
  cases.add("recurrent_grad_weight", {o.sequence(4), h, o.state()}, R"({"reset":"after"})");
  cases.add("recurrent_grad_weight", {o.sequence(4), h, absent()}, R"({"reset":"after","reverse":true})");
  cases.add("recurrent_grad_weight", {o.sequence(4), h, o.state(), gates}, R"({"reset":"before","reverse":true})");
}

void rnn(Cases& cases, const Operands& o, bool smooth) {
  const auto add = [&](std::vector<CaseOperand> inputs, const char* attrs, bool gradient) {
    cases.add("rnn", std::move(inputs), attrs).gradient = gradient && smooth;
  };
  add({o.sequence(1), o.weight(1)}, "", true);
  add({o.sequence(1), o.weight(1), o.state(), o.mask()}, R"({"reverse":true})", true);
  add({o.sequence(1), o.weight(1), o.state()}, R"({"activation":"relu"})", true);
  add({o.sequence(1), o.weight(1), absent(), o.mask()}, R"({"activation":"relu","reverse":true})", true);
  const CaseOperand h = o.given(1, -1, 1);
  cases.add("rnn_grad", {o.sequence(1), o.weight(1), h, o.mask()});
  cases.add("rnn_grad", {o.sequence(1), o.weight(1), h}, R"({"reverse":true})");
  cases.add("rnn_grad", {o.sequence(1), o.weight(1), h, o.mask()}, R"({"activation":"relu"})");
  cases.add("recurrent_grad_weight", {o.sequence(1), h, o.state()}, R"({"reverse":true})");
}

void make(Cases& cases) {
  cases.add("fold_steps", {real({3, 2, 5})});
  cases.add("fold_steps", {real({1, 4})});
  // More rows than a block of them.
  cases.add("linear_grad_weight", {real({3, 200, 50}), real({3, 200, 20})}, R"({"bias":true})").gradient = false;
  cases.add("linear_grad_weight", {real({2, 150, 1024}), real({2, 150, 3})}, R"({"bias":true})").gradient = false;
  cases.add("linear_grad_weight", {real({9, 300}), real({9, 3})}, R"({"bias":true})").gradient = false;
  cases.add("unfold_steps", {real({6, 5})}, R"({"steps":3})");
  // A few odd sizes, then one step, one unit, and units that fill whole vectors and panels of them.
  const Operands sizes[] = {{cases.pick(1, 5), cases.pick(2, 5), cases.pick(2, 21)}, {2, 1, 1}, {9, 2, 64}};
  for (const Operands& o : sizes) {
    const bool smooth = o.h < 64;
    lstm(cases, o, smooth);
    gru(cases, o, smooth);
    rnn(cases, o, smooth);
  }
}

}  // namespace

extern const CaseFamily cases_recurrent;
const CaseFamily cases_recurrent = {"recurrent", make};

}  // namespace perigee
