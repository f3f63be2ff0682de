#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

const RuleOption kOptions[] = {{"lr", 1e-4, 0, 1e9, "learning rate"},
                               {"beta1", 0.9, 0, 1, "weight of the momentum in the direction"},
                               {"beta2", 0.99, 0, 1, "share of the momentum that is kept"},
                               {"weight_decay", 0, 0, 1e9, "share of each weight taken away per unit of learning rate"}};
const RuleFlag kFlags[] = {{"decay_bias", false, "decay biases and gains too"}};
const char* const kSlots[] = {"m"};

void prepare(const RuleStep& step, UpdateParams* out) {
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
    .options = kOptions,
    .flags = kFlags,
    .kernel = "update_lion",
    .slots = kSlots,
    .prepare = prepare,
};

}  // namespace perigee
