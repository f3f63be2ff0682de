#include "src/train/training_setup.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "src/core/cores.h"
#include "src/core/pattern.h"
#include "src/data/padding.h"
#include "src/data/streams.h"
#include "src/io/file.h"
#include "src/job/canonical.h"
#include "src/job/job_parts.h"
#include "src/model/field_roles.h"
#include "src/model/inference.h"
#include "src/nn/describe.h"
#include "src/optim/run_end.h"
#include "src/train/class_weights.h"
#include "src/train/device/host_only.h"
#include "src/train/target_check.h"

namespace perigee {

std::string SourceOpener::locate(const std::string& path, const std::string&, const std::string& folder) { return path_in(folder, path); }

namespace {

int thread_count(const TrainerOptions& options, const Json& job) {
  if (options.backend == Backend::cuda) return 1;  // it only tells the device what to do
  if (options.threads > 0) return options.threads;
  const Json* wanted = job.find("threads");
  if (wanted && wanted->is_int() && wanted->as_int() > 0) return static_cast<int>(std::min<int64_t>(wanted->as_int(), 1024));
  return available_cores();
}

std::vector<std::string> input_names(const Config& job) {
  std::vector<std::string> names = job.string_list("inputs");
  if (names.empty()) names.push_back("x");
  return names;
}

int input_field(const Job& job, const DataSource& source, const std::string& name) {
  try {
    return field_index(source, name);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.got = std::exchange(parts.where, input_place(*job.json().find("network"), name, job.where() + ": inputs"));
    throw job.placed(Error(error.kind(), std::move(parts)));
  }
}

// The field that a loss compares with. Pictures and recordings have one where they lie in folders of classes.
int target_field(const DataSource& source, const std::string& name, const std::string& where) {
  try {
    return static_cast<int>(field_index(source, name));
  } catch (const Error& error) {
    const std::string of = source.traits().description,
                      own = "target = \"" + source.fields()[0].name + "\" is of a network that foretells its input";
    Error::Parts parts = error.parts();
    parts.where = where;
    parts.got = of;
    if (parts.hint.empty()) {
      const bool folders = of.find("images (") != of.npos || of.find("audio (") != of.npos;
      parts.hint =
          (folders ? "the names of folders are the classes: put the files of each class into a folder of its own inside of it; " : "") +
          own;
    }
    throw Error(error.kind(), std::move(parts));
  }
}

// Lane i of the data is row i of every batch.
void check_streams(int64_t streams, int64_t batch, const Config& data) {
  if (streams == 0) return;
  if (batch != streams)
    data.fail("batch", "is not the number of streams, each of which is a row of every batch", std::to_string(batch),
              "batch = " + std::to_string(streams));
  if (data.boolean("shuffle", false)) data.fail("shuffle", "mixes streams, which are read in their own order", "true", "false");
}

std::vector<std::string> parameter_names(const Params& params) {
  std::vector<std::string> names;
  for (const ParameterSpec& spec : params.specs()) names.push_back(spec.name);
  return names;
}

bool matches_any(const std::string& pattern, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return matches_pattern(pattern, name); });
}

}  // namespace

TrainingSetup::TrainingSetup(const Job& of, const TrainerOptions& chosen)
    : job(objective_count(of) > 0 ? objective_job(of, 0) : of),
      options(chosen),
      team(thread_count(chosen, of.json())),
      times(chosen.trace) {
  if (objective_count(of) > 0) objective = objective_of(of, 0);
  const PhaseScope scope(times, TracePhase::open);
  try {
    open();
  } catch (const Error& error) {
    throw job.placed(error);
  }
}

TrainingSetup::TrainingSetup(const Job& of, size_t i, const TrainingSetup& first)
    : job(objective_job(of, i)),
      options(first.options),
      team(thread_count(options, job.json())),
      times(options.trace),
      source(first.source),
      objective(objective_of(of, i)) {
  options.trace = nullptr;  // its spans are in those of the step
  open();
  model->params().share(first.model->params());
}

// Where the job has objectives, the parameters that this one does not update are constants to it.
void TrainingSetup::choose_updates() {
  if (!objective) return;
  Params& params = model->params();
  const std::vector<std::string>& updates = objective->updates;
  const std::vector<std::string> names = parameter_names(params);
  for (const std::string& pattern : updates)
    if (!matches_any(pattern, names))
      throw Error(ErrorKind::model, {.where = job.where() + ": updates of " + objective->name,
                                     .what = "has a pattern that no parameter matches",
                                     .got = "'" + pattern + "'",
                                     .hint = nearest_hint(pattern, names)});
  for (size_t p = 0; p < names.size(); ++p)
    if (std::ranges::none_of(updates, [&](const std::string& pattern) { return matches_pattern(pattern, names[p]); }))
      params.keep(static_cast<int>(p));
}

