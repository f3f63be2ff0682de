// Contributions left out of an average, and the stop of a run that diverges.
#include "cluster/policy/policy_axes.h"

namespace perigee {
namespace {

std::vector<Option> guard_options() {
  return {{"outlier",
           "number",
           "100",
           "a contribution that changes the parameters so many times as much as the median is left out; 0: none is",
           {0, 1e9}},
          {"guard", "boolean", "true", "a run that diverges is stopped, with the reason"}};
}

void read_guard(const Config& config, const PolicyDef&, Policy* policy) {
  policy->guard.outlier = config.number_in("outlier", 0, 1e9, policy->guard.outlier);
  if (policy->guard.outlier > 0 && policy->guard.outlier < 1.5)
    config.fail("outlier", "leaves out what is as it should be", std::to_string(policy->guard.outlier), "0, or at least 1.5");
  policy->guard.divergence = config.boolean("guard");
}

void write_guard(const Policy& policy, Json* json) {
  if (policy.what != Policy::What::parameters) return;
  json->set("outlier", policy.guard.outlier);
  json->set("guard", policy.guard.divergence);
}

void describe_guard(const Policy& policy, Json* told) {
  if (policy.what != Policy::What::parameters || policy.served || policy.guard.outlier == 0) return;
  told->set("guard", Json::Object{{"outlier", policy.guard.outlier}, {"divergence", policy.guard.divergence}});
}

}  // namespace

extern const PolicyAxis guard_axis;
const PolicyAxis guard_axis = {.applies = [](const PolicyDef& def) { return def.what == Policy::What::parameters; },
                               .options = guard_options,
                               .read = read_guard,
                               .write = write_guard,
                               .describe = describe_guard};

}  // namespace perigee
