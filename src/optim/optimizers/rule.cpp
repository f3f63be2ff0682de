#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

constexpr Option kRuleOptions[] = {
    {"lr", "number or schedule", "0.001", "learning rate, which the rule finds as now.lr", {0, 1e30}},
    {"state", "{name: number, ...}", "none", "up to three numbers that the rule keeps for each element, and what they begin with"},
    {"program", "list of {op, in, out, attrs}", nullptr,
     "arithmetic on parameter, gradient, states, lr, t, step, epoch and progress, in order"},
    {"outputs", "{name: text, ...}", nullptr, "the values that the parameter and the states become"},
};

}  // namespace

extern const OptimizerDef optimizer_rule;
const OptimizerDef optimizer_rule{
    .name = "rule",
    .doc = "A rule of one's own, traced once: update = function(p, g, s, now) s.m = 0.9 * s.m + g; return p - now.lr * s.m end.",
    .example = R"({"type": "rule", "lr": 0.1, "state": {"m": 0}, "program": [{"op": "mul", "in": [0.9, "m"], "out": "t1"},
      {"op": "add", "in": ["t1", "gradient"], "out": "t2"}, {"op": "mul", "in": ["lr", "t2"], "out": "t3"},
      {"op": "sub", "in": ["parameter", "t3"], "out": "t4"}], "outputs": {"parameter": "t4", "m": "t2"}})",
    .schema = rated_schema(kRuleOptions),
    .kernel = "fused",
    .programmed = true,
};

}  // namespace perigee
