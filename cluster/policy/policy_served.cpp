// Whether workers average together, or each with a server by itself (asynchronous policies).
#include "cluster/codec/codec.h"
#include "cluster/policy/policy_axes.h"

namespace perigee {
namespace {

constexpr int64_t kServedStaleness = 64;  // unless the policy says something else: workers by the dozen are each as many rounds late

std::vector<Option> served_options() {
  return {{"synchrony",
           "name",
           "barrier",
           "barrier: workers average together; server: each by itself with a server, and none waits for others",
           {},
           {"barrier", "server"}},
          {"merge_every",
           "integer",
           "1",
           "with a server: contributions that it waits for before it makes the next parameters of them",
           {1, 4096}},
          {"merge",
           "name",
           "reset",
           "with a server: a worker takes the server's parameters over, or (elastic) moves its own against theirs",
           {},
           {"reset", "elastic"}}};
}

// Options that only rounds of all workers can have.
void refuse_barrier_options(const Config& config, const Policy& policy) {
  const auto refuse = [&](const char* name, const char* why) {
    config.fail(name, "has no effect with synchrony = \"server\"", "", "it left out", why);
  };
  if (policy.sync_until > 0) refuse("sync_until", "gradients are averaged by all workers together");
  if (policy.quorum < 1) refuse("quorum", "no worker waits for another");
  if (policy.partial()) refuse("fragments", "all parameters are pushed, and nothing waits");
  if (policy.average_optimizer) refuse("average_optimizer", "each worker keeps its optimiser's state");
  if (policy.shards > 0) refuse("shards", "there is no sum over workers");
  if (policy.topology != "auto" && policy.topology != "star") refuse("topology", "everybody talks to the server");
}

void read_served(const Config& config, const PolicyDef&, Policy* policy) {
  policy->served = config.choice("synchrony") == "server";
  policy->merge_every = config.integer("merge_every");
  policy->elastic = config.choice("merge") == "elastic";
  if (!policy->served) {
    for (const auto& [name, given] : {std::pair{"merge_every", policy->merge_every > 1}, {"merge", policy->elastic}})
      if (given) config.fail(name, "needs a server", "", "synchrony = \"server\"");
    return;
  }
  refuse_barrier_options(config, *policy);
  if (!config.has("max_staleness")) policy->max_staleness = kServedStaleness;
  if (policy->elastic && policy->coded())
    config.fail("codec", "does not fit merge = \"elastic\"", "", "fp32", "parameters are sent, of which nothing may be lost");
  if (policy->elastic && policy->merge_every > 1)
    config.fail("merge_every", "does not fit merge = \"elastic\"", std::to_string(policy->merge_every), "1",
                "each worker moves against the change that it alone has made");
  if (!policy->coded()) policy->codec = make_codec(nullptr, "")->to_json();
}

void write_served(const Policy& policy, Json* json) {
  if (!policy.served) return;
  json->set("synchrony", "server");
  json->set("merge_every", policy.merge_every);
  json->set("merge", policy.elastic ? "elastic" : "reset");
}

void describe_served(const Policy& policy, Json* told) {
  if (!policy.served) return;
  told->set("server", Json::Object{{"contributions", policy.merge_every}, {"merge", policy.elastic ? "elastic" : "reset"}});
}

}  // namespace

extern const PolicyAxis served_axis;
const PolicyAxis served_axis = {.applies = [](const PolicyDef& def) { return def.what == Policy::What::parameters; },
                                .options = served_options,
                                .read = read_served,
                                .write = write_served,
                                .describe = describe_served};

}  // namespace perigee
