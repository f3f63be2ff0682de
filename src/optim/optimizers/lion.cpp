#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

const Option kLionOptions[] = {
    {"lr", "number or schedule", "0.0001", "learning rate", {0, 1e9}},
    {"beta1", "number or schedule", "0.9", "weight of the momentum in the direction", {0, 1}},
    {"beta2", "number or schedule", "0.99", "share of the momentum that is kept", {0, 1}},
    {"weight_decay", "number or schedule", "0", "share of each weight taken away per unit of learning rate", {0, 1e9}},
    {"decay_bias", "boolean", "false", "decay biases and gains too"}};
const char* const kLionSlots[] = {"m"};

void prepare_lion(const RuleStep& step, UpdateParams* out) {
  out->lr = step.option[0];
  out->c[0] = step.option[1];
  out->c[1] = 1 - step.option[1];
  out->c[2] = step.option[2];
  out->c[3] = 1 - step.option[2];
  if (step.role == ParamRole::weight || step.flag[0]) out->decay = step.option[0] * step.option[3];
}

}  // namespace

extern const OptimizerDef optimizer_lion;
const OptimizerDef optimizer_lion{
    .name = "lion",
    .doc = "p -= lr sign(beta1 m + (1 - beta1) g) with decoupled weight decay (Chen et al. 2023).",
    .example = R"({"type": "lion", "lr": 0.0001, "weight_decay": 0.1})",
    .schema = rated_schema(kLionOptions),
    .kernel = "update_lion",
    .slots = kLionSlots,
    .prepare = prepare_lion,
};

}  // namespace perigee
