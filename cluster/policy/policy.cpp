#include "cluster/policy/policy.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "cluster/codec/codec.h"
#include "cluster/exchange/outer_step.h"
#include "cluster/policy/describe_policy.h"
#include "cluster/policy/policy_axes.h"
#include "cluster/policy/presets/presets.h"

namespace perigee {
namespace {

std::vector<Option> custom_options() {
  return {{"what",
           "name",
           "parameters",
           "parameters; gradient: of each step; update: what each worker's optimiser makes of its gradient",
           {},
           {"parameters", "gradient", "update"}},
          {"outer", "function", "",
           "makes the next parameters of p.global, p.mean and p's states; of gradients what the optimiser gets, of p.gradient"},
          {"state", "table", "", "names of blocks like the parameters that the outer step keeps, each with its initial value"}};
}

const char* type_of_option(const Json& value) { return value.is_bool() ? "boolean or program" : "number or program"; }

// The options of the axes that the policy has, in the order of help; `defaults` where it has its own.
void add_axes(PolicyDef* def) {
  const auto add = [&](Option option) {
    if (const Json* own = def->defaults.find(option.name)) option.fallback = kept_text(own->is_string() ? own->as_string() : own->dump());
    def->options.push_back(std::move(option));
  };
  if (def->kind == PolicyDef::Kind::nested) {
    for (Option& option : nested_options()) add(std::move(option));
    return;
  }
  if (def->what == Policy::What::parameters) def->positional = {"every"};
  for (const PolicyAxis* axis : policy_axes())
    if (axis->applies(*def))
      for (Option& option : axis->options()) add(std::move(option));
}

Policy::What what_of(const Config& config) {
  const std::string name = config.choice("what", "parameters", {"parameters", "gradient", "update"});
  return name == "parameters" ? Policy::What::parameters : name == "gradient" ? Policy::What::gradient : Policy::What::update;
}

// {"doc": ..., "what": "gradient", "options": {"every": 50}, "knobs": {"rate": {"default": 0.7, "doc": ...}}, "state": ..., "outer": ...}
PolicyDef read_preset(const Preset& preset) {
  const Json json = Json::parse(preset.text, preset.name);
  const Config config(json, preset.name);
  PolicyDef def{.name = preset.name, .doc = config.string("doc")};
  def.defaults = config.has("options") ? config.object("options").json() : Json::object();
  def.what = what_of(config);
  const std::string kind = config.choice("kind", "plain", {"plain", "gossip", "nested"});
  def.kind = kind == "gossip" ? PolicyDef::Kind::gossip : kind == "nested" ? PolicyDef::Kind::nested : PolicyDef::Kind::plain;
  if (config.has("knobs"))
    for (const auto& [name, description] : config.object("knobs").json().as_object()) {
      const Config knob = config.element(description, name);
      const Json& value = *knob.raw("default");
      // A default that follows the round is told in the option's text.
      def.options.push_back(
          {kept_text(name), type_of_option(value), kept_text(value.is_object() ? "" : value.dump()), kept_text(knob.string("doc"))});
      def.knobs.push_back(name);
      def.defaults.set(name, value);
      knob.reject_unread();
    }
  for (Option& option : codec_options_of(def)) def.options.push_back(std::move(option));
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
  for (Option& option : custom.options)  // of "merge", which `what` decides
    if (std::string_view("merge") == option.name) option.choices[2] = "mean", option.choices[3] = "sum";
  all.push_back(std::move(custom));
  return all;
}

const PolicyDef& policy_named(const Config& config) {
  std::vector<std::string> names;
  for (const PolicyDef& def : all_policies()) names.push_back(def.name);
  const std::string name = config.choice("type", "allreduce", names);
  return *std::find_if(all_policies().begin(), all_policies().end(), [&](const PolicyDef& def) { return def.name == name; });
}

// The job's options, over the policy's own defaults.
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

}  // namespace

const char* kept_text(const std::string& text) {
  static std::set<std::string> texts;
  return texts.insert(text).first->c_str();
}

std::span<const PolicyDef> all_policies() {
  static const std::vector<PolicyDef> all = make_policies();
  return all;
}

Policy read_policy(const Json* averaging, const std::string& where) {
  return read_policy_at(averaging, where.empty() ? "averaging" : where + ": averaging");
}

Policy read_policy_at(const Json* averaging, const std::string& path) {
  Json given = Json::object();
  if (averaging == nullptr || averaging->is_null()) given.set("type", "allreduce");
  else if (averaging->is_string()) given.set("type", *averaging);
  else given = *averaging;
  if (is_layers(given)) return read_layers(given, path);
  PolicyDef def = policy_named(Config(given, path));
  if (def.own_knobs) {
    def.what = what_of(Config(given, path));
    def.options = custom_options();
    add_axes(&def);
  }
  const Schema schema = def.schema();
  check_options(given, schema, path);  // before the policy's own defaults: a key that is given cannot have been meant
  const Json described = with_defaults(def, given);
  const Config config(described, schema, path);
  if (def.kind == PolicyDef::Kind::nested) return read_nested(config);
  Policy policy;
  policy.name = config.string("type", def.name);
  policy.what = def.what;
  if (def.own_knobs) config.raw("what");
  for (const PolicyAxis* axis : policy_axes())
    if (axis->applies(def)) axis->read(config, def, &policy);
  config.reject_unread();
  return policy;
}

bool Policy::adds_parts() const { return coded_steps() && make_codec(&codec, "averaging")->passes() > 0; }

double Policy::gain(double workers) const {
  double most = outer_gain(outer, workers);
  for (const LayerPolicy& layer : layers) most = std::max(most, layer.policy.gain(workers));
  return most;
}

Json Policy::to_json() const {
  if (!layers.empty()) return layers_to_json(*this);
  if (!across.empty()) return write_nested(*this);
  Json json = Json::object();
  json.set("type", name);
  if (name == "custom" && what != What::parameters) json.set("what", what == What::gradient ? "gradient" : "update");
  for (const PolicyAxis* axis : policy_axes()) axis->write(*this, &json);
  return json;
}

Json describe_policy(const Policy& policy) {
  Json told = Json(Json::Object{{"type", policy.name}});
  for (const PolicyAxis* axis : policy_axes())
    if (axis->describe) axis->describe(policy, &told);
  return told;
}

}  // namespace perigee
