#include "cluster/replica/replica_trainer_values.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "cluster/data/data_print.h"
#include "cluster/data/remote_source.h"
#include "cluster/exchange/change_norm.h"
#include "cluster/exchange/exchange_tail.h"
#include "cluster/launch/worker_gpus.h"
#include "cluster/replica/device_codec.h"
#include "src/core/warning.h"
#include "src/io/digest.h"
#include "src/model/device/device_choice.h"
#include "src/model/evaluator.h"

namespace perigee {
namespace {

constexpr const char* kCodecOnHost = "the codec works on the host: ";
constexpr uint64_t kInnerStream = uint64_t{1} << 32;  // a worker's draws for its two codecs are not the same

Job job_of(const Welcome& welcome) { return Job(Json::parse(welcome.job, "job"), "job", welcome.folder); }

DataPlacement placement_of(const Job& job) { return read_placement(Config(job.json(), job.where()).object("data")); }

std::unique_ptr<SourceOpener> remote_opener(const Welcome& welcome, const ReplicaTrainerOptions& options) {
  if (!placement_of(job_of(welcome)).at_coordinator) return nullptr;
  if (welcome.sources.empty() || !options.examples)
    throw Error(ErrorKind::data, {.where = "data.at", .what = "the coordinator serves no examples", .expected = "data.at = \"worker\""});
  return std::make_unique<RemoteOpener>(welcome.sources, *options.examples, options.partitions);
}

// Codecs' largest use of a GPU's memory, beside a scratch, in blocks of the parameters' size: the input, a residual and the one before, a
// payload; and where parameters go on alone, the last result with its optimiser's slots.
int64_t blocks_of_codecs(const Policy& policy) {
  if (policy.partial()) return 0;
  const int64_t codecs = (policy.coded() ? 1 : 0) + (policy.inner.codec.is_null() ? 0 : 1);
  return codecs == 0 ? 0 : 5 * codecs + (policy.what == Policy::What::gradient ? 0 : 4);
}

TrainerOptions trainer_options(const Welcome& welcome, SourceOpener* opener, const ReplicaTrainerOptions& options) {
  TrainerOptions trainer{.threads = welcome.threads, .measure = false, .opener = opener, .trace = options.trace};
  if (!welcome.tuning.empty()) trainer.tuning = Json::parse(welcome.tuning, "tuning");
  trainer.shards = placement_of(job_of(welcome)).shards;
  const Json job = Json::parse(welcome.job, "job");
  trainer.use(choose_device(device_of(job), "device", options.slot, gpus_of_worker(job, "job")));
  trainer.blocks_beside = blocks_of_codecs(read_policy(job.find("averaging"), "job"));
  return trainer;
}

// The work of all workers together: "steps" counts batches of all of them where "global_batch" says how large those are.
int64_t planned_of(const Trainer& trainer) {
  const Config job(trainer.job().json(), trainer.job().where());
  const int64_t steps = job.integer_in("steps", 0, int64_t{1} << 52, 0), epochs = job.integer_in("epochs", 0, int64_t{1} << 32, 1);
  const int64_t global = job.object("data").integer_in("global_batch", 0, int64_t{1} << 24, 0) * accumulate_of(trainer.job());
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

// On the GPU, if `rounds` says that there is one, the codec has kernels and the GPU has room.
std::unique_ptr<ReplicaCodec> make_codec_of(const Trainer& trainer, DeviceRounds* rounds, const Json& described, CodedForm form,
                                            uint64_t stream) {
  std::unique_ptr<Codec> codec = codec_of(trainer, described);
  const Params& params = trainer.shape().params();
  const ReplicaCodecSetup setup{
      .form = form, .windows = params.windows(), .block_elements = params.block_elements(), .seed = trainer.seed(), .stream = stream};
  std::string why;
  try {
    if (rounds)
      if (std::unique_ptr<ReplicaCodec> there = make_device_codec(*rounds, codec, setup, &why)) return there;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resources) throw;
    warn(std::string(kCodecOnHost) + error.what());
    codec = codec_of(trainer, described);
  }
  return make_host_codec(std::move(codec), setup);
}

std::unique_ptr<ReplicaCodec> block_codec_of(const Trainer& trainer, DeviceRounds* rounds, const Json& codec, uint64_t stream) {
  return codec.is_null() ? nullptr : make_codec_of(trainer, rounds, codec, CodedForm::block, stream);
}

std::unique_ptr<ReplicaCodec> step_codec_of(const Trainer& trainer, DeviceRounds* rounds, const Policy& policy, uint64_t worker) {
  if (!policy.coded_steps()) return nullptr;
  return policy.adds_parts() ? nullptr : make_codec_of(trainer, rounds, policy.codec, CodedForm::packed, worker);
}

std::unique_ptr<DeviceRounds> rounds_of(const Trainer& trainer) {
  DeviceModel* const there = trainer.device_model();
  return there && trainer.shape().params().dtype() == Dtype::f32 ? std::make_unique<DeviceRounds>(there->gpu()) : nullptr;
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

// Rounds of parameters.
Json coded_block(const Policy& policy) { return policy.coded_steps() || policy.partial() ? Json() : policy.codec; }

size_t bound_of(const Trainer& trainer, const FragmentPlan& plan, const ReplicaCodec* codec, const ReplicaCodec* step_codec) {
  if (codec) return codec->bound();
  if (step_codec) return step_codec->bound();
  if (plan.empty()) return 0;
  return payload_bound(plan, trainer.model().params().dtype(), trainer.job().where() + ": averaging");
}

}  // namespace

ReplicaTrainer::ReplicaTrainer(const Welcome& welcome, const ReplicaTrainerOptions& options)
    : opener_(options.opener),
      worker_(welcome.id),
      remote_(remote_opener(welcome, options)),
      trainer_(job_of(welcome), trainer_options(welcome, remote_ ? remote_.get() : options.opener, options)),
      policy_(policy_of(trainer_)),
      rounds_(rounds_of(trainer_)),
      codec_(block_codec_of(trainer_, rounds_.get(), coded_block(policy_), welcome.id)),
      inner_codec_(block_codec_of(trainer_, rounds_.get(), policy_.inner.codec, kInnerStream | welcome.id)),
      step_codec_(step_codec_of(trainer_, rounds_.get(), policy_, welcome.id)),
      parts_codec_(parts_codec_of(trainer_, policy_)),
      gradient_(parts_codec_ ? trainer_.model().params().block_bytes() : 0),
      repeats_(policy_.synchronous(0) ? repeated_sums_of(trainer_) : nullptr),
      plan_(plan_of(trainer_, policy_)),
      block_(trainer_, policy_.average_optimizer, bound_of(trainer_, plan_, codec_.get(), step_codec_.get()),
             bucket_bytes_of(policy_, options.bucket_bytes), plan_.fragments().size(),
             parts_codec_ ? parts_codec_->passes() : std::vector<int64_t>(), repeats_ ? repeats_->most() : 0),
      outer_(outer_parts(trainer_, policy_, plan_), trainer_.model().params().dtype(), trainer_.model().params().windows(),
             trainer_.model().params().block_elements()) {
  if (!plan_.empty()) partial_ = std::make_unique<PartialMerge>(trainer_, block_, outer_, plan_, policy_, welcome.id);
  trainer_.plan_examples(planned_of(trainer_));
  trainer_.average_results();
  states_before_.resize(trainer_.model().params().state_bytes().size());
  if (trainer_.carried()) lanes_.resize(static_cast<size_t>(trainer_.streams()));
  keep_room_for_result();
  put_initial_values();
  new_result(-1);
}

ReplicaTrainer::~ReplicaTrainer() = default;

// A codec on the device needs the last result there.
void ReplicaTrainer::keep_room_for_result() {
  if (!coded_on_device() || policy_.what == Policy::What::gradient) return;
  try {
    result_ = std::make_unique<Values>(trainer_, trainer_.device_model());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resources) throw;
    warn(std::string(kCodecOnHost) + error.what());
    codec_ = block_codec_of(trainer_, nullptr, coded_block(policy_), worker_);
    inner_codec_ = block_codec_of(trainer_, nullptr, policy_.inner.codec, kInnerStream | worker_);
    step_codec_ = step_codec_of(trainer_, nullptr, policy_, worker_);
  }
}

// Data from the coordinator: a sample shows that they arrive unchanged.
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

// The trainer holds the result of `round`.
void ReplicaTrainer::new_result(int64_t round) {
  round_ = round;
  local_work_ = staged_ = false;
  std::ranges::fill(lanes_, 0);
  parameters_norm_ = merged_norm_ = -1;
  hash_ = hash_of_result();
  inner_staged_ = 0;
  for (auto& image : images_) image.reset();
}

void ReplicaTrainer::keep_result() {
  if (local_work_) return;
  if (!result_) result_ = std::make_unique<Values>(trainer_, coded_on_device() ? trainer_.device_model() : nullptr);
  result_->copy_from(trainer_);
  local_work_ = true;
}

void ReplicaTrainer::back_to_result(bool with_slots) {
  if (local_work_) result_->copy_to(trainer_, with_slots);
  local_work_ = false;
  std::ranges::fill(lanes_, 0);
}

void ReplicaTrainer::drop() {
  back_to_result();
  if (codec_) codec_->drop();
  if (step_codec_) step_codec_->drop();
  if (parts_codec_) parts_codec_->drop();
  if (repeats_) repeats_->drop();
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
  outer_.run(seen, result_block(), trainer_.model().params().block());
}

std::optional<size_t> ReplicaTrainer::apply(const ApplyOrder& order, std::byte* row) {
  const int64_t before = local_work_ ? result_->position.examples : trainer_.position().examples;
  const bool gradient = staged_ ? staged_gradient_ : policy_.synchronous(progress());
  if (partial_ && !gradient) return apply_partial(order, row);
  const bool merged = order.examples > 0 && !gradient && !order.alone;
  if (step_codec_ && gradient && order.examples > 0)
    if (const std::optional<size_t> refused = add_payloads(*step_codec_, order, policy_.sums, row)) return refused;
  double merged_norm = -1;
  if (codec_ && merged)
    if (const std::optional<size_t> refused = add_payloads(*codec_, order, false, row)) return refused;
  const bool moved = repeats_ && repeats_->moves() && gradient && order.examples > 0;
  if (!moved && (gradient || order.examples == 0)) back_to_result(order.examples == 0 || policy_.what != Policy::What::update);
  if (order.examples > 0 && gradient) {
    take_step(order, row);
  } else if (order.examples > 0) {
    if (outer_.active()) keep_result();  // who had no work to do trained nothing, and holds the result in the trainer alone
    if (merged) take_mean(order, row), block_.take_carried(row);
    merged_norm = local_work_ ? change_norm_of_local() : -1;
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
  if (order.examples > 0) count_result(before);
  return std::nullopt;
}

// "ema" and "swa" average the results of rounds, which are the same for all replicas, and so is the average.
void ReplicaTrainer::count_result(int64_t examples_before) {
  const int64_t epoch = trainer_.train_source().size(), begun = examples_before / epoch;
  trainer_.count_result(round_ + 1, begun + 1, trainer_.position().examples / epoch > begun);
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
  const std::optional<size_t> refused = partial_->merge(order, seen, row, result_block(), result_->states);
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

// The exchanged sums become the mean of all members' numbers, in the trainer.
void ReplicaTrainer::take_mean(const ApplyOrder& order, const std::byte* row) {
  if (codec_) take_change(*codec_);
  block_.take_values(row, order.examples, !codec_);
}

bool ReplicaTrainer::load(int64_t round, const std::vector<std::byte>* image, bool keep_local, std::byte* row) {
  const bool rebase = keep_local && local_work_;
  if (repeats_) repeats_->drop();
  if (partial_) unstage();
  const bool staged = staged_;
  const std::vector<uint8_t> lanes = lanes_;
  // With local work: x_old goes into the trainer, the local values w into result_.
  if (rebase) result_->swap_with(trainer_);
  std::unique_ptr<Values> old;
  try {
    if (rebase) {
      old = std::make_unique<Values>(trainer_, nullptr);
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
  if (!image && policy_.served) codec_ = block_codec_of(trainer_, rounds_.get(), policy_.codec, worker_);  // it begins afresh
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
  lanes_ = lanes;
  take_lanes_of_others();
  staged_ = staged;
  if (staged_ && !staged_gradient_ && row)
    block_.stage_values(row, staged_examples_, trainer_.weighted() ? staged_weight_ : static_cast<double>(staged_examples_), !codec_,
                        lanes_);
  return true;
}

// Rows of lanes that the local work has not trained carry what the result has.
void ReplicaTrainer::take_lanes_of_others() {
  const CarriedRows* const rows = trainer_.carried();
  for (size_t i = 0; rows && i < rows->specs().size(); ++i)
    for (size_t lane = 0; lane < lanes_.size(); ++lane)
      if (const size_t bytes = rows->row_bytes(i); lanes_[lane] == 0)
        std::memcpy(rows->now(i).data() + lane * bytes, result_->carried[i].data() + lane * bytes, bytes);
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
  const Trainer::InUse in_use(trainer_);
  Evaluator* evaluator = trainer_.evaluator(order.part);
  if (!evaluator) throw Error(ErrorKind::data, {.where = trainer_.job().where() + ": data", .what = "has no part '" + order.part + "'"});
  if (order.part == "test" || !trainer_.has_part("test")) evaluator->keep_details();  // for the page of the run
  return evaluator->state(order.begin, order.end, &cancel, evaluated).dump();
}

}  // namespace perigee
