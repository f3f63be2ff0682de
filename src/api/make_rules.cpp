// Writes perigee_rules.hpp: a C++ function with an options struct for every layer and optimiser of the registries, a name for every
// schedule, activation, loss, initialiser, evaluation and data source, and the keys of a job. Run by the build, so that one new file is still
// one new file.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/policy/policy.h"
#include "src/data/transform.h"
#include "src/graph/op.h"
#include "src/job/job_schema.h"
#include "src/model/evaluation.h"
#include "src/nn/activations.h"
#include "src/nn/initializer.h"
#include "src/nn/layer.h"
#include "src/nn/loss.h"
#include "src/optim/optimizer_def.h"
#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct OptionText {
  std::string name, comment;
};

// Names of the registries are snake_case; a few are words of C++.
std::string identifier(std::string name) {
  static const std::set<std::string, std::less<>> kWords = {
      "and",     "auto",   "bool",   "case",  "char",   "class",  "concept",  "const", "default", "delete", "do",    "double",
      "else",    "enum",   "false",  "float", "for",    "goto",   "if",       "int",   "long",    "new",    "not",   "or",
      "private", "public", "return", "short", "signed", "switch", "template", "this",  "true",    "union",  "using", "xor"};
  return kWords.contains(name) ? name + "_" : name;
}

std::string one_line(const char* text) {
  std::string line;
  for (const char* at = text ? text : ""; *at; ++at) line += *at == '\n' ? ' ' : *at;
  return line;
}

constexpr const char* kSetMore = "  for (const auto& [name, v] : given.more.members()) all.set(name, v);\n";

// The options that a family's members share; the output lists them once, not with each member.
struct Common {
  std::vector<OptionText> options;  // that a struct has beside its own
  std::string where;                // it is said
  std::set<std::string> names;      // that set_common() sets, with what comes by name
};

void write_struct(std::ostream& out, const std::string& name, const std::vector<OptionText>& own, const Common& common) {
  out << "struct " << name << "_options {\n";
  for (const OptionText& option : own) out << "  api::value " << identifier(option.name) << " = {};  // " << option.comment << "\n";
  if (!common.options.empty()) {
    out << "  api::value";
    for (const OptionText& option : common.options)
      out << (&option == &common.options[0] ? " " : ", ") << identifier(option.name) << " = {}";
    out << ";  // " << common.where << "\n";
  }
  out << "  api::options more = {};  // anything else, by name\n};\n";
}

// pg::conv2d({...}), and with values whose names need not be said: pg::conv2d(20, {...}), pg::conv2d(20, 5, {...}).
void write_family_member(std::ostream& out, const std::string& name, const char* doc, const std::string& result,
                         const std::vector<OptionText>& own, const std::vector<std::string>& positional, const std::string& last,
                         const Common& common = {}) {
  const std::string function = identifier(name), structure = name + "_options";
  write_struct(out, name, own, common);
  out << "// " << one_line(doc) << "\ninline " << result << " " << function << "(const " << structure << "& given = {}) {\n"
      << "  api::options all{{\"type\", \"" << name << "\"}};\n";
  for (const OptionText& option : own)
    if (!common.names.contains(option.name)) out << "  all.set(\"" << option.name << "\", given." << identifier(option.name) << ");\n";
  out << (common.names.empty() ? kSetMore : "  set_common(all, given);\n") << "  return " << last << ";\n}\n";
  for (size_t count = 1; count <= positional.size(); ++count) {
    out << "inline " << result << " " << function << "(";
    for (size_t i = 0; i < count; ++i) out << "api::value value" << i << ", ";
    out << structure << " given = {}) {\n";
    for (size_t i = 0; i < count; ++i) out << "  given." << identifier(positional[i]) << " = std::move(value" << i << ");\n";
    out << "  return " << function << "(given);\n}\n";
  }
  out << "\n";
}

