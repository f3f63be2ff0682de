#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

const Option kAdadeltaOptions[] = {{"lr", "number or schedule", "1", "factor on the step", {0, 1e9}},
                                   {"rho", "number or schedule", "0.95", "share of the means that is kept", {0, 1}},
                                   {"epsilon", "number or schedule", "1e-06", "added to both means", {0, 1}}};
const char* const kAdadeltaSlots[] = {"square", "delta"};

void prepare_adadelta(const RuleStep& step, UpdateParams* out) {
  out->lr = step.option[0];
  out->c[0] = step.option[1];
  out->c[1] = 1 - step.option[1];
  out->c[2] = step.option[2];
}

}  // namespace

extern const OptimizerDef optimizer_adadelta;
const OptimizerDef optimizer_adadelta{
    .name = "adadelta",
    .doc = "Steps of the size of past steps over past gradients (Zeiler 2012); needs no learning rate.",
    .example = R"({"type": "adadelta", "rho": 0.95})",
    .schema = rated_schema(kAdadeltaOptions),
    .kernel = "update_adadelta",
    .slots = kAdadeltaSlots,
    .prepare = prepare_adadelta,
};

}  // namespace perigee
