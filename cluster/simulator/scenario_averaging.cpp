#include "cluster/simulator/scenario_averaging.h"

#include "cluster/simulator/scenario.h"

namespace perigee::sim {

const std::vector<std::string>& scenario_policies() {
  static const std::vector<std::string> names = {
      "allreduce",       "allreduce_shards",  "periodic",  "periodic_quorum", "every_ms",      "post_local",
      "allreduce_coded", "allreduce_passes",  "served",    "served_stale",    "served_merged", "nested",
      "gossip",          "overlap",           "streaming", "by_speed",        "auto",          "sharded",
      "steered",         "allreduce_repeats", "streamed",  "partitioned"};
  return names;
}

// Exchanges inside groups between rounds.
Json nested_or_gossip(const std::string& policy, SeededRng& rng) {
  static constexpr const char* kTopologies[] = {"auto", "star", "ring", "tree", "direct", "hierarchical"};
  Json json = Json::object(), inside = Json::object();
  const int64_t every = rng.integer(1, 3), rounds = every + rng.integer(1, 6);
  json.set("topology", kTopologies[rng.integer(0, 5)]);
  json.set("deadline_ms", static_cast<double>(rng.integer(2, 6) * 500));
  json.set("max_staleness", rng.integer(0, 4));
  if (rng.chance(0.3)) json.set("codec", "int8");
  if (policy == "gossip") {
    json.set("type", "gossip");
    json.set("every", every);
    json.set("consensus", rounds);
    json.set("group", rng.integer(2, 3));
    json.set("partners", rng.chance(0.5) ? "random" : "grid");
    return json;
  }
  json.set("type", "periodic");
  json.set("every", rounds);
  if (rng.chance(0.1)) json.set("sync_until", 0.5);
  inside.set("type", "periodic");
  inside.set("every", every);
  inside.set("topology", kTopologies[rng.integer(0, 5)]);
  if (rng.chance(0.3)) inside.set("codec", "int8");
  Json nested = Json::object();
  nested.set("type", "nested");
  nested.set("across", std::move(json));
  nested.set("inside", std::move(inside));
  if (rng.chance(0.5)) nested.set("group", rng.integer(2, 3));
  return nested;
}

void set_pace(bool automatic, SeededRng& rng, Json* json) {
  if (!automatic || rng.chance(0.5)) json->set("by_speed", true);
  if (!automatic) return;
  json->set("every", "auto");
  json->set("utilisation", rng.between(0.1, 0.95));
  json->set("every_min", rng.integer(1, 3));
  json->set("every_max", rng.integer(3, 12));
}

Json averaging_of(const std::string& policy, SeededRng& rng) {
  if (policy == "nested" || policy == "gossip") return nested_or_gossip(policy, rng);
  Json json = Json::object();
  static constexpr const char* kTopologies[] = {"auto", "star", "ring", "tree", "direct", "hierarchical"};
  json.set("topology", kTopologies[rng.integer(0, 5)]);
  json.set("deadline_ms", static_cast<double>(rng.integer(2, 6) * 500));
  if (policy.starts_with("allreduce")) {
    json.set("type", "allreduce");
    if (policy == "allreduce_shards" || (policy == "allreduce_repeats" && rng.chance(0.5))) json.set("shards", rng.integer(1, 8));
    if (policy == "allreduce_coded") json.set("codec", "int8");
    if (policy == "allreduce_passes") json.set("codec", "lowrank");
    return json;
  }
  if (policy.starts_with("served")) {
    json.erase("topology");
    json.set("type", "custom");  // any with a server: what is merged how is no business of the protocol
    json.set("outer",
             Json::parse(R"({"program": [{"op": "add", "in": ["mean", 0], "out": "t1"}], "outputs": {"global": "t1"}})", "scenario"));
    json.set("synchrony", "server");
    json.set("every", rng.integer(1, 4));
    json.set("max_staleness", policy == "served_stale" ? rng.integer(0, 2) : rng.integer(4, 64));
    if (policy == "served_merged") json.set("merge_every", rng.integer(2, 5));
    return json;
  }
  json.set("type", policy == "post_local" || policy == "streaming" ? policy : "periodic");
  json.set("max_staleness", rng.integer(0, 4));
  if (policy == "every_ms") json.set("every_ms", static_cast<double>(rng.integer(20, 400)));
  else json.set("every", rng.integer(1, 6));
  if (policy == "overlap" || policy == "streaming") {
    const int64_t fragments = policy == "streaming" ? rng.integer(1, 4) : 1, every = rng.integer(fragments, 3 * fragments + 3);
    json.set("fragments", fragments), json.set("every", every), json.set("overlap", policy == "overlap" || rng.chance(0.6));
    if (json.find("overlap")->as_bool() && every / fragments > 1 && rng.chance(0.4))
      json.set("late", rng.integer(1, every / fragments - 1));
    if (rng.chance(0.2)) json.set("sync_until", rng.between(0.1, 0.6));
  }
  if (policy == "sharded" && rng.chance(0.4)) json.set("by_speed", true);
  if (policy == "by_speed" || policy == "auto") set_pace(policy == "auto", rng, &json);
  if (policy == "post_local") {
    json.set("sync_until", rng.between(0.1, 0.9));
    if (rng.chance(0.3)) json.set("shards", rng.integer(2, 8));
  }
  if (policy == "periodic_quorum" || (policy == "every_ms" && rng.chance(0.5)) ||
      ((policy == "post_local" || policy == "overlap" || policy == "streaming" || policy == "sharded" || policy == "streamed") &&
       rng.chance(0.3))) {
    json.set("quorum", rng.between(0.3, 0.9));
    json.set("grace_ms", static_cast<double>(rng.integer(0, 200)));
  }
  return json;
}

}  // namespace perigee::sim
