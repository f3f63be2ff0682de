#include "src/train/trainer.h"

#include <cassert>
#include <utility>

#include "src/core/warning.h"
#include "src/data/streams.h"
#include "src/model/evaluator.h"
#include "src/model/inference.h"
#include "src/model/prediction.h"
#include "src/train/gradient_buckets.h"
#include "src/train/line_steps.h"

namespace perigee {

Json Position::to_json() const {
  Json json = Json::object();
  json.set("epoch", static_cast<int64_t>(epoch));
  json.set("position", position);
  json.set("step", step);
  json.set("examples", examples);
  return json;
}

Position Position::from_json(const Config& config) {
  constexpr int64_t kMost = int64_t{1} << 53;
  return {.epoch = static_cast<uint64_t>(config.integer_in("epoch", 0, kMost)),
          .position = config.integer_in("position", 0, kMost),
          .step = config.integer_in("step", 0, kMost),
          .examples = config.integer_in("examples", 0, kMost)};
}

Trainer::Trainer(const Job& job, const TrainerOptions& options) : t_(job, options), engine_(make_engine(t_)) {
  const PhaseScope scope(t_.times, TracePhase::open);
  const Config config(t_.job.json(), t_.job.where());
  count_steps(config);
  if (t_.objective) turns_ = std::make_unique<ObjectiveTurns>(job, t_);
  try {
    t_.average = WeightAverage::of(t_.job, t_.model->params());
  } catch (const Error& error) {
    throw t_.job.placed(error);
  }
  initialize_values();
  engine_->build();
  if (turns_) turns_->build();
  if (engine_->holds_examples()) t_.choices->check_all(*t_.source, t_.job.where() + ": data: train");
  make_parts();
  loader_ = make_loader(engine_->most_at_once());
  queued_.reserve(engine_->depth());
  measured_ = engine_->measure(*loader_);
  if (turns_) turns_->measure(*loader_, engine_->sub_batch());
  lines_ = LineSteps::of(t_, *engine_, !turns_ && !parts_);
  if (lines_) cut_gradient(t_.model->params().block_bytes());
  if (parts_) loader_ = make_loader(t_.batch);
}

Trainer::~Trainer() = default;

std::unique_ptr<Loader> Trainer::make_loader(int64_t batch) const {
  const Config data = Config(t_.job.json(), t_.job.where()).object("data");
  const int64_t readers = data.integer_in("threads", 0, 256, t_.source->traits().cheap ? 0 : 1);
  return std::make_unique<Loader>(t_.source,
                                  LoaderOptions{.batch = batch,
                                                .seed = t_.seed,
                                                .shuffle = streams_of(*t_.source) == 0 && data.boolean("shuffle", true),
                                                .shards = streams_of(*t_.source) == 0 ? t_.options.shards : 1,  // lanes keep their places
                                                .threads = static_cast<int>(readers),
                                                .ids_only = engine_->holds_examples(),
                                                .trace = t_.options.trace});
}

// "steps" counts batches of all GPUs together, as of all workers.
void Trainer::count_steps(const Config& config) {
  const int64_t epochs = config.integer_in("epochs", 0, int64_t{1} << 32, 1);
  max_steps_ = config.integer_in("steps", 0, int64_t{1} << 52, 0);
  planned_examples_ = epochs * t_.source->size();
  const Config data = config.object("data");
  const int64_t global = data.integer_in("global_batch", 0, int64_t{1} << 24, 0);
  const int64_t each = t_.gpus() > 1 && global > 0 ? global : data.integer_in("batch", 1, int64_t{1} << 24, 32);
  const int64_t counted = each * accumulate_of(t_.job);
  if (max_steps_ > 0)
    planned_examples_ = epochs > 0 && config.has("epochs") ? std::min(planned_examples_, max_steps_ * counted) : max_steps_ * counted;
  max_steps_ = (max_steps_ * counted + t_.batch - 1) / t_.batch;
  if (max_steps_ > 0) max_steps_ += origin_.step;
  if (planned_examples_ > 0) planned_examples_ += origin_.examples;
  planned_epochs_ = config.has("epochs") || max_steps_ == 0 ? epochs : 0;
}

void Trainer::initialize_values() {
  t_.initialize_values();
  if (turns_) turns_->initialize();
  if (lines_) lines_->minimizer().forget();
  if (t_.average) t_.average->begin_again(0);
  engine_->host_changed(Numbers::model);
  engine_->host_changed(Numbers::slots);
  position_ = origin_;
  if (t_.scale) engine_->loss_scale_changed();
}

void Trainer::begin_at(const Position& origin) {
  assert(position_.step == origin_.step && origin.position == 0);
  origin_ = position_ = origin;
  count_steps(Config(t_.job.json(), t_.job.where()));
  if (!t_.source->traits().live) loader_->seek(origin.epoch, 0);
}

Model& Trainer::model() {
  engine_->fetch(Numbers::model);
  engine_->host_changed(Numbers::model);
  return *t_.model;
}

const Model& Trainer::model() const {
  engine_->fetch(Numbers::model);
  return *t_.model;
}

std::span<std::byte> Trainer::states() {
  engine_->fetch(Numbers::states);
  engine_->host_changed(Numbers::states);
  return t_.model->params().state_bytes();
}

std::span<const std::byte> Trainer::states() const {
  engine_->fetch(Numbers::states);
  return t_.model->params().state_bytes();
}

std::string Trainer::slot_name(size_t i) const {
  return i < t_.slots.size() ? t_.optimizer->slots()[i] : turns_->slot_name(i - t_.slots.size());
}

std::span<std::byte> Trainer::optimizer_slot(size_t i) {
  engine_->fetch(Numbers::slots);
  engine_->host_changed(Numbers::slots);
  if (i >= t_.slots.size()) return {turns_->slot(i - t_.slots.size()).data(), t_.model->params().block_bytes()};
  return {t_.slots[i].data(), t_.slots[i].bytes()};
}

std::span<const std::byte> Trainer::optimizer_slot(size_t i) const {
  engine_->fetch(Numbers::slots);
  if (i >= t_.slots.size()) return {turns_->slot(i - t_.slots.size()).data(), t_.model->params().block_bytes()};
  return {t_.slots[i].data(), t_.slots[i].bytes()};
}

Json Trainer::line_state() const { return lines_ ? lines_->minimizer().state() : Json(); }

void Trainer::restore_lines(const Config& state) {
  if (lines_) lines_->minimizer().restore(state);
}

void Trainer::set_rate_factor(double factor) {
  t_.optimizer->set_rate_factor(factor);
  if (turns_) turns_->set_rate_factor(factor);
}

const LossScale* Trainer::loss_scale() const {
  if (!t_.scale) return nullptr;
  engine_->fetch_loss_scale();
  return &*t_.scale;
}

void Trainer::set_loss_scale(const LossScale& scale) {
  assert(t_.scale);
  t_.scale = scale;
  engine_->loss_scale_changed();
}

WeightAverage* Trainer::average() {
  if (!t_.average) return nullptr;
  engine_->fetch(Numbers::average);
  engine_->host_changed(Numbers::average);
  return t_.average.get();
}

const WeightAverage* Trainer::average() const {
  if (t_.average) engine_->fetch(Numbers::average);
  return t_.average.get();
}

bool Trainer::finished() const {
  if (max_steps_ > 0 && position_.step >= max_steps_) return true;
  return planned_examples_ > 0 && position_.examples >= planned_examples_;
}

void Trainer::restore(const Position& position, const Json& tuning, int64_t sub_batch) {
  position_ = position;
  loader_->seek(position.epoch, position.position);
  if (!tuning.is_null()) t_.tuning.adopt(tuning);
  engine_->retune(sub_batch);
  if (turns_) turns_->retune(sub_batch);
}

const Tuning& Trainer::tuning() const {
  if (turns_) turns_->gather_tuning();
  return t_.tuning;
}

void Trainer::change_optimizer(const Json& job) {
  const OptimizerOptions options = optimizer_options(job);
  if (backend() == Backend::cuda && t_.optimizer->needs_norms()) {
    const Json* before = t_.job.json().find("clip");
    if (before && options.clip != *before)
      throw Error(ErrorKind::usage, {.where = t_.job.where() + ": clip",
                                     .what = "on a GPU the threshold of a norm is part of the step that was recorded",
                                     .hint = "stop the run and resume it with --set clip.threshold=NUMBER"});
  }
  if (turns_) turns_->change_optimizer(job);
  t_.optimizer->change(options, t_.job.where());
}

void Trainer::change_factors(const Json& given) { t_.factors.change(given); }

void Trainer::change_batch(int64_t batch) {
  if (streams_of(*t_.source) > 0 && batch != t_.at_once)
    throw Error(ErrorKind::usage, {.where = t_.job.where() + ": data: batch",
                                   .what = "each row of the batch is a stream of the text",
                                   .got = std::to_string(batch),
                                   .expected = std::to_string(t_.at_once),
                                   .hint = "start another run with so many streams"});
  const char* reason = backend() == Backend::cuda ? "on a GPU the step was recorded for its size"
                       : t_.source->traits().live ? "these data come once and in order"
                       : t_.options.shards > 1    ? "the parts of the data take turns by it"
                                                  : nullptr;
  if (reason)
    throw Error(
        ErrorKind::usage,
        {.where = t_.job.where() + ": data: batch", .what = reason, .hint = "stop the run and resume it with --set data.batch=NUMBER"});
  if (batch == t_.at_once) return;
  t_.at_once = batch;
  t_.batch = batch * accumulate_of(t_.job);
  plan_from_here();
  loader_ = make_loader(t_.batch);
  loader_->seek(position_.epoch, position_.position);
}

void Trainer::change_length(const Json& job) {
  count_steps(Config(job, t_.job.where()));
  plan_from_here();
}

// The steps that are made had the sizes that they had; those to come have this one.
void Trainer::plan_from_here() {
  if (max_steps_ == 0) return;
  const int64_t by_steps = position_.examples + std::max<int64_t>(0, max_steps_ - position_.step) * t_.batch;
  planned_examples_ = planned_epochs_ > 0 ? std::min(origin_.examples + planned_epochs_ * t_.source->size(), by_steps) : by_steps;
}

void Trainer::cut_gradient(size_t bytes) {
  t_.buckets = cut_block(t_.model->params(), bytes);
  engine_->cut();
}

namespace {

// The transforms of {"type": "map", ...} that were measured on it; empty: none.
std::string measured_transforms(const Json& source, const Json& fitted) {
  const Json *transforms = source.find("transforms"), *values = fitted.find("transforms");
  std::string names;
  if (!transforms || !transforms->is_array() || !values || !values->is_array()) return names;
  for (size_t i = 0; i < std::min(transforms->as_array().size(), values->as_array().size()); ++i)
    if (const Json* type = transforms->as_array()[i].find("type"); type && type->is_string() && values->as_array()[i].is_object())
      names += (names.empty() ? "" : ", ") + type->as_string();
  return names;
}

// A part that is not transformed as the training part is judged by other numbers than the network has learned from.
void warn_of_other_numbers(const Job& job, const std::string& part, const Json& train, const Json& other, const Json& fitted) {
  const std::string names = measured_transforms(train, fitted);
  if (names.empty()) return;
  for (const Json* at = &other; at != nullptr; at = at->find("source"))
    if (at->find("transforms") != nullptr) return;
  const Error line(ErrorKind::data, {.where = job.where() + ": data",
                                     .what = "'" + part + "' lacks what was measured on the training part: " + names,
                                     .hint = "give it the same transforms: " + part + " = ...:map { ... }"});
  warn(job.placed(line).what());
}

}  // namespace

Evaluator* Trainer::evaluator(const std::string& part) {
  engine_->settle();
  if (!has_part(part)) return nullptr;
  auto& evaluator = evaluators_[part];
  if (!evaluator) {
    const Config data = Config(t_.job.json(), t_.job.where()).object("data");
    // The transforms of the other parts take the values that were fitted on the training part.
    const Json description = with_fitted(*data.raw(part), t_.source->traits().fitted);
    if (part != "train") warn_of_other_numbers(t_.job, part, *data.raw("train"), *data.raw(part), t_.source->traits().fitted);
    SourcePtr source = part == "train" ? t_.source : t_.open_part(part, data.element(description, part));
    evaluator = std::make_unique<Evaluator>(*t_.model, t_.team, std::move(source), t_.job.json().find("metrics"), t_.job.where(),
                                            engine_->device_models());
  }
  return evaluator.get();
}

Inference& Trainer::inference() {
  engine_->settle();
  if (!inference_) inference_ = std::make_unique<Inference>(*t_.model, t_.team, false, kEvaluationBatch, engine_->device_models());
  return *inference_;
}

RecordPredictor& Trainer::record_predictor(const PredictionOptions& options) {
  engine_->settle();
  if (!predictor_ || !(options == predictor_options_)) {
    predictor_.reset();
    predictor_ = std::make_unique<RecordPredictor>(*t_.model, class_names(), t_.team, engine_->device_models(), options);
    predictor_options_ = options;
  }
  return *predictor_;
}

RecordReader Trainer::record_reader() const { return {t_.model->spec(), t_.job.canonical(), t_.source->traits().fitted}; }

std::vector<std::string> Trainer::class_names() const {
  for (const Field& field : t_.source->fields())
    if (field.name == t_.model->spec().target.name) return field.class_names;
  return {};
}

Trainer::InUse::InUse(Trainer& trainer) : trainer_(trainer.averaged() ? &trainer : nullptr) {
  trainer.engine_->settle();
  if (trainer_) trainer_->average()->exchange(trainer_->model().params());
}

Trainer::InUse::~InUse() {
  if (trainer_) trainer_->average()->exchange(trainer_->model().params());
}

Json Trainer::evaluate(const std::string& part, const std::atomic<bool>* stop) {
  Evaluator* found = evaluator(part);
  const PhaseScope scope(t_.times, TracePhase::evaluate, found ? found->source().size() : 0);
  if (found && found->in_order()) engine_->fetch(Numbers::model);  // the host computes streams
  const InUse in_use(*this);
  return found ? found->run(stop) : Json();
}

}  // namespace perigee
