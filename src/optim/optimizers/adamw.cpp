#include "src/optim/adam_options.h"

namespace perigee {
namespace {

const Option kAdamwOptions[] = {
    kAdamOptions[0],
    kAdamOptions[1],
    kAdamOptions[2],
    kAdamOptions[3],
    {"weight_decay", "number or schedule", "0.01", "share of each weight taken away per unit of learning rate", {0, 1e9}},
    {"decay_bias", "boolean", "false", "decay biases and gains too"}};
const char* const kAdamwSlots[] = {"m", "v"};

void prepare_adamw(const RuleStep& step, UpdateParams* out) {
  prepare_adam(step, out);
  if (step.role == ParamRole::weight || step.flag[0]) out->decay = step.option[0] * step.option[4];
}

}  // namespace

extern const OptimizerDef optimizer_adamw;
const OptimizerDef optimizer_adamw{
    .name = "adamw",
    .doc = "Adam with decoupled weight decay: p -= lr weight_decay p beside Adam's step (Loshchilov and Hutter 2019).",
    .example = R"({"type": "adamw", "lr": 0.001, "weight_decay": 0.01})",
    .schema = rated_schema(kAdamwOptions),
    .kernel = "update_adam",
    .slots = kAdamwSlots,
    .prepare = prepare_adamw,
};

}  // namespace perigee
