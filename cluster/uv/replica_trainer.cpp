#include "cluster/uv/replica_trainer_values.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "cluster/change_norm.h"
#include "cluster/data/data_print.h"
#include "cluster/data/remote_source.h"
#include "cluster/exchange_tail.h"
#include "cluster/worker_gpus.h"
#include "src/core/warning.h"
#include "src/io/digest.h"
#include "src/train/device_choice.h"
#include "src/train/evaluator.h"

namespace perigee {
namespace {

constexpr uint64_t kInnerStream = uint64_t{1} << 32;  // a worker's draws for its two codecs are not the same

Job job_of(const Welcome& welcome) { return Job(Json::parse(welcome.job, "job"), "job", welcome.folder); }

DataPlacement placement_of(const Job& job) { return read_placement(Config(job.json(), job.where()).object("data")); }

std::unique_ptr<SourceOpener> remote_opener(const Welcome& welcome, const ReplicaTrainerOptions& options) {
  if (!placement_of(job_of(welcome)).at_coordinator) return nullptr;
  if (welcome.sources.empty() || !options.examples)
    throw Error(ErrorKind::data, {.where = "data.at", .what = "the coordinator serves no examples", .expected = "data.at = \"worker\""});
  return std::make_unique<RemoteOpener>(welcome.sources, *options.examples);
}

TrainerOptions trainer_options(const Welcome& welcome, SourceOpener* opener, const ReplicaTrainerOptions& options) {
  TrainerOptions trainer{.threads = welcome.threads, .measure = false, .opener = opener, .trace = options.trace};
  if (!welcome.tuning.empty()) trainer.tuning = Json::parse(welcome.tuning, "tuning");
  trainer.shards = placement_of(job_of(welcome)).shards;
  const Json job = Json::parse(welcome.job, "job");
  choose_device(device_of(job), "device", options.slot, gpus_of_worker(job, "job"), &trainer);
  return trainer;
}

// What all workers together are to train: "steps" counts batches of all of them where "global_batch" says how large those are.
int64_t planned_of(const Trainer& trainer) {
  const Config job(trainer.job().json(), trainer.job().where());
  const int64_t steps = job.integer_in("steps", 0, int64_t{1} << 52, 0), epochs = job.integer_in("epochs", 0, int64_t{1} << 32, 1);
  const int64_t global = job.object("data").integer_in("global_batch", 0, int64_t{1} << 24, 0);
  if (steps == 0 || global == 0) return trainer.planned_examples();
  const bool both = epochs > 0 && job.has("epochs");
  return both ? std::min(steps * global, epochs * trainer.train_source().size()) : steps * global;
}

Policy policy_of(const Trainer& trainer) { return read_policy(trainer.job().json().find("averaging"), trainer.job().where()); }

std::unique_ptr<Codec> codec_of(const Trainer& trainer, const Json& codec) {
  const std::string where = trainer.job().where() + ": averaging";
  if (trainer.model().params().dtype() != Dtype::f32)
    throw Error(ErrorKind::model, {.where = where + ": codec",
                                   .what = "works on float32 only",
                                   .got = "precision = \"float64\"",
                                   .hint = "leave out the codec or the precision"});
  return make_codec(&codec, where);
}

std::unique_ptr<DeltaCodec> delta_codec_of(const Trainer& trainer, const Json& codec, uint64_t worker) {
  if (codec.is_null()) return nullptr;
  const Params& params = trainer.model().params();
  const std::vector<CodecSegment> tensors = codec_tensors(params.windows());
  const CodecSegment block{.count = params.block_elements(), .tensors = tensors.data(), .tensor_count = tensors.size()};
  return std::make_unique<DeltaCodec>(codec_of(trainer, codec), block, trainer.seed(), worker);
}

std::unique_ptr<GradientCodec> gradient_codec_of(const Trainer& trainer, const Policy& policy, uint64_t worker) {
  if (!policy.coded_steps()) return nullptr;
  std::unique_ptr<Codec> codec = codec_of(trainer, policy.codec);
  if (codec->passes() > 0) return nullptr;
  const Params& params = trainer.model().params();
  return std::make_unique<GradientCodec>(std::move(codec), params.windows(), params.block_elements(), trainer.seed(), worker);
}

std::unique_ptr<PartsCodec> parts_codec_of(const Trainer& trainer, const Policy& policy) {
  if (!policy.coded_steps()) return nullptr;
  std::unique_ptr<Codec> codec = codec_of(trainer, policy.codec);
  if (codec->passes() == 0) return nullptr;
  const Params& params = trainer.model().params();
  return std::make_unique<PartsCodec>(std::move(codec), params.windows(), params.block_elements(), trainer.seed());
}

// Buckets leave before the whole gradient is known, which only sums of gradients can.
size_t bucket_bytes_of(const Policy& policy, size_t bytes) {
  return policy.coded_steps() || policy.what == Policy::What::update ? SIZE_MAX : bytes;
}

FragmentPlan plan_of(const Trainer& trainer, const Policy& policy) {
  const Params& params = trainer.model().params();
  return {policy, params.windows(), params.block_elements(), trainer.job().where() + ": averaging"};
}

std::vector<OuterPart> outer_parts(const Trainer& trainer, const Policy& policy, const FragmentPlan& plan) {
  if (plan.empty()) return {{.program = policy.outer, .runs = {{0, trainer.model().params().block_elements()}}}};
  std::vector<OuterPart> parts;
  for (const Fragment& f : plan.fragments()) {
    parts.push_back({.program = plan.outers()[f.outer], .runs = {}});
    for (const FragmentRun& run : f.runs) parts.back().runs.push_back({run.block, run.elements});
  }
  return parts;
}

size_t bound_of(const Trainer& trainer, const FragmentPlan& plan, const DeltaCodec* codec, const GradientCodec* step_codec) {
  if (codec) return codec->bound();
  if (step_codec) return step_codec->bound();
  if (plan.empty()) return 0;
  return payload_bound(plan, trainer.model().params().dtype(), trainer.job().where() + ": averaging");
}

// parameters -= change, window by window: a codec may have put something into what does not train, and into the gaps, which are zero
// (DESIGN, decision 6).
void subtract_change(const float* change, Params& params) {
  auto* values = reinterpret_cast<float*>(params.block());
  for (const ParamWindow& window : params.windows())
    for (int64_t i = 0; window.trainable && i < window.elements; ++i) values[window.offset + i] -= change[window.offset + i];
}

// parameters := values, but for what does not train.
void take_elastic(const float* values, Params& params) {
  auto* to = reinterpret_cast<float*>(params.block());
  for (const ParamWindow& window : params.windows())
    if (window.trainable) std::copy_n(values + window.offset, window.elements, to + window.offset);
}

}  // namespace

ReplicaTrainer::ReplicaTrainer(const Welcome& welcome, const ReplicaTrainerOptions& options)
    : opener_(options.opener),
      worker_(welcome.id),
      remote_(remote_opener(welcome, options)),
      trainer_(job_of(welcome), trainer_options(welcome, remote_ ? remote_.get() : options.opener, options)),
      policy_(policy_of(trainer_)),
      codec_(delta_codec_of(trainer_, policy_.coded_steps() || policy_.partial() ? Json() : policy_.codec, welcome.id)),
      inner_codec_(delta_codec_of(trainer_, policy_.inner.codec, kInnerStream | welcome.id)),
      step_codec_(gradient_codec_of(trainer_, policy_, welcome.id)),
      parts_codec_(parts_codec_of(trainer_, policy_)),
      gradient_(parts_codec_ ? trainer_.model().params().block_bytes() : 0),
      plan_(plan_of(trainer_, policy_)),
      block_(trainer_, policy_.average_optimizer, bound_of(trainer_, plan_, codec_.get(), step_codec_.get()),
             bucket_bytes_of(policy_, options.bucket_bytes), plan_.fragments().size(),
             parts_codec_ ? parts_codec_->passes() : std::vector<int64_t>()),
      outer_(outer_parts(trainer_, policy_, plan_), trainer_.model().params().dtype(), trainer_.model().params().windows(),
             trainer_.model().params().block_elements()) {
  if (!plan_.empty()) partial_ = std::make_unique<PartialMerge>(trainer_, block_, outer_, plan_, policy_, welcome.id);
  trainer_.plan_examples(planned_of(trainer_));
  states_before_.resize(trainer_.model().params().state_bytes().size());
  put_initial_values();
  new_result(-1);
}

ReplicaTrainer::~ReplicaTrainer() = default;

// What the coordinator sends is the coordinator's: a sample shows that it comes as it was.
std::vector<DataPrint> ReplicaTrainer::data_prints() { return print_data(trainer_, !remote_ && placement_of(trainer_.job()).verify_full); }

void ReplicaTrainer::put_initial_values() {
  trainer_.initialize_values();
  outer_.initialize();
  const Json* pretrained = trainer_.job().json().find("pretrained");
  if (!pretrained || pretrained->is_null()) return;
  const Json description = pretrained->is_string() ? Json(Json::Object{{"model", *pretrained}}) : *pretrained;
  apply_pretrained(trainer_, Config(description, trainer_.job().where() + ": pretrained"), trainer_.job().folder(), opener_);
}

std::vector<NamedBlock> ReplicaTrainer::outer_blocks() {
  std::vector<NamedBlock> blocks;
  for (size_t i = 0; i < outer_.states().size(); ++i) blocks.push_back({"outer/" + outer_.states()[i].name, outer_.state(i)});
  return blocks;
}

uint64_t ReplicaTrainer::hash_of_result() const {
  const Params& params = std::as_const(trainer_).model().params();
  std::span<const std::byte> parameters{params.block(), params.block_bytes()}, states = params.state_bytes();
  if (local_work_) parameters = result_->parameters, states = result_->states;
  uint64_t hash = xxh3_64(states, xxh3_64(parameters));
  for (size_t i = 0; i < outer_.states().size(); ++i) hash = xxh3_64(outer_.state(i), hash);
  return hash;
}

// The trainer holds the result of `round`.
void ReplicaTrainer::new_result(int64_t round) {
  round_ = round;
  local_work_ = staged_ = false;
  parameters_norm_ = merged_norm_ = -1;
  hash_ = hash_of_result();
  inner_staged_ = 0;
  for (auto& image : images_) image.reset();
}

void ReplicaTrainer::keep_result() {
  if (local_work_) return;
  if (!result_) result_ = std::make_unique<Values>(trainer_);
  result_->copy_from(trainer_);
  local_work_ = true;
}

void ReplicaTrainer::back_to_result(bool with_slots) {
  if (local_work_) result_->copy_to(trainer_, with_slots);
  local_work_ = false;
}

const std::byte* ReplicaTrainer::result_parameters() const {
  assert(local_work_);
  return result_->parameters.data();
}

void ReplicaTrainer::drop() {
  back_to_result();
  if (codec_) codec_->drop();
  if (step_codec_) step_codec_->drop();
  if (parts_codec_) parts_codec_->drop();
  if (partial_) partial_->drop();
  if (inner_codec_) inner_codec_->drop();
  staged_ = false;
}

void ReplicaTrainer::unstage() {
  assert(partial_);
  partial_->unstage();
  staged_ = false;
}

double ReplicaTrainer::progress() const {
  const int64_t planned = trainer_.planned_examples();
  return planned > 0 ? static_cast<double>(trainer_.position().examples) / static_cast<double>(planned) : 0;
}

// All that the program sees is of the last result and of the merged row, and so the same for all replicas.
OuterRound ReplicaTrainer::seen_by_outer(int64_t round) {
  const Position here = trainer_.position();
  trainer_.set_position(result_->position);
  const OuterRound seen{.progress = progress(), .round = static_cast<double>(round), .learning_rate = trainer_.next_learning_rate()};
  trainer_.set_position(here);
  return seen;
}

// The trainer holds the mean.
void ReplicaTrainer::take_outer_step(const ApplyOrder& order, int64_t workers) {
  OuterRound seen = seen_by_outer(order.round);
  seen.staleness = order.staleness;
  seen.workers = static_cast<double>(workers);
  outer_.run(seen, result_->parameters.data(), trainer_.model().params().block());
}

std::optional<size_t> ReplicaTrainer::apply(const ApplyOrder& order, std::byte* row) {
  const bool gradient = staged_ ? staged_gradient_ : policy_.standing(progress());
  if (partial_ && !gradient) return apply_partial(order, row);
  const bool merged = order.examples > 0 && !gradient && !order.alone;
  if (step_codec_ && gradient && order.examples > 0)
    if (const std::optional<size_t> refused = add_step_payloads(order)) return refused;
  double merged_norm = -1;
  if (codec_ && merged)
    if (const std::optional<size_t> refused = add_payloads(order, row)) return refused;
  if (gradient || order.examples == 0) back_to_result(order.examples == 0 || policy_.what != Policy::What::update);
  if (order.examples > 0 && gradient) {
    take_step(order, row);
  } else if (order.examples > 0) {
    if (outer_.active()) keep_result();  // who had no work to do trained nothing, and holds the result in the trainer alone
    if (merged) take_mean(order, row);
    const Params& params = trainer_.model().params();
    merged_norm = local_work_ ? change_norm(params.dtype(), result_->parameters.data(), params.block(), params.block_elements()) : -1;
    if (outer_.active())
      take_outer_step(order, order.workers > 0 ? order.workers
                             : merged          ? read_exchange_tail(block_.layout(), {row, block_.layout().bytes()}).contributions
                                               : 1);
  }
  // Alone, the local parameters themselves are the result: the payload is in none.
  if (codec_) codec_->settle(merged && staged_ && staged_examples_ > 0);
  if (step_codec_) step_codec_->settle(gradient && order.examples > 0 && staged_ && staged_examples_ > 0);
  if (inner_codec_) inner_codec_->settle(false);  // of an exchange that came to nothing
  set_progress(order.examples_after);
  new_result(order.round);
  merged_norm_ = merged_norm;
  return std::nullopt;
}

void ReplicaTrainer::set_progress(int64_t examples) {
  Position position = trainer_.position();
  const int64_t epoch = trainer_.train_source().size();
  position.examples = examples;
  position.epoch = static_cast<uint64_t>(examples / epoch);
  position.position = examples % epoch;
  trainer_.set_position(position);
}

// The new result is made beside the trainer, which goes on with its local work where no fragment was due.
std::optional<size_t> ReplicaTrainer::apply_partial(const ApplyOrder& order, std::byte* row) {
  keep_result();
  const OuterRound seen = seen_by_outer(order.round);
  const std::optional<size_t> refused = partial_->merge(order, seen, row, result_->parameters.data(), result_->states);
  if (refused) return refused;
  set_progress(order.examples_after);
  result_->position = trainer_.position();
  for (size_t i = 0; i < result_->slots.size(); ++i)
    std::copy_n(trainer_.optimizer_slot(i).begin(), result_->slots[i].size(), result_->slots[i].begin());
  round_ = order.round;
  hash_ = hash_of_result();
  staged_ = false;
  for (auto& image : images_) image.reset();
  return std::nullopt;
}

// The weighted mean of all changes into the block's part of the row: everybody adds the same payloads in the same order.
std::optional<size_t> ReplicaTrainer::add_payloads(const ApplyOrder& order, std::byte* row) {
  const std::span<float> mean = block_.coded(row);
  std::fill(mean.begin(), mean.end(), 0.0f);
  for (size_t i = 0; i < order.payloads.size(); ++i) {
    const Payload& payload = order.payloads[i];
    const auto weight = static_cast<float>(static_cast<double>(payload.examples) / static_cast<double>(order.examples));
    if (!codec_->add(*payload.bytes, weight, mean)) return i;
  }
  return std::nullopt;
}

// What was exchanged becomes the mean of everybody's numbers, in the trainer.
void ReplicaTrainer::take_mean(const ApplyOrder& order, const std::byte* row) {
  if (codec_) take_change({reinterpret_cast<const float*>(row), static_cast<size_t>(trainer_.model().params().block_elements())});
  block_.take_values(row, order.examples, !codec_);
}

// The parameters become those of the result, less `mean`.
void ReplicaTrainer::take_change(std::span<const float> mean) {
  Params& params = trainer_.model().params();
  if (local_work_) std::copy_n(result_->parameters.data(), params.block_bytes(), params.block());
  if (policy_.elastic) take_elastic(mean.data(), params);
  else subtract_change(mean.data(), params);
}

bool ReplicaTrainer::load(int64_t round, const std::vector<std::byte>* image, bool keep_local, std::byte* row) {
  const bool rebase = keep_local && local_work_;
  if (partial_) unstage();
  const bool staged = staged_;
  // With local work: x_old goes into the trainer, the local values w into result_.
  if (rebase) result_->swap_with(trainer_);
  std::unique_ptr<Values> old;
  try {
    if (rebase) {
      old = std::make_unique<Values>(trainer_);
      old->copy_from(trainer_);
    }
    if (image) load_checkpoint(trainer_, *image, "the image of round " + std::to_string(round), true, outer_blocks());
    else put_initial_values();
  } catch (const std::exception& error) {
    warn(std::string("an image of the parameters was refused: ") + error.what());
    if (rebase) result_->swap_with(trainer_);
    return false;
  }
  new_result(round);
  if (!keep_local && codec_) codec_->overtaken();
  if (!keep_local && step_codec_) step_codec_->overtaken();
  if (!keep_local && partial_) partial_->overtaken();
  if (!keep_local && parts_codec_) parts_codec_->overtaken();
  if (!image && policy_.served) codec_ = delta_codec_of(trainer_, policy_.codec, worker_);  // it begins afresh
  if (!keep_local && inner_codec_) inner_codec_->overtaken();
  if (!rebase) return true;
  const Params& params = trainer_.model().params();
  const BlockMath& math = block_math(params.dtype());
  math.add_change(old->parameters.data(), params.block(), params.block_elements(), result_->parameters.data());
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    if (spec.dtype != params.dtype()) continue;
    const size_t at = params.state_offset(static_cast<int>(i));
    math.add_change(old->states.data() + at, params.state_bytes().data() + at, spec.shape.elements(), result_->states.data() + at);
  }
  local_work_ = true;
  result_->swap_with(trainer_);
  staged_ = staged;
  if (staged_ && !staged_gradient_ && row) block_.stage_values(row, staged_examples_, !codec_);
  return true;
}

