// Deeplearning4j's Nesterovs: the learning rate is inside the velocity. The same as sgd with nesterov while the rate is constant.
#include "src/optim/optimizer_def.h"

namespace perigee {
namespace {

const Option kNesterovOptions[] = {{"lr", "number or schedule", "0.1", "learning rate", {0, 1e9}},
                                   {"momentum", "number or schedule", "0.9", "share of the velocity that is kept", {0, 1}}};
const char* const kNesterovSlots[] = {"velocity"};

void prepare_nesterov(const RuleStep& step, UpdateParams* out) {
  out->lr = step.option[0];
  out->c[0] = step.option[1];
  out->c[1] = 1 + step.option[1];
}

}  // namespace

extern const OptimizerDef optimizer_nesterov;
const OptimizerDef optimizer_nesterov{
    .name = "nesterov",
    .doc = "v' = momentum v - lr g; p += (1 + momentum) v' - momentum v (Sutskever et al. 2013, as in Deeplearning4j).",
    .example = R"({"type": "nesterov", "lr": 0.1, "momentum": 0.9})",
    .schema = rated_schema(kNesterovOptions),
    .kernel = "update_nesterov",
    .slots = kNesterovSlots,
    .prepare = prepare_nesterov,
};

}  // namespace perigee
