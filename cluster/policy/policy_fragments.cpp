#include <cstdio>

#include "cluster/policy/policy_axes.h"
#include "cluster/rounds/local/fragments.h"

namespace perigee {
namespace {

bool applies(const PolicyDef& def) { return def.what == Policy::What::parameters && def.kind != PolicyDef::Kind::gossip; }

std::vector<Option> options() {
  return {
      {"fragments",
       "integer",
       "1",
       "parts of the parameters; each is averaged every `every` steps, one after the other",
       {1, kMaxFragments}},
      {"cut",
       "cut",
       "even",
       "what they are: even (of equal size), layers (runs of layers), strided (every n-th layer)",
       {},
       {"even", "layers", "strided"}},
      {"overlap", "boolean", "false", "workers train on while an average is on its way"},
      {"late", "integer", "0", "with overlap: its result is taken after exactly so many steps; 0: as soon as it is there", {0, 1e6}},
      {"keep", "number", "-1", "share of a worker's own parameters that stays when it takes a result; below 0: all work since", {-1, 1}}};
}

void read(const Config& config, const PolicyDef&, Policy* policy) {
  policy->fragments = config.integer_in("fragments", 1, kMaxFragments, 1);
  policy->cut = config.choice("cut");
  policy->overlap = config.boolean("overlap");
  policy->late = config.integer("late");
  policy->keep = config.number("keep");
  if (policy->keep < 0) policy->keep = -1;
  if (policy->every_ms == 0 && policy->every < policy->fragments)
    config.fail("fragments", "are more than the steps in which each has its turn", std::to_string(policy->fragments),
                "at most every = " + std::to_string(policy->every), "a round is every `every` / `fragments` steps");
  if (policy->late > 0 && !policy->overlap)
    config.fail("late", "has no effect without 'overlap'", std::to_string(policy->late), "overlap = true",
                "without overlap nothing is trained before the result is there");
  if (policy->every_ms == 0 && policy->late >= policy->every / policy->fragments && policy->late > 0)
    config.fail("late", "is not before the next round", std::to_string(policy->late),
                "less than every / fragments = " + std::to_string(policy->every / policy->fragments));
  if (policy->keep == 1) config.fail("keep", "never takes anything of a result", "1", "a number below 1", "0.5 is the half of each");
  if (policy->partial() && policy->average_optimizer)
    config.fail("average_optimizer", "is of all parameters at once", "true", "false with fragments, overlap or keep",
                "the optimiser's state then stays each worker's own");
}

void write(const Policy& policy, Json* json) {
  if (policy.what != Policy::What::parameters || policy.inner.active()) return;
  json->set("fragments", policy.fragments), json->set("cut", policy.cut);
  json->set("overlap", policy.overlap), json->set("late", policy.late), json->set("keep", policy.keep);
}

// How a result meets local work; nothing where it replaces it.
void describe(const Policy& policy, Json* told) {
  std::string text;
  if (policy.overlap) text += ", workers train on meanwhile";
  if (policy.late > 0) text += " and take a result after " + std::to_string(policy.late) + (policy.late == 1 ? " step" : " steps");
  char keep[64];
  std::snprintf(keep, sizeof keep, ", %.3g %% of their own parameters stay", 100 * policy.keep);
  if (policy.keep > 0) text += keep;
  if (!text.empty()) told->set("overlap", text);
}

}  // namespace

extern const PolicyAxis fragments_axis;
const PolicyAxis fragments_axis{applies, options, read, write, describe};

}  // namespace perigee
