// The outer step on the mean.
#include <algorithm>

#include "cluster/policy/describe_policy.h"
#include "cluster/policy/policy_axes.h"

namespace perigee {
namespace {

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
    const bool given = outer && !outer->is_null();
    if (given && policy->what == Policy::What::update)
      config.fail("outer", "has no place where updates are sent", "", "what = \"gradient\", or no outer step",
                  "the workers' optimisers have made them already");
    if (!given && policy->what == Policy::What::parameters)
      config.fail("outer", "is missing", "", "a traced program: pg.averaging.custom { outer = function(p) ... end }");
    if (given) policy->outer_options.set("outer", *outer);
    if (given && state) policy->outer_options.set("state", *state);
  }
  OuterKnobs knobs;
  for (const auto& [name, value] : config.json().as_object()) {
    const bool known = std::find(def.knobs.begin(), def.knobs.end(), name) != def.knobs.end();
    if (!known && (!def.own_knobs || config.asked().contains(name) || name.starts_with('@'))) continue;
    knobs.emplace_back(name, value);
    policy->outer_options.set(name, value);
  }
  if (!outer || outer->is_null()) return;
  const OuterOf of = policy->what == Policy::What::parameters ? OuterOf::parameters : OuterOf::gradient;
  policy->outer = OuterProgram(config.element(*outer, "outer"), read_states(config, state), knobs, of);
  // An option that the program does not use is no knob, and is refused below as misspelt.
  const auto& unused = policy->outer.unused_knobs();
  for (const auto& [name, value] : knobs)
    if (std::find(unused.begin(), unused.end(), name) == unused.end()) config.raw(name);
}

void write_outer(const Policy& policy, Json* json) {
  if (!policy.outer_options.is_object()) return;
  for (const auto& [key, value] : policy.outer_options.as_object()) json->set(key, value);
}

void describe_outer(const Policy& policy, Json* told) {
  const double gain = policy.gain(kDescribedWorkers);
  told->set("gain", gain);
  if (policy.outer.empty()) return;
  Json states = Json::array();
  for (const OuterState& state : policy.outer.states()) states.push(state.name);
  told->set("outer", Json::Object{{"states", std::move(states)}, {"may_diverge", gain > kSafeGain * kDescribedWorkers}});
}

}  // namespace

// Its options are the knobs of each policy; custom's are in policy.cpp.
extern const PolicyAxis outer_axis;
const PolicyAxis outer_axis = {.applies = [](const PolicyDef&) { return true; },
                               .options = [] { return std::vector<Option>(); },
                               .read = read_outer,
                               .write = write_outer,
                               .describe = describe_outer};

}  // namespace perigee
