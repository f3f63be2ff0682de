// Dozat, "Incorporating Nesterov momentum into Adam" (2016), with a constant momentum.
#include "src/optim/adam_options.h"

namespace perigee {
namespace {

const char* const kNadamSlots[] = {"m", "v"};

void prepare_nadam(const RuleStep& step, UpdateParams* out) {
  prepare_adam(step, out);
  const double beta1 = step.option[1], t = static_cast<double>(step.t);
  out->lr = step.option[0];
  out->c[6] = beta1 < 1 ? beta1 / (1 - std::pow(beta1, t + 1)) : 1;
  out->c[7] = beta1 < 1 ? (1 - beta1) / (1 - std::pow(beta1, t)) : 0;
}

}  // namespace

extern const OptimizerDef optimizer_nadam;
const OptimizerDef optimizer_nadam{
    .name = "nadam",
    .doc = "Adam with Nesterov momentum (Dozat 2016).",
    .example = R"({"type": "nadam", "lr": 0.001})",
    .schema = rated_schema(kAdamOptions),
    .kernel = "update_nadam",
    .slots = kNadamSlots,
    .prepare = prepare_nadam,
};

}  // namespace perigee
