#include "cluster/policy.h"

#include <array>

namespace perigee {
namespace {

template <size_t... N>
constexpr auto join(const std::array<PolicyOption, N>&... lists) {
  std::array<PolicyOption, (N + ...)> all;
  size_t at = 0;
  const auto append = [&](const auto& list) {
    for (const PolicyOption& option : list) all[at++] = option;
  };
  (append(lists), ...);
  return all;
}

constexpr std::array<PolicyOption, 2> kExchange = {{
    {"topology", "topology", "auto", "who sends what to whom: auto, star, ring, tree, direct or hierarchical"},
    {"deadline_ms", "number", "60000", "of any wait in a round; who lets it pass is replaced"},
}};
constexpr std::array<PolicyOption, 1> kShards = {{
    {"shards", "integer", "0", "parts of a batch whose gradients are summed in a fixed tree: the same bits for any number of workers"},
}};
constexpr std::array<PolicyOption, 6> kRounds = {{
    {"every", "integer", "5", "local steps between two averages"},
    {"every_ms", "number", "0", "milliseconds between two averages, instead of `every`"},
    {"average_optimizer", "boolean", "false", "the optimiser's state takes part in the mean"},
    {"quorum", "number", "1", "share of the workers that is enough for an average ..."},
    {"grace_ms", "number", "0", "... once this has passed since the quorum was there"},
    {"max_staleness", "integer", "4", "averages that a late contribution may have missed; an older one is given up"},
}};
constexpr std::array<PolicyOption, 1> kSwitch = {{
    {"sync_until", "number", "0.5", "gradients are averaged at each step until this share of the run is done"},
}};
constexpr auto kAllreduce = join(kShards, kExchange);
constexpr auto kPeriodic = join(kRounds, kExchange);
constexpr auto kPostLocal = join(kSwitch, kShards, kRounds, kExchange);
constexpr const char* kEvery[] = {"every"};

constexpr PolicyDef kDefAllreduce{.name = "allreduce", .doc = "Averages gradients at each step.", .options = kAllreduce};
constexpr PolicyDef kDefPeriodic{.name = "periodic",
                                 .doc = "Averages parameters every N local steps or T milliseconds (SparkNet, Deeplearning4j).",
                                 .options = kPeriodic,
                                 .positional = kEvery};
constexpr PolicyDef kDefPostLocal{.name = "post_local",
                                  .doc = "Averages gradients at each step first, parameters every N local steps later (Lin et al. 2020).",
                                  .options = kPostLocal};

std::vector<std::string> names_of_policies() {
  std::vector<std::string> names;
  for (const PolicyDef* def : all_policies()) names.emplace_back(def->name);
  return names;
}

void read_exchange(const Config& config, Policy* policy) {
  policy->topology = config.choice("topology", policy->topology, {"auto", "star", "ring", "tree", "direct", "hierarchical"});
  policy->deadline_ms = config.number_in("deadline_ms", 100, 1e7, policy->deadline_ms);
}

void read_shards(const Config& config, Policy* policy) { policy->shards = config.integer_in("shards", 0, 1024, 0); }

void read_periodic(const Config& config, Policy* policy) {
  policy->what = Policy::What::parameters;
  policy->every = config.integer_in("every", 1, 1'000'000, 5);
  policy->every_ms = config.number_in("every_ms", 0, 86'400'000, 0);
  if (policy->every_ms > 0 && config.has("every"))
    config.fail("every_ms", "is given together with 'every'", "", "one of them", "an average is due by steps or by time");
  policy->average_optimizer = config.boolean("average_optimizer", false);
  policy->quorum = config.number_in("quorum", 0.01, 1, 1);
  policy->max_staleness = config.integer_in("max_staleness", 0, 1000, policy->max_staleness);
  read_exchange(config, policy);
  policy->grace_ms = config.number_in("grace_ms", 0, policy->deadline_ms, 0);
  if (policy->grace_ms > 0 && policy->quorum == 1)
    config.fail("grace_ms", "has no effect without 'quorum'", "", "a quorum below 1", "with quorum = 1 every average waits for all");
}

}  // namespace

std::span<const PolicyDef* const> all_policies() {
  static constexpr const PolicyDef* all[] = {&kDefAllreduce, &kDefPeriodic, &kDefPostLocal};
  return all;
}

Policy read_policy(const Json* averaging, const std::string& where) {
  const Json none("allreduce");
  if (averaging == nullptr || averaging->is_null()) averaging = &none;
  Json described = Json::object();
  if (averaging->is_string()) described.set("type", *averaging);
  else described = *averaging;
  const Config config(described, where.empty() ? "averaging" : where + ": averaging");
  Policy policy;
  policy.name = config.choice("type", "allreduce", names_of_policies());
  if (policy.name == "allreduce") {
    read_shards(config, &policy);
    read_exchange(config, &policy);
  } else {
    read_periodic(config, &policy);
    if (policy.name == "post_local") {
      policy.sync_until = config.number_in("sync_until", 0, 1, 0.5);
      read_shards(config, &policy);
    }
  }
  config.reject_unread();
  return policy;
}

Json Policy::to_json() const {
  Json json = Json::object();
  json.set("type", name);
  if (what == What::gradient || sync_until > 0) json.set("shards", shards);
  if (what == What::parameters) {
    if (name == "post_local") json.set("sync_until", sync_until);
    if (every_ms > 0) json.set("every_ms", every_ms);
    else json.set("every", every);
    json.set("average_optimizer", average_optimizer), json.set("quorum", quorum), json.set("grace_ms", grace_ms),
        json.set("max_staleness", max_staleness);
  }
  json.set("topology", topology), json.set("deadline_ms", deadline_ms);
  return json;
}

}  // namespace perigee