OptionText option_of(const Option& option) {
  const bool told = !option.required() && *option.fallback && (option.fallback != std::string("none") || option.choices[0]);
  const std::string fallback = option.required() ? ", required" : told ? std::string(", ") + option.fallback : "";
  return {option.name, type_text(option) + fallback + ": " + one_line(option.doc)};
}

std::string member_type(const Option& option) {
  if (option.inside == &data_schema) return "data_options";
  const std::string type = type_text(option);
  return type == "network" ? "api::network" : type == "source" ? "source" : "api::value";
}

void write_layers(std::ostream& out) {
  Common common{{}, "as in every layer: see above", {}};
  out << "// Options of every layer:\n";
  for (const Option& option : common_layer_schema.options) {
    common.options.push_back(option_of(option));
    common.names.insert(option.name);
    out << "//   " << option.name << "  " << common.options.back().comment << "\n";
  }
  out << "template <class Options>\nvoid set_common(api::options& all, const Options& given) {\n";
  for (const OptionText& option : common.options) out << "  all.set(\"" << option.name << "\", given." << identifier(option.name) << ");\n";
  out << kSetMore << "}\n\n";
  for (const LayerDef* def : all_layers()) {
    // Where a layer says something of its own of one, its own options have it, and the struct has the others.
    std::vector<OptionText> own;
    Common others = common;
    for (const Option& option : def->schema.options) {
      own.push_back(option_of(option));
      std::erase_if(others.options, [&](const OptionText& other) { return other.name == option.name; });
    }
    const std::string stem = def->stem ? def->stem : def->name;
    write_family_member(out, def->name, def->doc, "layer", own, {def->schema.positional.begin(), def->schema.positional.end()},
                        "layer(std::move(all), \"" + stem + "\")", others);
  }
}

// The key that says how a job is written, which is not the program's to choose.
bool is_format(const Option& option) { return option.name == std::string_view("perigee"); }

// A member for each key of a job, in the schema's order.
void write_keys(std::ostream& out, const Schema& schema, const std::string& name, const char* doc) {
  out << "// " << doc << "\nstruct " << name << " {\n";
  for (const Option& option : schema.options)
    if (!is_format(option))
      out << "  " << member_type(option) << " " << identifier(option.name) << " = {};  // " << option_of(option).comment << "\n";
  out << "};\ninline api::options options_of(const " << name << "& given) {\n  api::options all;\n";
  for (const Option& option : schema.options) {
    const std::string member = "given." + identifier(option.name), type = member_type(option);
    if (is_format(option)) out << "  all.set(\"" << option.name << "\", " << option.fallback << ");\n";
    else
      out << "  all.set(\"" << option.name << "\", "
          << (type == "source"         ? member + ".description()"
              : type == "data_options" ? "options_of(" + member + ")"
                                       : member)
          << ");\n";
  }
  out << "  return all;\n}\n";
}

void write_job(std::ostream& out) {
  write_keys(out, data_schema, "data_options", "What is learned from, and how it is read.");
  out << "inline std::vector<std::pair<const char*, const source*>> parts_of(const data_options& given) {\n  return {";
  const char* separator = "";
  for (const Option& option : data_schema.options)
    if (member_type(option) == "source") {
      out << separator << "{\"" << option.name << "\", &given." << identifier(option.name) << "}";
      separator = ", ";
    }
  out << "};\n}\n\n";
  write_keys(out, job_schema, "experiment", "The keys of a job.");
}

// Optimisers and schedules: a struct of options each.
template <class Registry>
void write_rules(std::ostream& out, const Registry& registry) {
  for (const auto* def : registry) {
    std::vector<OptionText> own;
    for (const Option* option : def->schema.all()) own.push_back(option_of(*option));
    write_family_member(out, def->name, def->doc, "api::options", own, {}, "all");
  }
}

