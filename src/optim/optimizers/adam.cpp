#include "src/optim/adam_options.h"

namespace perigee {
namespace {

const char* const kAdamSlots[] = {"m", "v"};

}  // namespace

extern const OptimizerDef optimizer_adam;
const OptimizerDef optimizer_adam{
    .name = "adam",
    .doc = "Kingma and Ba (2015): steps of mean over root mean square, both corrected for their start at zero.",
    .example = R"({"type": "adam", "lr": 0.001})",
    .schema = rated_schema(kAdamOptions),
    .kernel = "update_adam",
    .slots = kAdamSlots,
    .prepare = prepare_adam,
};

}  // namespace perigee
