// How many local steps each worker makes before an average, where that follows the run.
#include <algorithm>
#include <cmath>

#include "cluster/policy/policy_axes.h"

namespace perigee {
namespace {

constexpr int64_t kFirstSteps = 16;  // of an automatic `every`, until something has been measured
constexpr int64_t kMostSteps = 4096, kUsualMost = 1000;

std::vector<Option> pace_options() {
  return {{"by_speed", "boolean", "false", "`every` is the fastest worker's; slower ones make fewer steps, so that no worker waits"},
          {"utilisation", "number", "0.8", "share of the time that is to go into training, with every = \"auto\"", {0.01, 0.999}},
          {"every_min", "integer", "1", "with every = \"auto\": at least so many steps", {1, 4096}},
          {"every_max", "integer", "1000", "with every = \"auto\": at most so many steps", {1, 4096}}};
}

void read_pace(const Config& config, const PolicyDef&, Policy* policy) {
  PaceOptions& pace = policy->pace;
  pace.by_speed = config.boolean("by_speed");
  if (pace.by_speed && policy->every_ms > 0)
    config.fail("by_speed", "has no effect with 'every_ms'", "", "every = 5, or another number of steps, in its place",
                "workers that stop after a time make steps by their speed anyway");
  if (pace.active() && (policy->partial() || policy->served || policy->inner.active()))
    config.fail(pace.automatic ? "every" : "by_speed", "follows rounds of all parameters", pace.automatic ? "\"auto\"" : "true",
                "no fragments, overlap, keep, layers, server or groups", "how long a round takes then says little of how often one is due");
  pace.utilisation = config.number("utilisation");
  pace.least = config.integer("every_min");
  pace.most = config.integer_in("every_max", pace.least, kMostSteps, std::max(pace.least, kUsualMost));
  if (!pace.automatic && (pace.utilisation != PaceOptions().utilisation || pace.least != 1 || pace.most != kUsualMost))
    config.fail(pace.least != 1           ? "every_min"
                : pace.most != kUsualMost ? "every_max"
                                          : "utilisation",
                "has no effect with a fixed 'every'", "", "every = \"auto\"");
  if (pace.automatic) policy->every = std::clamp(kFirstSteps, pace.least, pace.most);
}

void write_pace(const Policy& policy, Json* json) {
  if (policy.what != Policy::What::parameters) return;
  if (policy.pace.by_speed) json->set("by_speed", true);
  if (!policy.pace.automatic) return;
  json->set("utilisation", policy.pace.utilisation);
  json->set("every_min", policy.pace.least);
  json->set("every_max", policy.pace.most);
}

// After the rounds' axis, whose phrase it replaces or goes on with.
void describe_pace(const Policy& policy, Json* told) {
  std::string when = told->find("when")->as_string();
  if (policy.pace.automatic)
    when = "every " + std::to_string(policy.pace.least) + " to " + std::to_string(policy.pace.most) + " steps, so that " +
           std::to_string(std::lround(100 * policy.pace.utilisation)) + " % of the time goes into training";
  if (policy.pace.by_speed) when += " of the fastest worker, fewer of slower ones in proportion";
  told->set("when", when);
}

}  // namespace

extern const PolicyAxis pace_axis;
const PolicyAxis pace_axis = {.applies = [](const PolicyDef& def) { return def.what == Policy::What::parameters; },
                              .options = pace_options,
                              .read = read_pace,
                              .write = write_pace,
                              .describe = describe_pace};

}  // namespace perigee
