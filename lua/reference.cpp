#include "lua/reference.h"

#include <cstdio>
#include <string>
#include <vector>

#include "cluster/policy/policy.h"
#include "lua/json.h"
#include "src/core/config.h"
#include "src/data/transform.h"
#include "src/graph/op.h"
#include "src/model/evaluation.h"
#include "src/nn/initializer.h"
#include "src/nn/layer.h"
#include "src/nn/loss.h"
#include "src/optim/optimizer_def.h"
#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct OptionText {
  std::string name, type, fallback, doc;
  bool required = false;
};

struct Entry {
  const char* family = "";
  std::string name, doc, example;
  std::vector<OptionText> options;
  std::vector<std::string> positional;
};

class Writer {
 public:
  explicit Writer(lua_State* state) : L(state) { lua_newtable(L); }

  void add(const Entry& entry) {
    lua_newtable(L);
    text("family", entry.family);
    text("name", entry.name);
    text("doc", entry.doc);
    if (!entry.example.empty()) {
      push_json(L, Json::parse(entry.example, entry.name));
      lua_setfield(L, -2, "example");
    }
    add_options("options", entry.options);
    lua_newtable(L);
    for (size_t i = 0; i < entry.positional.size(); ++i) {
      lua_pushstring(L, entry.positional[i].c_str());
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
    lua_setfield(L, -2, "positional");
    lua_rawseti(L, -2, ++count_);
  }

  void add_options(const char* key, const std::vector<OptionText>& options) {
    lua_newtable(L);
    for (size_t i = 0; i < options.size(); ++i) {
      lua_newtable(L);
      text("name", options[i].name);
      text("type", options[i].type);
      text("fallback", options[i].fallback);
      text("doc", options[i].doc);
      lua_pushboolean(L, options[i].required);
      lua_setfield(L, -2, "required");
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
    lua_setfield(L, -2, key);
  }

 private:
  void text(const char* key, const std::string& value) {
    if (value.empty()) return;
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, key);
  }

  lua_State* L;
  int count_ = 0;
};

std::string or_empty(const char* text) { return text ? text : ""; }

std::vector<OptionText> options_of(std::span<const OptionDef> defs) {
  std::vector<OptionText> options;
  for (const OptionDef& def : defs)
    options.push_back({def.name, or_empty(def.type), or_empty(def.fallback), or_empty(def.doc), def.fallback == nullptr});
  return options;
}

// Options that a reader asks its Config for, whether it then likes the description or not.
template <class Read>
std::vector<OptionText> asked_options(const std::string& description, const char* name, const Read& read) {
  const Json json = Json::parse(description, name);
  const Config config(json, name);
  try {
    read(config);
  } catch (const Error&) {}  // a required option is missing: it was asked for
  std::vector<OptionText> options;
  for (const std::string& key : config.asked())
    if (key != "type") options.push_back({.name = key, .type = "", .fallback = "", .doc = ""});
  return options;
}

std::string only_type(const char* name) { return std::string(R"({"type": ")") + name + "\"}"; }

std::vector<OptionText> optimizer_options(const OptimizerDef& def) {
  std::vector<OptionText> options;
  for (const RuleOption& option : def.options) {
    char fallback[40];
    std::snprintf(fallback, sizeof fallback, "%g", option.fallback);
    options.push_back({option.name, "number or schedule", fallback, or_empty(option.doc)});
  }
  for (const RuleFlag& flag : def.flags) options.push_back({flag.name, "boolean", flag.fallback ? "true" : "false", or_empty(flag.doc)});
  for (const char* name : option_names(def)) {
    bool known = false;
    for (const OptionText& option : options) known |= option.name == name;
    if (!known) options.push_back({name, "number or schedule", "lr", "learning rate of biases"});
  }
  return options;
}

std::vector<OptionText> loss_options(const LossDef& def) {
  return asked_options(def.example ? def.example : only_type(def.name), def.name, [&](const Config& config) {
    const Json dims = Json::parse(def.example_output, def.name);
    std::vector<int64_t> output = {2}, target = {2};
    for (const Json& dim : dims.as_array()) output.push_back(dim.as_int());
    const std::string kind = def.example_target;
    if (kind == "pair") target.push_back(2);
    else if (kind != "class") target = output;
    Graph graph;
    const Value y = graph.input("target", {kind == "class" ? Dtype::i64 : Dtype::f32, Shape(target)});
    def.build(graph, config, graph.input("output", {Dtype::f32, Shape(output)}), y);
  });
}

Entry policy_entry(const PolicyDef& def) {
  Entry entry{.family = "policy", .name = def.name, .doc = def.doc, .example = "", .options = {}, .positional = def.positional};
  for (const PolicyOption& option : def.options) entry.options.push_back({option.name, option.type, option.fallback, option.doc});
  return entry;
}

}  // namespace

int push_reference(lua_State* L) {
  luaL_checkstack(L, 8, "reference");
  Writer writer(L);
  for (const LayerDef* def : all_layers())
    writer.add({"layer",
                def->name,
                or_empty(def->doc),
                or_empty(def->example),
                options_of(def->options),
                {def->positional.begin(), def->positional.end()}});
  for (const OptimizerDef* def : all_optimizers()) {
    Entry entry{"optimizer", def->name, or_empty(def->doc), or_empty(def->example), optimizer_options(*def), {}};
    if (!entry.options.empty()) entry.positional = {entry.options[0].name};
    writer.add(entry);
  }
  for (const ScheduleDef* def : all_schedules())
    writer.add(
        {"schedule",
         def->name,
         or_empty(def->doc),
         or_empty(def->example),
         asked_options(def->example ? def->example : only_type(def->name), def->name, [&](const Config& config) { def->read(config); }),
         {}});
  for (const LossDef* def : all_losses())
    writer.add({"loss", def->name, or_empty(def->doc), or_empty(def->example), loss_options(*def), {}});
  for (const InitializerDef* def : all_initializers()) {
    std::vector<float> values(6);
    const ParameterSpec spec{.name = "w", .shape = Shape({2, 3}), .fan_in = 3, .fan_out = 2};
    writer.add({"initializer",
                def->name,
                or_empty(def->doc),
                "",
                asked_options(only_type(def->name), def->name, [&](const Config& config) { def->fill(config, spec, 0, values); }),
                {}});
  }
  for (const EvaluationDef* def : all_evaluations())
    writer.add({"metric",
                def->name,
                or_empty(def->doc),
                "",
                asked_options(only_type(def->name), def->name, [&](const Config& config) { def->make(config, {.classes = 2}); }),
                {}});
  for (const SourceDef* def : source_defs()) writer.add({"source", def->type, or_empty(def->doc), "", {}, {}});
  for (const TransformDef* def : transform_defs()) writer.add({"transform", def->type, or_empty(def->doc), "", {}, {}});
  for (const PolicyDef& def : all_policies()) writer.add(policy_entry(def));
  for (const OpDef* def : all_ops()) {
    std::vector<std::string> operands;
    for (int i = 0; i < (def->max_inputs < 0 ? 2 : def->max_inputs); ++i) operands.push_back(std::string(1, static_cast<char>('a' + i)));
    if (def->max_inputs != 0) writer.add({"op", def->name, or_empty(def->doc), "", {}, operands});
  }
  writer.add_options("common", options_of(common_layer_options()));
  return 1;
}

}  // namespace perigee
