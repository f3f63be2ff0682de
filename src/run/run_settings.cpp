#include "src/run/run_settings.h"

#include <algorithm>
#include <cstring>

#include "src/job/job_schema.h"
#include "src/nn/describe.h"
#include "src/nn/layer.h"
#include "src/optim/clip.h"
#include "src/optim/optimizer.h"
#include "src/optim/regularizer.h"
#include "src/train/loss_factors.h"

namespace perigee {
namespace {

constexpr const char* kSections[] = {"optimizer", "clip", "regularization", "early_stopping", "checkpoint", "data"};
constexpr const char* kOfSeveral[] = {"optimizer", "clip", "regularization"};
constexpr const char* kTermSections[] = {"loss", "terms"};
constexpr Option kTermWeight = {"weight", "number or schedule", "as in the job", "factor of this term of the loss", {0, 1e9}};

// Numbers of the top level.
constexpr const char* kTop[] = {"epochs", "steps"};

bool is_in(std::string_view name, std::span<const char* const> names) {
  return std::ranges::any_of(names, [&](const char* each) { return name == each; });
}

// A run has made this of an option before its first step.
struct Reason {
  const char* option;
  const char* why;
  const char* hint;
};
constexpr const char* kResume = "stop the run, and resume it with --set OPTION=VALUE";
constexpr const char* kAnew = "start another run with it";
constexpr Reason kReasons[] = {
    {"network", "is compiled into the steps, and the parameters are laid out by it", kAnew},
    {"inputs", "is compiled into the steps", kAnew},
    {"target", "is compiled into the steps", kAnew},
    {"loss", "is compiled into the steps; what can change is a weight that is a schedule in the job, such as weight = pg.fixed { 1 }",
     kResume},
    {"terms", "has none of this name; what can change is a factor that is a schedule in the job, such as pg.vae { kl = pg.fixed { 1 } }",
     kResume},
    {"loss_scale", "moves by itself, and is part of the steps otherwise", kResume},
    {"precision", "is compiled into the steps", kResume},
    {"recompute", "is compiled into the steps", kResume},
    {"constraint", "is laid out over the parameters when the run begins", kResume},
    {"lookahead", "has laid out slow weights beside the parameters", kResume},
    {"seed", "has made the first parameters and the order of the examples", kAnew},
    {"threads", "cuts up the memory of the steps", kResume},
    {"device", "is where the numbers of the run lie", kResume},
    {"devices", "is where the numbers of the run lie", kResume},
    {"deterministic", "is compiled into the steps", kResume},
    {"memory_limit", "has decided what the steps compute again", kResume},
    {"metrics", "is compiled into the evaluation", kResume},
    {"pretrained", "has given the first parameters", kAnew},
    {"averaging", "is agreed on by all workers when they join; of its options `every` can change", kResume},
    {"data", "has been opened by it", kResume},
    {"checkpoint.best", "is watched from the first epoch on", kResume},
    {"early_stopping.metric", "is watched from the first epoch on", kResume},
    {"early_stopping.lower_is_better", "has judged the epochs so far", kResume},
    {"optimizer.type", "has laid out the states of the rule", kAnew},
    {"clip.type", "has laid out how norms are measured", kResume},
    {"name", "is the name of the run folder", kAnew},
    {"perigee", "is the format of the job", kAnew},
    {"freeze", "is compiled into the steps", kResume},
    {"phases", "are made one after the other, as the run began with them", kResume},
    {"objectives", "are compiled into the steps", kResume},
};

std::string section_of(std::string_view option) {
  const size_t dot = option.find('.');
  return dot == option.npos ? "" : std::string(option.substr(0, dot));
}
std::string key_of(std::string_view option) { return std::string(option.substr(option.find('.') + 1)); }

const Reason* reason_of(const std::string& option) {
  const std::string top = option.substr(0, option.find('.'));
  for (const std::string& name : {option, top})
    for (const Reason& reason : kReasons)
      if (name == reason.option) return &reason;
  return nullptr;
}

std::string hint_of(const Reason& reason, const std::string& option) {
  std::string hint = reason.hint;
  if (const size_t at = hint.find("OPTION"); at != hint.npos) hint.replace(at, std::strlen("OPTION"), option);
  return hint;
}

bool is_steered(const std::string& section, const Option& option) {
  if (reason_of(section + "." + option.name) && section != "data") return false;
  if (section == "data") return std::strcmp(option.name, "batch") == 0;
  return (option.type->values & (takes::number | takes::boolean)) != 0;
}

std::string type_of(const Json* description) {
  if (description && description->is_string()) return description->as_string();
  const Json* type = description ? description->find("type") : nullptr;
  return type && type->is_string() ? type->as_string() : "";
}

// The options of a section of this job; none: the job has no such section.
std::vector<const Option*> options_of(const Json& job, const std::string& section) {
  const Json* here = job.find(section);
  const bool there = here && !here->is_null() && !(here->is_bool() && !here->as_bool());
  if (section == "optimizer") return there ? optimizer_named(type_of(here), section).schema.all() : std::vector<const Option*>{};
  if (section == "regularization") return regularization_schema.all();
  if (section == "checkpoint") return !here || there ? checkpoint_schema.all() : std::vector<const Option*>{};
  if (section == "data") return data_schema.all();
  if (!there) return {};
  if (section == "early_stopping") return early_stopping_schema.all();
  for (const NamedSchema& kind : clip_kinds())
    if (type_of(here) == kind.name) return kind.schema.all();
  return {};
}

const Option* option_of(const Json& job, const std::string& name) {
  const std::string section = section_of(name), key = key_of(name);
  if (section.empty()) return is_in(name, kTop) ? job_schema.find(name) : nullptr;
  if (!is_in(section, kSections)) return nullptr;
  for (const Option* option : options_of(job, section))
    if (key == option->name) return is_steered(section, *option) ? option : nullptr;
  return nullptr;
}

const Json* value_at(const Json& job, const std::string& name) {
  const std::string section = section_of(name);
  const Json* at = section.empty() ? &job : job.find(section);
  return at ? at->find(key_of(name)) : nullptr;
}

void put(Json& job, const std::string& name, const Json& value) {
  const std::string section = section_of(name);
  if (section.empty()) return void(job.set(name, value));
  const Json* before = job.find(section);
  Json object = before && before->is_object() ? *before : Json::object();
  if (before && before->is_string()) object.set("type", *before);
  if (value.is_null()) object.erase(key_of(name));
  else object.set(key_of(name), value);
  job.set(section, std::move(object));
}

std::vector<std::string> names_of(const Json& job, bool several) {
  std::vector<std::string> names;
  for (const char* section : kSections) {
    if (several && !is_in(section, kOfSeveral)) continue;
    for (const Option* option : options_of(job, section))
      if (is_steered(section, *option)) names.push_back(std::string(section) + "." + option->name);
  }
  if (!several) names.insert(names.end(), std::begin(kTop), std::end(kTop));
  return names;
}

// A section that the job does not have, and how one begins a run with it.
std::string missing_section(const Json& job, const std::string& section) {
  if (!is_in(section, kSections) || !options_of(job, section).empty()) return "";
  return std::string("start the run with ") + section + " = " + job_example("", section);
}

}  // namespace

std::string RunSettings::resolve(const std::string& option) const {
  const Json& job = job_.json();
  std::string name = option == "lr" ? "optimizer.lr" : option == "batch" ? "data.batch" : option;
  const std::string section = section_of(name);
  if (section == "clip" && key_of(name) == type_of(job.find("clip"))) name = "clip.threshold";
  const bool ours = !several_ || is_in(section, kOfSeveral) || is_in(section, kTermSections);
  if (ours && option_named(name)) return name;
  const std::string where = "run." + option;
  if (const std::string hint = missing_section(job, section); !hint.empty())
    throw Error(ErrorKind::usage, {.where = where, .what = "the job has no " + section, .hint = hint});
  const std::vector<std::string> known = names();
  if (!ours && option_of(job, name))
    throw Error(
        ErrorKind::usage,
        {.where = where,
         .what = "cannot change in a run of several workers",
         .expected = "an option of optimizer, clip or regularization, a weight of the loss that is a schedule, or averaging.every"});
  const bool of_section = job_schema.find(section) != nullptr && reason_of(name) != nullptr;
  const bool top = section == "terms" || (section.empty() ? job_schema.find(name) != nullptr : of_section);
  if (const Reason* reason = reason_of(name); reason && top)
    throw Error(
        ErrorKind::usage,
        {.where = where, .what = "cannot change while the run trains: it " + std::string(reason->why), .hint = hint_of(*reason, name)});
  std::string hint = nearest_hint(name, known), text;
  for (const std::string& each : known)
    if (section.empty() || section_of(each) == section) text += (text.empty() ? "" : ", ") + each;
  throw Error(ErrorKind::usage, {.where = where, .what = "is no option that can change", .expected = text, .hint = std::move(hint)});
}

Json RunSettings::changed() const {
  Json job = job_.json();
  for (const Change& change : changes_)
    if (!term(change.option)) put(job, change.option, change.value);
  return job;
}

Json RunSettings::changed_terms() const {
  Json found = Json::object();
  for (const Change& change : changes_)
    if (term(change.option)) found.set(change.option, change.value);
  return found;
}

const RunSettings::Term* RunSettings::term(const std::string& option) const {
  for (const Term& each : terms_)
    if (each.option == option) return &each;
  return nullptr;
}

const Option* RunSettings::option_named(const std::string& name) const { return term(name) ? &kTermWeight : option_of(job_.json(), name); }

const Json* RunSettings::value_before(const std::string& name) const {
  const Term* found = term(name);
  return found ? &found->schedule : value_at(job_.json(), name);
}

std::vector<std::string> RunSettings::names() const {
  std::vector<std::string> all = names_of(job_.json(), several_);
  for (const Term& each : terms_) all.push_back(each.option);
  return all;
}

Json RunSettings::with(const std::string& resolved, const Json& value) const {
  if (const Option* option = option_named(resolved); option && !value.is_null())
    check_option(value, *option, "run." + resolved, ErrorKind::usage);
  Json job = changed();
  if (!term(resolved)) put(job, resolved, value);
  return job;
}

void RunSettings::keep(const std::string& resolved, const Json& value) {
  for (Change& change : changes_)
    if (change.option == resolved) return void(change.value = value);
  const Json* before = value_before(resolved);
  changes_.push_back({resolved, value, before ? *before : Json()});
}

Json RunSettings::list() const {
  const Json now = changed(), terms = changed_terms();
  Json list = Json::object();
  for (const std::string& name : names()) {
    const Option& option = *option_named(name);
    Json entry = Json(Json::Object{{"type", type_text(option)}, {"doc", option.doc}});
    const Json* value = term(name) ? terms.find(name) : value_at(now, name);
    if (!value && term(name)) value = value_before(name);
    if (!value || value->is_null()) entry.set("value", fallback_value(option));
    else entry.set("value", *value);
    if (option.fallback) entry.set("fallback", option.fallback);
    if (name == "clip.threshold") entry.set("also", type_of(now.find("clip")));
    list.set(name, std::move(entry));
  }
  return list;
}

Json RunSettings::state() const {
  Json list = Json::array();
  for (const Change& change : changes_)
    list.push(Json(Json::Object{{"option", change.option}, {"value", change.value}, {"before", change.before}}));
  return list;
}

std::vector<RunSettings::Change> RunSettings::changes_of(const Json& state) const {
  std::vector<Change> found;
  if (!state.is_array()) return found;
  for (const Json& item : state.as_array()) {
    const Json *option = item.find("option"), *value = item.find("value"), *before = item.find("before");
    if (!option || !option->is_string() || !value || !option_named(option->as_string())) continue;
    const Json* now = value_before(option->as_string());
    const Json own = now ? *now : Json();
    if (own == (before ? *before : Json())) found.push_back({option->as_string(), *value, own});
  }
  return found;
}

std::vector<RunSettings::Term> terms_of(const Model& model) {
  std::vector<RunSettings::Term> terms;
  for (const LossFactor& factor : model.factors()) terms.push_back({option_of_factor(factor), factor.schedule});
  return terms;
}

// The layers of a job whose network is not built, by their own options; those inside of other layers are not among them.
std::vector<RunSettings::Term> terms_of(const Job& job) {
  std::vector<RunSettings::Term> terms;
  const Json *loss = job.json().find("loss"), *network = job.json().find("network");
  if (loss && loss->is_object() && !loss->find("type"))
    for (const auto& [name, head] : loss->as_object())
      if (const Json* weight = head.find("weight"); weight && weight->is_object()) terms.push_back({"loss." + name + ".weight", *weight});
  if (!network) return terms;
  std::vector<LayerText> layers;
  if (is_graph(*network)) {
    for (NodeText& node : read_graph(*network, job.where(), "").nodes) layers.push_back(std::move(node.layer));
  } else {
    layers = read_sequence(*network, job.where(), "");
  }
  for (const LayerText& layer : layers)
    for (const Option* option : layer.def->schema.all())
      if (const Json* value = layer.json.find(option->name); value && value->is_object() && option->type == kTermWeight.type)
        terms.push_back({"terms." + layer.name + "." + option->name, *value});
  return terms;
}

RunSettings settings_of(const Job& job, const Json& set) {
  RunSettings settings(job, terms_of(job), true);
  for (const auto& [option, value] : set.as_object()) settings.keep(option, value);
  return settings;
}

}  // namespace perigee
