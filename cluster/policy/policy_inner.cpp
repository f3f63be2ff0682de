// Exchanges inside small groups between two rounds: gossip, an axis, and nested, which is made of two policies.
#include "cluster/policy/policy_axes.h"
#include "cluster/rounds/local/inner_plan.h"

namespace perigee {
namespace {

using Groups = Policy::Inner::Groups;

constexpr const char* kWholeRounds = "inner exchanges need rounds of a fixed number of steps in which every worker takes part";

std::vector<Option> gossip_options() {
  return {{"group", "integer", "2", "workers that average with each other", {2, kMaxWorkers}},
          {"partners",
           "name",
           "random",
           "who is in a group: random, anew each time; or grid, along one axis of a grid after the other",
           {},
           {"random", "grid"}},
          {"consensus", "integer", "100", "local steps after which all workers average, so that all are equal again", {1, 1e6}}};
}

// Why inner exchanges cannot stand between the rounds of `policy`, as an Error at `config`.
void check_rounds_between(const Config& config, const Policy& policy) {
  if (policy.every_ms > 0) config.fail("every_ms", "does not go with inner exchanges", "", "'every'", kWholeRounds);
  if (policy.partial())
    config.fail("overlap", "does not go with inner exchanges", "fragments, overlap, keep or policies by layers", "none of them",
                kWholeRounds);
  if (policy.served)
    config.fail("type", "has a server instead of rounds of all workers", policy.name, "a policy with rounds", kWholeRounds);
  if (policy.quorum < 1) config.fail("quorum", "does not go with inner exchanges", std::to_string(policy.quorum), "1", kWholeRounds);
}

void check_count(const Config& config, const char* key, const Policy& policy) {
  if (policy.every <= policy.inner.every)
    config.fail(
        key, "leaves no room for an inner exchange", std::to_string(policy.every), "more than " + std::to_string(policy.inner.every),
        "groups average more often than all workers do, as in " + std::string(key) + " = " + std::to_string(10 * policy.inner.every));
  if (inner_exchanges(policy) > kMaxInnerExchanges)
    config.fail(
        key, "has too many inner exchanges in a round", std::to_string(inner_exchanges(policy)),
        "at most " + std::to_string(kMaxInnerExchanges),
        std::string(key) + " = " + std::to_string(kMaxInnerExchanges * policy.inner.every) + ", or groups that average more seldom");
}

// rounds_axis has read `every`, which is the groups', and what goes for both exchanges.
void read_gossip(const Config& config, const PolicyDef&, Policy* policy) {
  check_rounds_between(config, *policy);
  policy->inner.every = policy->every;
  policy->inner.size = config.integer_in("group", 2, static_cast<int64_t>(kMaxWorkers), 2);
  policy->inner.groups = config.choice("partners") == "grid" ? Groups::grid : Groups::random;
  policy->inner.codec = policy->codec;
  policy->every = config.integer("consensus");
  check_count(config, "consensus", *policy);
}

void write_gossip(const Policy& policy, Json* json) {
  json->set("every", policy.inner.every);
  json->set("group", policy.inner.size);
  json->set("partners", policy.inner.groups == Groups::grid ? "grid" : "random");
  json->set("consensus", policy.every);
}

void read_group(const Config& config, Policy::Inner* inner) {
  const Json* group = config.raw("group");
  if (group == nullptr || group->is_null() || *group == Json("host")) return;
  inner->groups = Groups::blocks;
  if (group->is_string()) config.fail("group", "is no kind of group", "'" + group->as_string() + "'", "\"host\", or a number of workers");
  inner->size = config.integer_in("group", 1, static_cast<int64_t>(kMaxWorkers));
}

// `fallback` by name, where the description says nothing.
Json part_of(const Config& config, const char* key, const char* fallback) {
  const Json* part = config.raw(key);
  if (part == nullptr || part->is_null() || part->is_string()) {
    Json named = Json::object();
    named.set("type", part && part->is_string() ? *part : Json(fallback));
    return named;
  }
  if (!part->is_object()) config.fail(key, "is no policy", part->dump().substr(0, 100), "a name, or a table with type");
  return *part;
}

Policy read_part(const Config& config, const char* key, const Json& part) {
  const Policy policy = read_policy_at(&part, config.where() + ": " + key);
  if (policy.inner.active())
    config.fail(key, "has groups of its own", policy.name, "one without, as in pg.averaging.periodic { every = 50 }",
                "policies nest in two levels");
  if (policy.what != Policy::What::parameters)
    config.fail(key, "averages gradients", policy.name, "a policy that averages parameters",
                std::string_view(key) == "across" ? "pg.averaging.periodic { every = 50 } is one"
                                                  : "pg.averaging.periodic { every = 1 } averages parameters at each step");
  return policy;
}

}  // namespace

extern const PolicyAxis inner_axis;
const PolicyAxis inner_axis = {.applies = [](const PolicyDef& def) { return def.kind == PolicyDef::Kind::gossip; },
                               .options = gossip_options,
                               .read = read_gossip,
                               .write =
                                   [](const Policy& policy, Json* json) {
                                     const Groups groups = policy.inner.groups;
                                     if (policy.inner.active() && (groups == Groups::random || groups == Groups::grid))
                                       write_gossip(policy, json);
                                   }};

std::vector<Option> nested_options() {
  return {
      {"inside", "policy", "periodic", "inside each group: periodic, with every, codec and topology"},
      {"across", "policy", "diloco", "between the groups: any policy that averages parameters every so many steps"},
      {"group", "group", "host", "who is near each other: workers of one host (or of one --site), or so many in the order of their ranks"}};
}

Policy read_nested(const Config& config) {
  const Json outer_json = part_of(config, "across", "diloco"), inner_json = part_of(config, "inside", "periodic");
  Policy policy = read_part(config, "across", outer_json);
  const Policy inside = read_part(config, "inside", inner_json);
  const Config outer_part = config.element(outer_json, "across"), inner_part = config.element(inner_json, "inside");
  check_rounds_between(outer_part, policy);
  check_rounds_between(inner_part, inside);
  if (!inside.outer.empty())
    inner_part.fail("type", "has an outer step, and a group keeps nothing between two exchanges", inside.name, "periodic");
  if (inside.sync_until > 0) inner_part.fail("sync_until", "belongs to the policy across", std::to_string(inside.sync_until), "0");
  if (inside.average_optimizer != policy.average_optimizer)
    inner_part.fail("average_optimizer", "differs from the policy's across", inside.average_optimizer ? "true" : "false",
                    "the same in both");
  policy.across = policy.name;
  policy.name = "nested";
  policy.inner = {.every = inside.every, .codec = inside.codec, .topology = inside.topology};
  read_group(config, &policy.inner);
  check_count(outer_part, "every", policy);
  return policy;
}

Json write_nested(const Policy& policy) {
  Policy across = policy;
  across.name = policy.across;
  across.across.clear();
  across.inner = {};
  Json inside = Json::object(), json = Json::object();
  inside.set("type", "periodic");
  inside.set("every", policy.inner.every);
  inside.set("codec", policy.inner.codec.is_null() ? Json("fp32") : policy.inner.codec);
  inside.set("topology", policy.inner.topology);
  inside.set("average_optimizer", policy.average_optimizer);
  json.set("type", "nested");
  json.set("inside", std::move(inside));
  json.set("across", across.to_json());
  json.set("group", policy.inner.groups == Groups::blocks ? Json(policy.inner.size) : Json("host"));
  return json;
}

}  // namespace perigee
