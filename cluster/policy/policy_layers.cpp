// Policies by layer: {"fc.*": {"type": "periodic", "every": 50, "codec": "int4"}, "*": {"type": "periodic", "every": 5}}. Patterns are of
// parameters' names, '*' standing for any characters; of those that match a name, the one with most letters decides. Rounds are those of the
// smallest `every`; what concerns a round as a whole is one for all.
#include <algorithm>

#include "cluster/policy/policy_axes.h"
#include "cluster/rounds/local/fragments.h"

namespace perigee {
namespace {

// Options of the patterns' policies that hold for whole rounds: equal in all.
constexpr const char* kOfRounds[] = {"sync_until",  "quorum", "grace_ms", "max_staleness", "topology",
                                     "deadline_ms", "shards", "overlap",  "late",          "merge"};

std::string shown(const Json* value) { return value ? value->dump() : "its default"; }

// One pattern's policy, beside the first one's.
void check_together(const LayerPolicy& one, const LayerPolicy& first, const std::string& path) {
  const Policy& policy = one.policy;
  const std::string where = path + ": '" + one.pattern + "'";
  const auto refuse = [&](std::string what, std::string got, std::string expected, std::string hint) {
    throw Error(ErrorKind::model, {where, std::move(what), std::move(got), std::move(expected), std::move(hint)});
  };
  if (policy.what != Policy::What::parameters)
    refuse("averages gradients, which all layers do or none", policy.name, "a policy of parameters: periodic, diloco, ...",
           "periodic { every = 1 } averages parameters at each step; sync_until averages gradients for a share of the run");
  if (policy.every_ms > 0) refuse("is due by time", "every_ms", "every", "which layers are due is counted in steps");
  if (policy.fragments > 1) refuse("is cut into fragments itself", policy.name, "fragments = 1", "");
  if (policy.average_optimizer)
    refuse("averages the optimiser's state, which is of all parameters at once", "true", "average_optimizer = false", "");
  const Json own = policy.to_json(), others = first.policy.to_json();
  for (const char* option : kOfRounds) {
    const Json *a = own.find(option), *b = others.find(option);
    if ((a ? *a : Json()) != (b ? *b : Json()))
      refuse(std::string("has another ") + option + " than '" + first.pattern + "'", shown(a), shown(b),
             "all layers are averaged in the same rounds; every, codec and the outer step may differ");
  }
}

}  // namespace

bool is_layers(const Json& averaging) {
  if (!averaging.is_object() || averaging.find("type")) return false;
  const auto& entries = averaging.as_object();
  return std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.first.find('*') != std::string::npos || (entry.second.is_object() && entry.second.find("type"));
  });
}

Policy read_layers(const Json& averaging, const std::string& path) {
  Policy all;
  for (const auto& [pattern, described] : averaging.as_object()) {
    if (pattern.starts_with('@')) continue;
    if (!described.is_object() && !described.is_string())
      throw Error(ErrorKind::model, {path + ": '" + pattern.substr(0, 100) + "'", "is no policy", described.type_name(),
                                     "a policy's name or table, such as periodic { every = 50 }", ""});
    if (described.is_object() && is_layers(described))
      throw Error(ErrorKind::model, {.where = path + ": '" + pattern.substr(0, 100) + "'",
                                     .what = "has patterns in a pattern",
                                     .expected = "one policy for each pattern, as in \"periodic\""});
    all.layers.push_back({pattern, read_policy(&described, path + ": '" + pattern.substr(0, 100) + "'")});
  }
  // A table has no order, and a resumed job's is sorted.
  std::sort(all.layers.begin(), all.layers.end(), [](const LayerPolicy& x, const LayerPolicy& y) { return x.pattern < y.pattern; });
  if (all.layers.size() > static_cast<size_t>(kMaxFragments))
    throw Error(ErrorKind::model,
                {path, "has too many patterns", std::to_string(all.layers.size()), "at most " + std::to_string(kMaxFragments), ""});
  if (std::none_of(all.layers.begin(), all.layers.end(), [](const LayerPolicy& l) { return l.pattern == "*"; }))
    throw Error(ErrorKind::model, {path, "has no policy for the layers that no pattern names", "", "[\"*\"] beside the others", ""});
  for (const LayerPolicy& layer : all.layers) check_together(layer, all.layers.front(), path);
  const Policy& first = all.layers.front().policy;
  all.name = "layers";
  all.what = Policy::What::parameters;
  all.every = std::min_element(all.layers.begin(), all.layers.end(), [](const LayerPolicy& x, const LayerPolicy& y) {
                return x.policy.every < y.policy.every;
              })->policy.every;
  for (const LayerPolicy& layer : all.layers)
    if (layer.policy.every % all.every != 0)
      throw Error(ErrorKind::model,
                  {path + ": '" + layer.pattern + "': every", "is no multiple of the smallest", std::to_string(layer.policy.every),
                   "a multiple of " + std::to_string(all.every), "rounds are those of the layers that are averaged most often"});
  all.sync_until = first.sync_until, all.quorum = first.quorum, all.grace_ms = first.grace_ms, all.max_staleness = first.max_staleness;
  all.topology = first.topology, all.deadline_ms = first.deadline_ms, all.shards = first.shards;
  all.overlap = first.overlap, all.late = first.late, all.keep = first.keep;
  return all;
}

Json layers_to_json(const Policy& policy) {
  Json json = Json::object();
  for (const LayerPolicy& layer : policy.layers) json.set(layer.pattern, layer.policy.to_json());
  return json;
}

}  // namespace perigee
