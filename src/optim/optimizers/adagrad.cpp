// Duchi et al. (2011), with Deeplearning4j's defaults. Its sum of squares begins at epsilon, not at zero, so that the first step of a
// parameter with a tiny gradient is not a whole learning rate.
#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

const Option kAdagradOptions[] = {{"lr", "number or schedule", "0.1", "learning rate", {0, 1e9}},
                                  {"epsilon", "number or schedule", "1e-06", "added to the root", {0, 1}},
                                  {"initial", "number or schedule", "1e-06", "first value of the sum of squares", {0, 1e9}}};
const char* const kAdagradSlots[] = {"sum"};

void prepare_adagrad(const RuleStep& step, UpdateParams* out) {
  out->lr = step.option[0];
  out->c[0] = step.option[1];
}

}  // namespace

extern const OptimizerDef optimizer_adagrad;
const OptimizerDef optimizer_adagrad{
    .name = "adagrad",
    .doc = "p -= lr g / (sqrt(sum of g^2) + epsilon) (Duchi et al. 2011).",
    .example = R"({"type": "adagrad", "lr": 0.1})",
    .schema = rated_schema(kAdagradOptions),
    .kernel = "update_adagrad",
    .slots = kAdagradSlots,
    .prepare = prepare_adagrad,
    .initial = [](const RuleStep& step, int) { return step.option[2]; },
};

}  // namespace perigee
