#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

const Option kSgdOptions[] = {{"lr", "number or schedule", "0.001", "learning rate", {0, 1e9}},
                              {"momentum", "number or schedule", "0", "share of the velocity that is kept", {0, 1}},
                              {"nesterov", "boolean", "false", "look ahead along the velocity"}};
const char* const kSgdSlots[] = {"velocity"};

void prepare_sgd(const RuleStep& step, UpdateParams* out) {
  out->lr = step.option[0];
  out->c[0] = step.option[1];
  out->c[1] = step.flag[0] ? 1 : 0;
}

}  // namespace

extern const OptimizerDef optimizer_sgd;
const OptimizerDef optimizer_sgd{
    .name = "sgd",
    .doc = "p -= lr v with v = momentum v + g, as PyTorch has it; nesterov: p -= lr (g + momentum v).",
    .example = R"({"type": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": true})",
    .schema = rated_schema(kSgdOptions),
    .kernel = "update_momentum",
    .slots = kSgdSlots,
    .prepare = prepare_sgd,
    .stateless_option = "momentum",
    .stateless_kernel = "update_sgd",
};

}  // namespace perigee
