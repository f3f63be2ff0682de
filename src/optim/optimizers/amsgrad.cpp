#include "src/optim/adam_options.h"

namespace perigee {
namespace {

const char* const kAmsgradSlots[] = {"m", "v", "v_max"};

}  // namespace

extern const OptimizerDef optimizer_amsgrad;
const OptimizerDef optimizer_amsgrad{
    .name = "amsgrad",
    .doc = "Adam with the largest mean square so far (Reddi et al. 2018).",
    .example = R"({"type": "amsgrad", "lr": 0.001})",
    .schema = rated_schema(kAdamOptions),
    .kernel = "update_amsgrad",
    .slots = kAmsgradSlots,
    .prepare = prepare_adam,
};

}  // namespace perigee
