#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

const RuleOption kOptions[] = {{"lr", 1, 0, 1e9, "factor on the step"},
                               {"rho", 0.95, 0, 1, "share of the means that is kept"},
                               {"epsilon", 1e-6, 0, 1, "added to both means"}};
const char* const kSlots[] = {"square", "delta"};

void prepare(const RuleStep& step, UpdateParams* out) {
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
    .options = kOptions,
    .kernel = "update_adadelta",
    .slots = kSlots,
    .prepare = prepare,
};

}  // namespace perigee