// pg::ops::sigmoid(x), pg::ops::reduce_sum(x, {{"axes", {1}}}): of `type` traced, in layers of one's own, or tensor.
void write_op(std::ostream& out, const OpDef& def, const std::string& type) {
  const bool list = def.min_inputs != def.max_inputs;
  out << "inline " << type << " " << identifier(def.name) << "(";
  if (list) out << "const std::vector<" << type << ">& in, ";
  for (int i = 0; i < def.max_inputs && !list; ++i) out << "const " << type << "& value" << i << ", ";
  out << "const api::options& attrs = {}) {\n  return " << type << (list && type == "tensor" ? "::apply_all(\"" : "::apply(\"") << def.name
      << "\", ";
  if (list) out << "in";
  else out << "{";
  for (int i = 0; i < def.max_inputs && !list; ++i) out << (i ? ", " : "") << "value" << i;
  out << (list ? "" : "}") << ", attrs" << (list && type == "tensor" ? ", 1)[0]" : ")") << ";\n}\n";
}

void write_ops(std::ostream& out) {
  out << "namespace ops {\n\n";
  for (const OpDef* def : all_ops()) {
    if (def->internal || def->max_inputs == 0 || def->effects) continue;
    out << "// " << one_line(def->doc) << "\n";
    write_op(out, *def, "traced");
    if (!def->random) write_op(out, *def, "tensor");
  }
  out << "\n}  // namespace ops\n\n";
}

template <class Registry>
std::vector<std::string> names_of(const Registry& registry) {
  std::vector<std::string> names;
  for (const auto& def : registry) {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(def)>>) names.push_back(def->name);
    else names.push_back(def.name);
  }
  return names;
}

struct Family {
  const char* space;
  std::vector<std::string> names;
  std::function<void(std::ostream&)> write;  // null: each is a `rule`
  bool promoted;                             // also in pg:: itself, unless an earlier family has the name
};

}  // namespace
}  // namespace perigee

int main() {
  using namespace perigee;
  std::vector<std::string> sources, transforms;
  for (const SourceDef* def : source_defs()) sources.push_back(def->type);
  for (const TransformDef* def : transform_defs()) transforms.push_back(def->type);
  const Family families[] = {
      {"layers", names_of(all_layers()), write_layers, true},
      {"activations", names_of(all_activations()), nullptr, true},
      {"optimizers", names_of(all_optimizers()), [](std::ostream& o) { write_rules(o, all_optimizers()); }, true},
      {"schedules", names_of(all_schedules()), [](std::ostream& o) { write_rules(o, all_schedules()); }, true},
      {"losses", names_of(all_losses()), nullptr, false},
      {"initializers", names_of(all_initializers()), nullptr, false},
      {"metrics", names_of(all_evaluations()), nullptr, false},
      {"sources", sources, nullptr, false},
      {"transforms", transforms, nullptr, false},
      {"averaging", names_of(all_policies()), nullptr, false},
  };
  // The names that perigee_value.hpp and perigee.hpp define themselves.
  std::set<std::string> taken = {"value",  "options",    "rule",   "layer",   "node", "network",   "graph", "input",
                                 "make",   "sequential", "error",  "source",  "job",  "step",      "model", "trainer",
                                 "report", "field",      "labels", "context", "data", "experiment"};
  std::ostream& out = std::cout;
  out << "// Generated by the build from the registries of layers, optimisers, schedules, ... Include perigee.hpp instead of this.\n"
         "#pragma once\n\n#include \"perigee_source.hpp\"\n#include \"perigee_tensor_ops.hpp\"\n#include \"perigee_trace.hpp\"\n#include "
         "\"perigee_value.hpp\"\n\nnamespace "
         "perigee::api {\n\n";
  write_ops(out);
  for (const Family& family : families) {
    out << "namespace " << family.space << " {\n\n";
    if (family.write) family.write(out);
    else
      for (const std::string& name : family.names) out << "inline constexpr rule " << identifier(name) << "{\"" << name << "\"};\n";
    out << "\n}  // namespace " << family.space << "\n\n";
    if (!family.promoted) continue;
    for (const std::string& name : family.names)
      if (taken.insert(name).second) out << "using " << family.space << "::" << identifier(name) << ";\n";
    out << "\n";
  }
  write_job(out);
  out << "\n}  // namespace perigee::api\n";
  return 0;
}
