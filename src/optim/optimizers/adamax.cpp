#include "src/optim/adam_options.h"

namespace perigee {
namespace {

const char* const kAdamaxSlots[] = {"m", "u"};

}  // namespace

extern const OptimizerDef optimizer_adamax;
const OptimizerDef optimizer_adamax{
    .name = "adamax",
    .doc = "Adam with a decayed maximum in place of the mean square (Kingma and Ba 2015).",
    .example = R"({"type": "adamax", "lr": 0.002})",
    .schema = rated_schema(kAdamOptions),
    .kernel = "update_adamax",
    .slots = kAdamaxSlots,
    .prepare = prepare_adam,
};

}  // namespace perigee
