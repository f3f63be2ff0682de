// From a job to something that can make steps: data, model, optimiser, plans, and what has to be measured.
#include <algorithm>
#include <cstring>
#include <thread>

#include "src/core/stopwatch.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/model/evaluator.h"
#include "src/model/inference.h"
#include "src/train/device/device_team.h"
#include "src/train/trainer_worker.h"

namespace perigee {
namespace {

int thread_count(const TrainerOptions& options, const Json& job) {
  if (options.backend == Backend::cuda) return 1;  // it only tells the device what to do
  if (options.threads > 0) return options.threads;
  const Json* wanted = job.find("threads");
  if (wanted && wanted->is_int() && wanted->as_int() > 0) return static_cast<int>(std::min<int64_t>(wanted->as_int(), 1024));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// What measuring chooses for most small convolutional networks.
constexpr int64_t kUnmeasuredSubBatch = 32;

std::vector<std::string> input_names(const Config& job) {
  std::vector<std::string> names = job.string_list("inputs");
  if (names.empty()) names.push_back("x");
  return names;
}

Batch zero_batch(const DataSource& source, int64_t examples) {
  Batch batch;
  batch.size = examples;
  batch.ids.resize(static_cast<size_t>(examples));
  for (const Field& field : source.fields()) {
    std::vector<int64_t> dims = field.shape.vector();
    dims.insert(dims.begin(), examples);
    batch.fields.emplace_back(field.dtype, Shape(dims));
  }
  return batch;
}

}  // namespace

Trainer::Trainer(const Job& job, const TrainerOptions& options)
    : job_(job), options_(options), team_(thread_count(options, job.json())), times_(options.trace) {
  const PhaseScope scope(times_, TracePhase::open);
  const Config config(job_.json(), job_.where());
  const Config data = config.object("data");
  // "batch" is one GPU's.
  const auto gpus = options_.backend == Backend::cuda ? static_cast<int64_t>(options_.devices.size()) : 1;
  const int64_t batch = data.integer_in("batch", 1, int64_t{1} << 24, 32);
  const int64_t global = data.integer_in("global_batch", 0, int64_t{1} << 24, 0);  // of all together
  batch_ = gpus > 1 && global > 0 ? global : batch * gpus;
  read_placement(data);  // says what is wrong with it; only a cluster goes by it
  seed_ = static_cast<uint64_t>(config.integer("seed", 0));
  epochs_ = config.integer_in("epochs", 0, int64_t{1} << 32, 1);
  max_steps_ = config.integer_in("steps", 0, int64_t{1} << 52, 0);
  train_ = open_part("train", data.object("train"));

  ModelSpec spec{.network = *config.raw("network"), .where = job_.where(), .dtype = job_.precision(), .half = job_.half()};
  scale_ = read_loss_scale(job_);
  for (const std::string& name : input_names(config)) {
    const int field = field_index(*train_, name);
    input_fields_.push_back(field);
    spec.inputs.push_back({name, {train_->fields()[static_cast<size_t>(field)].dtype, train_->fields()[static_cast<size_t>(field)].shape}});
  }
  read_losses(config, &spec);
  model_ = std::make_unique<Model>(std::move(spec));
  math_ = &block_math(model_->params().dtype());
  make_optimizer();
  for (size_t i = 0; i < optimizer_->slots().size(); ++i) {
    slots_.emplace_back(model_->params().block_bytes());
    slot_pointers_.push_back(slots_.back().data());
  }
  initialize_values();
  if (options_.measure && options_.backend != Backend::cuda) tuning_.load_machine();  // a device's is read when the device is known
  if (options_.tuning.is_object()) tuning_.merge(options_.tuning);
  make_plans();
  const int64_t readers = data.integer_in("threads", 0, 256, train_->traits().cheap ? 0 : 1);
  loader_ = std::make_unique<Loader>(train_, LoaderOptions{.batch = batch_,
                                                           .seed = seed_,
                                                           .shuffle = data.boolean("shuffle", true),
                                                           .shards = options_.shards,
                                                           .threads = static_cast<int>(readers),
                                                           .ids_only = device_ && device_->resident(),
                                                           .trace = options_.trace});
  planned_examples_ = epochs_ * train_->size();
  // "steps" counts batches of all GPUs together, as of all workers.
  const int64_t counted = gpus > 1 && global > 0 ? global : batch;
  if (max_steps_ > 0)
    planned_examples_ = epochs_ > 0 && config.has("epochs") ? std::min(planned_examples_, max_steps_ * counted) : max_steps_ * counted;
  max_steps_ = (max_steps_ * counted + batch_ - 1) / batch_;
  measure();
}

// "loss": a loss for the first output and the field "target"; or, by output name, {"digit": {"type": "cross_entropy", "target": "y",
// "weight": 1}, "angle": {...}}: the first is the one that metrics look at.
void Trainer::read_losses(const Config& config, ModelSpec* spec) {
  const Json* given = config.raw("loss");
  if (!given || given->is_null())
    throw Error(ErrorKind::model,
                {.where = job_.where(), .what = "a job that trains needs a 'loss'", .hint = "for example \"cross_entropy\""});
  const Json& loss = *given;
  const std::string main_target = config.string("target", "y");
  const auto input_of = [&](const std::string& name) {
    target_fields_.push_back(field_index(*train_, name));
    const Field& field = train_->fields()[static_cast<size_t>(target_fields_.back())];
    return NetworkInput{field.name, {field.dtype, field.shape}};
  };
  if (!loss.is_object() || loss.find("type")) {
    spec->loss = loss;
    spec->target = input_of(main_target);
  } else {
    const Json* outputs = spec->network.find("outputs");
    std::vector<std::string> names;
    if (outputs && outputs->is_array())
      for (const Json& name : outputs->as_array()) names.push_back(name.is_string() ? name.as_string() : "");
    for (const auto& [name, head] : loss.as_object()) {
      const std::string where = job_.where() + ": loss." + name;
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end())
        throw Error(ErrorKind::model,
                    {.where = where, .what = "the network has no output '" + name + "'", .hint = nearest_hint(name, names)});
      LossHead read;
      read.output = static_cast<int>(found - names.begin());
      read.loss = head;
      std::string target = main_target;
      if (head.is_object()) {
        const Config options(head, where);
        target = options.string("target", main_target);
        read.weight = options.number_in("weight", 0, 1e9, 1);
        read.loss.erase("target");
        read.loss.erase("weight");
      }
      read.target = input_of(target);
      if (target_fields_.size() > 1) {
        spec->more_heads.push_back(std::move(read));
        continue;
      }
      spec->loss = read.loss;
      spec->loss_output = read.output;
      spec->loss_weight = read.weight;
      spec->target = read.target;
    }
    if (target_fields_.empty())
      throw Error(ErrorKind::model,
                  {.where = job_.where() + ": loss", .what = "names no output", .expected = "a loss, or one for each output"});
  }
  spec->classes = train_->fields()[static_cast<size_t>(target_fields_[0])].classes;
}

void Trainer::make_optimizer() {
  const auto part = [&](const char* key) {
    const Json* found = job_.json().find(key);
    return found ? *found : Json();
  };
  optimizer_ = std::make_unique<Optimizer>(
      OptimizerOptions{
          .optimizer = part("optimizer"), .regularization = part("regularization"), .clip = part("clip"), .constraint = part("constraint")},
      model_->params().windows(), job_.where(), model_->params().dtype());
}

void Trainer::make_plans() {
  if (options_.backend == Backend::cuda) return with_room(batch_, [&] { make_device(); });
  plans_ = std::make_unique<PlanSet>(*model_, PlanSet::Kind::training, options_.backend, &tuning_);
  plans_->set_recompute(RecomputeOptions::of(job_), room_of_host());
  collective_ = plans_->slices().collective;
  sliceable_ = plans_->slices().sliceable;
  workers_.clear();
  prepared_ = -1;
  for (int i = 0; i < team_.size(); ++i) {
    workers_.push_back(std::make_unique<Worker>(model_->params(), static_cast<size_t>(team_.size())));
    workers_.back()->memory = std::make_unique<PlanMemory>(*plans_, model_->params(), workers_.back()->gradient.data(), options_.check);
  }
}

// What the job's limit leaves to the arena of each thread.
size_t Trainer::room_of_host() const {
  const size_t limit = memory_limit_of(job_), threads = static_cast<size_t>(team_.size());
  const size_t blocks = model_->params().block_bytes() * (1 + slots_.size() + threads);
  return limit == 0 ? SIZE_MAX : limit <= blocks ? 0 : (limit - blocks) / threads;
}

Trainer::~Trainer() = default;

void Trainer::initialize_values() {
  model_->params().initialize(seed_);
  for (const Storage& slot : slots_) std::memset(slot.data(), 0, slot.bytes());
  optimizer_->initialize(slot_pointers_.data());
  if (device_) device_->host_changed(), device_->host_changed_slots();
  position_ = {};
  if (const auto scale = read_loss_scale(job_)) set_loss_scale(*scale);
}

int64_t Trainer::sub_batch_for(int64_t slice) const { return collective_ || !sliceable_ ? slice : std::min(sub_batch_, slice); }

SourcePtr Trainer::open_part(const std::string& part, const Config& description) const {
  return options_.opener ? options_.opener->open(part, description, job_.folder()) : open_source(description, job_.folder());
}

void Trainer::measure() {
  if (device_) {  // one slice: the whole batch
    sub_batch_ = batch_;
    with_room(batch_, [&] { device_->prepare(batch_); });
    if (!options_.measure) return;
    const Batch zeros = train_->traits().live ? zero_batch(*train_, batch_) : Batch{};
    measured_ = device_->measure(train_->traits().live ? zeros : loader_->next(), {.seed = seed_, .training = true});
    if (measured_ > 0) tuning_.save_machine();
    if (!train_->traits().live) loader_->seek(0, 0);
    return;
  }
  sub_batch_ = options_.sub_batch;
  if (options_.measure && options_.backend == Backend::cpu) {
    // Kernels are compared on the first batch: what a sparse one costs depends on the gradients. A live source has none yet.
    const Batch zeros = train_->traits().live ? zero_batch(*train_, std::min<int64_t>(batch_, 32)) : Batch{};
    const Batch& batch = train_->traits().live ? zeros : loader_->next();
    set_seed(batch.size);
    const int64_t rows = std::min<int64_t>(batch.size, 32);
    PlanRun& run = workers_[0]->memory->at(rows);
    bind_rows(bind_plan(run), batch, 0);
    const StepInfo info{.seed = seed_, .example_ids = batch.ids.data(), .training = true};
    const int64_t slice = std::max<int64_t>(rows, batch.size / (sliceable_ ? team_.size() : 1));
    const double packs_per_run = static_cast<double>(rows) / static_cast<double>(slice);
    measured_ = tune(run, {.backend = options_.backend}, info, packs_per_run, tuning_);
    if (measured_ > 0) make_plans();
    if (!train_->traits().live) loader_->seek(0, 0);
  }
  if (sub_batch_ <= 0) choose_sub_batch();
  if (options_.measure && measured_ > 0) tuning_.save_machine();
  for (const auto& worker : workers_) std::memset(worker->gradient.data(), 0, worker->gradient.bytes());
}

void Trainer::choose_sub_batch() {
  const int64_t slice = sliceable_ ? (batch_ + team_.size() - 1) / team_.size() : batch_;
  sub_batch_ = slice;
  if (collective_ || !sliceable_ || slice <= 8) return;
  // Part of the tuning table: it decides in which order examples are summed, so two runs must choose alike.
  const std::string key = "sub-batch of " + std::to_string(slice) + " " + xxh3_hex(as_bytes(job_.canonical().find("network")->dump()));
  if (const std::string known = tuning_.choice(key); !known.empty()) {
    sub_batch_ = std::clamp<int64_t>(std::atoll(known.c_str()), 1, slice);
    return;
  }
  if (!options_.measure || model_->params().dtype() != Dtype::f32) {  // reference kernels gain nothing from it
    sub_batch_ = std::min(kUnmeasuredSubBatch, slice);
    return;
  }
  // Small ones keep activations in L2, large ones reuse weights: measure. Examples of zeros will do.
  PlanMemory& memory = *workers_[0]->memory;
  size_t largest = sizeof(float);
  for (const Field& field : train_->fields()) largest = std::max(largest, row_bytes(field));
  Storage zeros(largest * static_cast<size_t>(slice) + 64);
  std::memset(zeros.data(), 0, zeros.bytes());
  double best = 0;
  for (int64_t size : {slice, int64_t{64}, int64_t{32}, int64_t{16}, int64_t{8}}) {
    if (size > slice || (size == slice && best > 0) || plans_->plan(size)->arena_bytes() > plans_->room()) continue;
    PlanRun& run = memory.at(size);
    for (size_t i = 0; i < run.plan().inputs().size(); ++i) run.set_input(static_cast<int>(i), zeros.data());
    const StepInfo info{.seed = seed_, .training = true};
    run.pack();
    run.run(nullptr, info);
    double fastest = 1e30;
    for (int repeat = 0; repeat < 9; ++repeat) {
      const double begin = thread_seconds();
      for (int64_t done = 0; done < slice; done += size) run.run(nullptr, info, done > 0);
      fastest = std::min(fastest, thread_seconds() - begin);
    }
    const double rate = static_cast<double>((slice + size - 1) / size * size) / fastest;
    if (rate > best * 1.02) {
      best = rate;
      sub_batch_ = size;
    }
  }
  tuning_.set(key, std::to_string(sub_batch_));
  ++measured_;
}

}  // namespace perigee
