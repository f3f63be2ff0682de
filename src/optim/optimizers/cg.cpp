#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

constexpr Option kCgOptions[] = {
    {"line_search",
     "name",
     "strong_wolfe",
     "strong_wolfe, or backtracking until the loss falls enough",
     {},
     {"strong_wolfe", "backtracking"}},
    {"decrease", "number", "0.0001", "of the loss, as a share of what the slope promises, that is enough", {0, 0.5}},
    {"curvature", "number", "0.4", "the slope along the line falls to less than this share", {0, 1}},
    {"evaluations", "integer", "100", "of the loss in one search, at most", {1, 1000}},
};

}  // namespace

extern const OptimizerDef optimizer_cg;
const OptimizerDef optimizer_cg{
    .name = "cg",
    .doc =
        "Nonlinear conjugate gradients (Polak and Ribière, never negative): each step searches along a line, with several evaluations of "
        "one batch.",
    .example = R"({"type": "cg"})",
    .schema = {.options = kCgOptions},
    .kernel = "update_noop",
    .prepare = [](const RuleStep&, UpdateParams*) {},
    .minimizes = true,
};

}  // namespace perigee