void TrainingSetup::open() {
  if (!source) source = open_part("train", Config(job.json(), job.where()).object("data").object("train"));
  balance_classes(job, *source);
  const Config config(job.json(), job.where());
  const Config data = config.object("data");
  const int64_t each = data.integer_in("batch", 1, int64_t{1} << 24, 32);          // of one GPU
  const int64_t global = data.integer_in("global_batch", 0, int64_t{1} << 24, 0);  // of all together
  at_once = gpus() > 1 && global > 0 ? global : each * gpus();
  batch = at_once * accumulate_of(job);
  read_placement(data);  // says what is wrong with it; only a cluster goes by it
  seed = static_cast<uint64_t>(config.integer("seed", 0));
  streams = streams_of(*source);
  check_streams(streams, at_once, data);
  if (streams > 0 && batch != at_once)
    config.fail("accumulate", "takes several batches of streams at once, which go on from batch to batch", std::to_string(batch / at_once),
                "1 with data of 'streams'");

  ModelSpec spec{.network = *config.raw("network"), .where = job.where(), .dtype = job.precision(), .half = job.half()};
  scale = read_loss_scale(job);
  for (const std::string& name : input_names(config)) {
    const int field = input_field(job, *source, name);
    input_fields.push_back(field);
    spec.inputs.push_back({name, {source->fields()[static_cast<size_t>(field)].dtype, source->fields()[static_cast<size_t>(field)].shape}});
  }
  read_losses(config, &spec);
  add_field_roles(data, *source, &spec);
  spec.freeze = config.string_list("freeze");
  if (const Json* pretrained = config.raw("pretrained"); pretrained && pretrained->is_object())
    for (const std::string& pattern : Config(*pretrained, job.where() + ": pretrained").string_list("freeze"))
      spec.freeze.push_back(pattern);
  model = std::make_unique<Model>(std::move(spec));
  factors = LossFactors(model->factors(), batch, model->params().dtype());
  choose_updates();
  for (const NetworkInput& field : fields_of(model->spec(), true)) read_fields.push_back(field_index(*source, field.name));
  check_carried(data);
  weights.emplace(*model, *source);
  check_freeze(config);
  scale_rates(config);
  refuse_classes_as_amounts(*model, *source, job.where() + ": loss");
  choices.emplace(*model, *source, job.where() + ": loss");
  math = &block_math(model->params().dtype());
  make_optimizer();
  if (optimizer->lookahead() && options.backend == Backend::cuda) refuse_lookahead(job.where());
  if (optimizer->programmed() && options.backend == Backend::cuda) refuse_own_rule(job.where());
  for (size_t i = 0; i < optimizer->slots().size(); ++i) {
    slots.emplace_back(model->params().block_bytes());
    slot_pointers.push_back(slots.back().data());
  }
  if (options.measure && options.backend != Backend::cuda) tuning.load_machine();  // a device's is read when the device is known
  if (options.tuning.is_object()) tuning.adopt(options.tuning);
}

// A network that carries state from batch to batch is for streams, whose rows go on, and for threads of one host.
void TrainingSetup::check_carried(const Config& data) const {
  if (model->carried().empty()) return;
  const std::string layer = "'" + model->carried()[0].name + "'";
  if (streams == 0)
    data.object("train").fail("streams", "is missing: the network carries " + layer + " from batch to batch", "windows that stand alone",
                              "streams = " + std::to_string(batch), "or leave out state = \"carry\"");
}

// "loss": a loss for the first output and the field "target"; or, by output name, {"digit": {"type": "cross_entropy", "target": "y",
// "weight": 1}, "angle": {...}}: the first is the one that metrics look at.
void TrainingSetup::read_losses(const Config& config, ModelSpec* spec) {
  const Json* given = config.raw("loss");
  if (!given || given->is_null())
    throw Error(ErrorKind::model,
                {.where = job.where(), .what = "a job that trains needs a 'loss'", .hint = "for example \"cross_entropy\""});
  const Json& loss = *given;
  const std::string main_target = config.string("target", "y");
  const auto input_of = [&](const std::string& name) {
    target_fields.push_back(target_field(*source, name, job.where() + ": data: train"));
    const Field& field = source->fields()[static_cast<size_t>(target_fields.back())];
    return NetworkInput{field.name, {field.dtype, field.shape}};
  };
  if (!loss.is_object() || loss.find("type")) {
    spec->loss = canonical_part(loss);
    spec->target = input_of(main_target);
  } else {
    const Json* outputs = spec->network.find("outputs");
    std::vector<std::string> names;
    if (outputs && outputs->is_array())
      for (const Json& name : outputs->as_array()) names.push_back(name.is_string() ? name.as_string() : "");
    for (const auto& [name, head] : loss.as_object()) {
      const std::string where = job.where() + ": loss." + name;
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end())
        throw Error(ErrorKind::model,
                    {.where = where, .what = "the network has no output '" + name + "'", .hint = nearest_hint(name, names)});
      LossHead read;
      read.output = static_cast<int>(found - names.begin());
      read.loss = canonical_part(head);
      std::string target = main_target;
      if (head.is_object()) {
        const Config options(head, where);
        target = options.string("target", main_target);
        if (const Json* weight = options.raw("weight"); weight != nullptr && weight->is_object()) {
          read.schedule = *weight;
          read.weight = at_run_end(*weight, where + ": weight");
        } else {
          read.weight = options.number_in("weight", 0, 1e9, 1);
        }
        read.loss.erase("target");
        read.loss.erase("weight");
      }
      read.target = input_of(target);
      if (target_fields.size() > 1) {
        read.class_names = source->fields()[static_cast<size_t>(target_fields.back())].class_names;
        spec->more_heads.push_back(std::move(read));
        continue;
      }
      spec->loss = read.loss;
      spec->loss_output = read.output;
      spec->loss_weight = read.weight;
      spec->loss_schedule = read.schedule;
      spec->target = read.target;
    }
    if (target_fields.empty())
      throw Error(ErrorKind::model,
                  {.where = job.where() + ": loss", .what = "names no output", .expected = "a loss, or one for each output"});
  }
  spec->classes = source->fields()[static_cast<size_t>(target_fields[0])].classes;
}

