// The messages between ranks, and the deadlines of waits.
#include "cluster/policy/policy_axes.h"

namespace perigee {
namespace {

std::vector<Option> exchange_options() {
  return {{"shards",
           "integer",
           "0",
           "parts of a batch whose gradients are summed in a fixed tree: the same bits for any number of workers",
           {0, 1024}},
          {"topology",
           "topology",
           "auto",
           "who sends what to whom: auto, star, ring, tree, direct or hierarchical",
           {},
           {"auto", "star", "ring", "tree", "direct", "hierarchical"}},
          {"deadline_ms", "number", "60000", "of any wait in a round; who lets it pass is replaced", {100, 1e7}}};
}

void read_exchange(const Config& config, const PolicyDef&, Policy* policy) {
  policy->topology = config.choice("topology");
  policy->deadline_ms = config.number("deadline_ms");
  if (policy->grace_ms > policy->deadline_ms)
    config.fail("grace_ms", "is longer than 'deadline_ms'", std::to_string(policy->grace_ms),
                "at most " + std::to_string(policy->deadline_ms));
  policy->shards = config.integer("shards");
}

void write_exchange(const Policy& policy, Json* json) {
  json->set("shards", policy.shards);
  json->set("topology", policy.topology);
  json->set("deadline_ms", policy.deadline_ms);
}

void describe_exchange(const Policy& policy, Json* told) { told->set("topology", policy.topology); }

}  // namespace

extern const PolicyAxis exchange_axis;
const PolicyAxis exchange_axis = {.applies = [](const PolicyDef&) { return true; },
                                  .options = exchange_options,
                                  .read = read_exchange,
                                  .write = write_exchange,
                                  .describe = describe_exchange};

}  // namespace perigee
