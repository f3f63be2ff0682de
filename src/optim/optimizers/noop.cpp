#include "src/optim/optimizer_def.h"

namespace perigee {

extern const OptimizerDef optimizer_noop;
const OptimizerDef optimizer_noop{
    .name = "noop",
    .doc = "Leaves the parameters as they are.",
    .example = R"({"type": "noop"})",
    .kernel = "update_noop",
    .prepare = [](const RuleStep&, UpdateParams*) {},
};

}  // namespace perigee