SharedBytes ReplicaTrainer::snapshot(bool with_optimizer) {
  auto& made = images_[with_optimizer];
  if (SharedBytes same = made.lock()) return same;  // several workers heal from here
  const PhaseScope scope(trainer_.times(), TracePhase::checkpoint);
  const AtResult at_result(*this);
  try {
    SharedBytes image = std::make_shared<const std::vector<std::byte>>(with_optimizer ? checkpoint_bytes(trainer_, {}, outer_blocks())
                                                                                      : model_bytes(trainer_));
    made = image;
    return image;
  } catch (const std::exception& error) {
    warn(std::string("no image of the parameters could be made: ") + error.what());
    return nullptr;
  }
}

std::string ReplicaTrainer::evaluate(const Evaluate& order, const std::atomic<bool>& cancel, std::atomic<int64_t>* evaluated) {
  const PhaseScope scope(trainer_.times(), TracePhase::evaluate, order.end > order.begin ? order.end - order.begin : 0);
  const AtResult at_result(*this);
  Evaluator* evaluator = trainer_.evaluator(order.part);
  if (!evaluator) throw Error(ErrorKind::data, {.where = trainer_.job().where() + ": data", .what = "has no part '" + order.part + "'"});
  return evaluator->state(order.begin, order.end, &cancel, evaluated).dump();
}

}  // namespace perigee
