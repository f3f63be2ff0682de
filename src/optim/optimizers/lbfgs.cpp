#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

constexpr Option kLbfgsOptions[] = {
    {"history", "integer", "10", "steps that it looks back at", {1, 100}},
    {"line_search",
     "name",
     "strong_wolfe",
     "strong_wolfe, or backtracking until the loss falls enough",
     {},
     {"strong_wolfe", "backtracking"}},
    {"decrease", "number", "0.001", "of the loss, as a share of what the slope promises, that is enough", {0, 0.5}},
    {"curvature", "number", "0.9", "the slope along the line falls to less than this share", {0, 1}},
    {"evaluations", "integer", "20", "of the loss in one search, at most", {1, 1000}},
};

}  // namespace

extern const OptimizerDef optimizer_lbfgs;
const OptimizerDef optimizer_lbfgs{
    .name = "lbfgs",
    .doc =
        "Limited-memory BFGS: each step looks back at the last ones for the curvature and searches along a line, with several evaluations "
        "of one batch.",
    .example = R"({"type": "lbfgs"})",
    .schema = {.options = kLbfgsOptions},
    .kernel = "update_noop",
    .prepare = [](const RuleStep&, UpdateParams*) {},
    .minimizes = true,
};

}  // namespace perigee
