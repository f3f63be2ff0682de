// When parameters are averaged, how their changes are sent, and whom an average waits for.
#include "cluster/codec/codec.h"
#include "cluster/policy/policy_axes.h"

namespace perigee {
namespace {

std::vector<Option> round_options() {
  return {{"every", "integer or \"auto\"", "5", "local steps between two averages; \"auto\": as many as `utilisation` asks for", {1, 1e6}},
          {"every_ms", "number", "0", "milliseconds between two averages, instead of `every`", {0, 86400000}},
          {"sync_until", "number", "0", "gradients are averaged at each step until this share of the run is done", {0, 1}},
          {"codec", "codec", "fp32", "how each worker's change of the parameters is sent: a name, or a table with type and options"},
          {"average_optimizer", "boolean", "false", "the optimiser's state takes part in the mean"},
          {"quorum", "number", "1", "share of the workers that is enough for an average, after grace_ms", {0.01, 1}},
          {"grace_ms", "number", "0", "time since the quorum was there after which the average is made", {0, 1e7}},
          {"max_staleness", "integer", "4", "averages that a late contribution may have missed; an older one is given up", {0, 1000}}};
}

// Plain fp32 loses nothing and saves nothing: then the exchange adds up the parameters themselves.
void read_codec(const Config& config, Policy* policy) {
  const Json* spec = config.raw("codec");
  if (spec == nullptr || spec->is_null()) return;
  const std::unique_ptr<Codec> codec = make_codec(spec, config.where());
  if (codec->to_json() != make_codec(nullptr, "")->to_json()) policy->codec = codec->to_json();
}

void read_rounds(const Config& config, const PolicyDef&, Policy* policy) {
  const Json* every = config.raw("every");
  policy->pace.automatic = every && *every == Json("auto");
  if (!policy->pace.automatic) policy->every = config.integer_in("every", 1, 1'000'000, 5);
  policy->every_ms = config.number("every_ms");
  if (policy->every_ms > 0 && config.has("every"))
    config.fail("every_ms", "is given together with 'every'", "", "one of them", "an average is due by steps or by time");
  policy->sync_until = config.number("sync_until");
  read_codec(config, policy);
  policy->average_optimizer = config.boolean("average_optimizer");
  policy->quorum = config.number("quorum");
  policy->max_staleness = config.integer("max_staleness");
  policy->grace_ms = config.number("grace_ms");
  if (policy->grace_ms > 0 && policy->quorum == 1)
    config.fail("grace_ms", "has no effect without 'quorum'", "", "a quorum below 1, as in quorum = 0.5",
                "with quorum = 1 every average waits for all");
}

void write_rounds(const Policy& policy, Json* json) {
  if (policy.what != Policy::What::parameters) return;
  json->set("sync_until", policy.sync_until);
  if (policy.every_ms > 0) json->set("every_ms", policy.every_ms);
  else json->set("every", policy.pace.automatic ? Json("auto") : Json(policy.every));
  json->set("codec", policy.coded() ? policy.codec : Json("fp32"));
  json->set("average_optimizer", policy.average_optimizer);
  json->set("quorum", policy.quorum);
  json->set("grace_ms", policy.grace_ms);
  json->set("max_staleness", policy.max_staleness);
}

void describe_rounds(const Policy& policy, Json* told) {
  const bool parameters = policy.what == Policy::What::parameters;
  std::string when = "each step";
  if (policy.every_ms > 0) when = "every " + std::to_string(static_cast<int64_t>(policy.every_ms)) + " ms";
  else if (parameters) when = "every " + std::to_string(policy.every) + (policy.every == 1 ? " step" : " steps");
  told->set("when", when);
  if (policy.sync_until > 0)
    told->set("before", "gradients each step until " + std::to_string(static_cast<int>(100 * policy.sync_until)) + " %");
  told->set("what", parameters ? "parameters" : policy.what == Policy::What::update ? "updates of each worker's optimiser" : "gradients");
  told->set("optimizer_state", policy.average_optimizer);
  std::string synchrony = "barrier";
  if (policy.quorum < 1)
    synchrony = "quorum " + std::to_string(static_cast<int>(100 * policy.quorum)) + " %, grace " +
                std::to_string(static_cast<int64_t>(policy.grace_ms)) + " ms";
  told->set("synchrony", synchrony);
  told->set("max_staleness", policy.max_staleness);
}

}  // namespace

extern const PolicyAxis rounds_axis;
const PolicyAxis rounds_axis = {.applies = [](const PolicyDef& def) { return def.what == Policy::What::parameters; },
                                .options = round_options,
                                .read = read_rounds,
                                .write = write_rounds,
                                .describe = describe_rounds};

}  // namespace perigee
