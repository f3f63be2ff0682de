#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

const Option kRmspropOptions[] = {{"lr", "number or schedule", "0.1", "learning rate", {0, 1e9}},
                                  {"decay", "number or schedule", "0.95", "share of the mean square that is kept", {0, 1}},
                                  {"epsilon", "number or schedule", "1e-08", "added to the root", {0, 1}}};
const char* const kRmspropSlots[] = {"square"};

void prepare_rmsprop(const RuleStep& step, UpdateParams* out) {
  out->lr = step.option[0];
  out->c[0] = step.option[1];
  out->c[1] = 1 - step.option[1];
  out->c[2] = step.option[2];
}

}  // namespace

extern const OptimizerDef optimizer_rmsprop;
const OptimizerDef optimizer_rmsprop{
    .name = "rmsprop",
    .doc = "p -= lr g / (sqrt(mean of g^2) + epsilon) (Hinton 2012), with Deeplearning4j's defaults.",
    .example = R"({"type": "rmsprop", "lr": 0.01})",
    .schema = rated_schema(kRmspropOptions),
    .kernel = "update_rmsprop",
    .slots = kRmspropSlots,
    .prepare = prepare_rmsprop,
};

}  // namespace perigee
