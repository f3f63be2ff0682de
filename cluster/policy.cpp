#include "cluster/policy.h"

#include <algorithm>
#include <cassert>

#include "cluster/codec.h"
#include "cluster/outer_step.h"
#include "cluster/presets/presets.h"

namespace perigee {
namespace {

PolicyOption shards_option() {
  return {"shards", "integer", "0", "parts of a batch whose gradients are summed in a fixed tree: the same bits for any number of workers"};
}
std::vector<PolicyOption> round_options() {
  return {{"every", "integer", "5", "local steps between two averages"},
          {"every_ms", "number", "0", "milliseconds between two averages, instead of `every`"},
          {"sync_until", "number", "0", "gradients are averaged at each step until this share of the run is done"},
          {"codec", "codec", "fp32", "how each worker's change of the parameters is sent: a name, or a table with type and options"},
          {"average_optimizer", "boolean", "false", "the optimiser's state takes part in the mean"},
          {"quorum", "number", "1", "share of the workers that is enough for an average ..."},
          {"grace_ms", "number", "0", "... once this has passed since the quorum was there"},
          {"max_staleness", "integer", "4", "averages that a late contribution may have missed; an older one is given up"}};
}
std::vector<PolicyOption> exchange_options() {
  return {{"topology", "topology", "auto", "who sends what to whom: auto, star, ring, tree, direct or hierarchical"},
          {"deadline_ms", "number", "60000", "of any wait in a round; who lets it pass is replaced"}};
}
std::vector<PolicyOption> custom_options() {
  return {{"outer", "function", "", "makes the next parameters of p.global, p.mean and p's states; traced once"},
          {"state", "table", "", "names of blocks like the parameters that the outer step keeps, each with its initial value"}};
}

const char* type_of_option(const Json& value) { return value.is_bool() ? "boolean" : "number"; }

// The options of the axes that the policy has, in the order of help; `defaults` where it has its own.
void add_axes(PolicyDef* def) {
  const auto add = [&](PolicyOption option) {
    if (const Json* own = def->defaults.find(option.name)) option.fallback = own->is_string() ? own->as_string() : own->dump();
    def->options.push_back(std::move(option));
  };
  if (def->what == Policy::What::parameters) {
    for (PolicyOption& option : round_options()) add(std::move(option));
    def->positional = {"every"};
  }
  add(shards_option());
  for (PolicyOption& option : exchange_options()) add(std::move(option));
}

// {"doc": ..., "what": "gradient", "options": {"every": 50}, "knobs": {"rate": {"default": 0.7, "doc": ...}}, "state": ..., "outer": ...}
PolicyDef read_preset(const Preset& preset) {
  const Json json = Json::parse(preset.text, preset.name);
  const Config config(json, preset.name);
  PolicyDef def{.name = preset.name, .doc = config.string("doc")};
  def.defaults = config.has("options") ? config.object("options").json() : Json::object();
  if (config.choice("what", "parameters", {"parameters", "gradient"}) == "gradient") def.what = Policy::What::gradient;
  if (config.has("knobs"))
    for (const auto& [name, description] : config.object("knobs").json().as_object()) {
      const Config knob = config.element(description, name);
      const Json& value = *knob.raw("default");
      // A default that follows the round is told in the option's text.
      def.options.push_back({name, type_of_option(value), value.is_object() ? "" : value.dump(), knob.string("doc")});
      def.knobs.push_back(name);
      def.defaults.set(name, value);
      knob.reject_unread();
    }
  if (const Json* outer = config.raw("outer")) def.outer = *outer;
  if (const Json* state = config.raw("state")) def.state = *state;
  config.reject_unread();
  add_axes(&def);
  return def;
}

std::vector<PolicyDef> make_policies() {
  std::vector<PolicyDef> all;
  for (const Preset& preset : presets()) all.push_back(read_preset(preset));
  PolicyDef custom{.name = "custom",
                   .doc = "Averages parameters and makes the next ones of their mean by a function of your own.",
                   .own_knobs = true,
                   .defaults = Json::object()};
  custom.options = custom_options();
  add_axes(&custom);
  all.push_back(std::move(custom));
  return all;
}

const PolicyDef& policy_named(const Config& config) {
  std::vector<std::string> names;
  for (const PolicyDef& def : all_policies()) names.push_back(def.name);
  const std::string name = config.choice("type", "allreduce", names);
  return *std::find_if(all_policies().begin(), all_policies().end(), [&](const PolicyDef& def) { return def.name == name; });
}

void check_options(const PolicyDef& def, const Json& given, const std::string& path) {
  const auto is_option = [&](const std::string& key) {
    return std::any_of(def.options.begin(), def.options.end(), [&](const PolicyOption& option) { return option.name == key; });
  };
  for (const auto& [key, value] : given.as_object()) {
    if (key == "type" || key.starts_with('@') || is_option(key)) continue;
    std::vector<std::string> others;  // one that is given cannot have been meant
    for (const PolicyOption& option : def.options)
      if (!given.find(option.name)) others.push_back(option.name);
    throw Error(ErrorKind::model,
                {.where = path, .what = def.name + " has no option '" + key.substr(0, 100) + "'", .hint = nearest_hint(key, others)});
  }
}

// What the job says, over the policy's own defaults.
Json with_defaults(const PolicyDef& def, const Json& given) {
  Json all = def.defaults;
  for (const auto& [key, value] : given.as_object())
    if (!value.is_null()) all.set(key, value);
  const Json* every = given.find("every");
  const Json* every_ms = given.find("every_ms");
  // One of the two was chosen: the default of the other is not meant.
  if (every_ms && every_ms->is_number() && every_ms->as_number() > 0 && (!every || every->is_null())) all.erase("every");
  return all;
}

void read_exchange(const Config& config, Policy* policy) {
  policy->topology = config.choice("topology", policy->topology, {"auto", "star", "ring", "tree", "direct", "hierarchical"});
  policy->deadline_ms = config.number_in("deadline_ms", 100, 1e7, policy->deadline_ms);
  policy->shards = config.integer_in("shards", 0, 1024, 0);
}

// Plain fp32 loses nothing and saves nothing: then the exchange adds up the parameters themselves.
void read_codec(const Config& config, Policy* policy) {
  const Json* spec = config.raw("codec");
  if (spec == nullptr || spec->is_null()) return;
  const std::unique_ptr<Codec> codec = make_codec(spec, config.where());
  if (codec->passes() > 1)
    config.fail("codec", "works on gradients of single matrices, in two sums over the workers", codec->def().name, "a codec of one payload",
                "use int4, or topk with feedback");
  if (codec->to_json() != make_codec(nullptr, "")->to_json()) policy->codec = codec->to_json();
}

void read_rounds(const Config& config, Policy* policy) {
  policy->every = config.integer_in("every", 1, 1'000'000, 5);
  policy->every_ms = config.number_in("every_ms", 0, 86'400'000, 0);
  if (policy->every_ms > 0 && config.has("every"))
    config.fail("every_ms", "is given together with 'every'", "", "one of them", "an average is due by steps or by time");
  policy->sync_until = config.number_in("sync_until", 0, 1, 0);
  read_codec(config, policy);
  policy->average_optimizer = config.boolean("average_optimizer", false);
  policy->quorum = config.number_in("quorum", 0.01, 1, 1);
  policy->max_staleness = config.integer_in("max_staleness", 0, 1000, policy->max_staleness);
  policy->grace_ms = config.number_in("grace_ms", 0, policy->deadline_ms, 0);
  if (policy->grace_ms > 0 && policy->quorum == 1)
    config.fail("grace_ms", "has no effect without 'quorum'", "", "a quorum below 1", "with quorum = 1 every average waits for all");
}

std::vector<OuterState> read_states(const Config& config, const Json* state) {
  std::vector<OuterState> states;
  if (!state || state->is_null() || (state->is_array() && state->as_array().empty())) return states;
  const Config values = config.element(*state, "state");
  for (const auto& [name, value] : state->as_object())
    if (!name.starts_with('@')) states.push_back({.name = name, .initial = values.number_in(name, -1e30, 1e30, 0)});
  // The order in which a job's text has them must not matter: a resumed job's is sorted.
  std::sort(states.begin(), states.end(), [](const OuterState& x, const OuterState& y) { return x.name < y.name; });
  return states;
}

void read_outer(const Config& config, const PolicyDef& def, Policy* policy) {
  const Json* outer = def.own_knobs ? config.raw("outer") : &def.outer;
  const Json* state = def.own_knobs ? config.raw("state") : &def.state;
  policy->outer_options = Json::object();
  if (def.own_knobs) {
    if (!outer || outer->is_null())
      config.fail("outer", "is missing", "", "a traced program: pg.averaging.custom { outer = function(p) ... end }");
    policy->outer_options.set("outer", *outer);
    if (state) policy->outer_options.set("state", *state);
  }
  OuterKnobs knobs;
  for (const auto& [name, value] : config.json().as_object()) {
    const bool known = std::find(def.knobs.begin(), def.knobs.end(), name) != def.knobs.end();
    if (!known && (!def.own_knobs || config.asked().contains(name) || name.starts_with('@'))) continue;
    knobs.emplace_back(name, value);
    policy->outer_options.set(name, value);
  }
  if (outer->is_null()) return;
  policy->outer = OuterProgram(config.element(*outer, "outer"), read_states(config, state), knobs);
  // What the program does not ask for is no knob, and is refused below as a misspelt option.
  const auto& unused = policy->outer.unused_knobs();
  for (const auto& [name, value] : knobs)
    if (std::find(unused.begin(), unused.end(), name) == unused.end()) config.raw(name);
}

}  // namespace

std::span<const PolicyDef> all_policies() {
  static const std::vector<PolicyDef> all = make_policies();
  return all;
}

Policy read_policy(const Json* averaging, const std::string& where) {
  const std::string path = where.empty() ? "averaging" : where + ": averaging";
  Json given = Json::object();
  if (averaging == nullptr || averaging->is_null()) given.set("type", "allreduce");
  else if (averaging->is_string()) given.set("type", *averaging);
  else given = *averaging;
  const PolicyDef& def = policy_named(Config(given, path));
  if (!def.own_knobs) check_options(def, given, path);
  const Json described = with_defaults(def, given);
  const Config config(described, path);
  Policy policy;
  policy.name = config.string("type", def.name);
  policy.what = def.what;
  read_exchange(config, &policy);
  if (policy.what == Policy::What::parameters) {
    read_rounds(config, &policy);
    read_outer(config, def, &policy);
  }
  config.reject_unread();
  return policy;
}

double Policy::gain(double workers) const { return outer_gain(outer, workers); }

Json Policy::to_json() const {
  Json json = Json::object();
  json.set("type", name);
  json.set("shards", shards);
  if (what == What::parameters) {
    json.set("sync_until", sync_until);
    if (every_ms > 0) json.set("every_ms", every_ms);
    else json.set("every", every);
    json.set("codec", coded() ? codec : Json("fp32"));
    json.set("average_optimizer", average_optimizer), json.set("quorum", quorum), json.set("grace_ms", grace_ms),
        json.set("max_staleness", max_staleness);
    for (const auto& [key, value] : outer_options.as_object()) json.set(key, value);
  }
  json.set("topology", topology), json.set("deadline_ms", deadline_ms);
  return json;
}

}  // namespace perigee