// "freeze", "pretrained.freeze": the network was built with them.
void TrainingSetup::check_freeze(const Config& config) const {
  std::vector<std::string> known = parameter_names(model->params());
  for (const StateSpec& spec : model->params().state_specs()) known.push_back(spec.name);
  const size_t own = config.string_list("freeze").size();
  for (size_t i = 0; i < model->spec().freeze.size(); ++i) {
    const std::string& pattern = model->spec().freeze[i];
    if (!matches_any(pattern, known))
      (i < own ? config : config.object("pretrained"))
          .fail("freeze", "has a pattern that no parameter matches", "'" + pattern + "'", "", nearest_hint(pattern, known));
  }
}

// "lr_scale": factors by patterns of names. A parameter takes that of the longest pattern that it matches: a table of Lua has no order.
void TrainingSetup::scale_rates(const Config& config) {
  const Json* given = config.raw("lr_scale");
  if (!given || given->is_null()) return;
  const Config scales = config.object("lr_scale");
  const std::vector<std::string> names = parameter_names(model->params());
  for (const auto& [pattern, factor] : given->as_object()) {
    scales.number_in(pattern, 0, 1e6, 1);
    if (!matches_any(pattern, names)) scales.fail(pattern, "is a pattern that no parameter matches", "", "", nearest_hint(pattern, names));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const Json::Member* chosen = nullptr;
    for (const Json::Member& member : given->as_object())
      if (matches_pattern(member.first, names[i]) && (!chosen || member.first.size() > chosen->first.size())) chosen = &member;
    for (const Json::Member& member : given->as_object())
      if (chosen && member.first.size() == chosen->first.size() && matches_pattern(member.first, names[i]) &&
          !(chosen->second == member.second))
        scales.fail(member.first, "and '" + chosen->first + "' are equally long, and both are patterns of '" + names[i] + "'", "",
                    "one factor for each parameter", "give '" + names[i] + "' a longer pattern");
    if (chosen) model->params().scale_rate(static_cast<int>(i), chosen->second.as_number());
  }
}

OptimizerOptions optimizer_options(const Json& job) {
  const auto part = [&](const char* key) {
    const Json* found = job.find(key);
    return found ? *found : Json();
  };
  return {.optimizer = part("optimizer"),
          .regularization = part("regularization"),
          .clip = part("clip"),
          .constraint = part("constraint"),
          .lookahead = part("lookahead")};
}

void TrainingSetup::make_optimizer() {
  optimizer = std::make_unique<Optimizer>(optimizer_options(job.json()), model->params().windows(), job.where(), model->params().dtype());
}

void TrainingSetup::initialize_values() {
  try {
    model->params().initialize(seed);
  } catch (const Error& error) {
    throw job.placed(error.within(job.where() + ": network"));
  }
  for (const Storage& slot : slots) std::memset(slot.data(), 0, slot.bytes());
  optimizer->initialize(slot_pointers.data());
  scale = read_loss_scale(job);
}

bool TrainingSetup::has_part(const std::string& part) const {
  const Json* data = job.json().find("data");
  const Json* found = data ? data->find(part) : nullptr;
  return found && !found->is_null();
}

SourcePtr TrainingSetup::open_part(const std::string& part, const Config& description) const {
  const auto open = [&](const Config& from) {
    return options.opener ? options.opener->open(part, from, job.folder()) : open_source(from, job.folder());
  };
  const Json padded = with_padding(description.json(), *job.json().find("data"));
  return padded == description.json() ? open(description) : open(Config(padded, description.where()));
}

}  // namespace perigee
