#include "cluster/uv/replica_trainer.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>

#include "cluster/change_norm.h"
#include "cluster/data/data_print.h"
#include "cluster/data/remote_source.h"
#include "cluster/exchange_tail.h"
#include "cluster/fixed_plan.h"
#include "src/core/warning.h"
#include "src/io/digest.h"
#include "src/train/evaluator.h"

namespace perigee {
namespace {

constexpr uint64_t kInnerStream = uint64_t{1} << 32;  // a worker's draws for its two codecs are not the same

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point begin) { return std::chrono::duration<double>(SteadyClock::now() - begin).count(); }

Job job_of(const Welcome& welcome) { return Job(Json::parse(welcome.job, "job"), "job", welcome.folder); }

DataPlacement placement_of(const Job& job) { return read_placement(Config(job.json(), job.where()).object("data")); }

std::unique_ptr<SourceOpener> remote_opener(const Welcome& welcome, const ReplicaTrainerOptions& options) {
  if (!placement_of(job_of(welcome)).at_coordinator) return nullptr;
  if (welcome.sources.empty() || !options.examples)
    throw Error(ErrorKind::data, {.where = "data.at", .what = "the coordinator serves no examples", .expected = "data.at = \"worker\""});
  return std::make_unique<RemoteOpener>(welcome.sources, *options.examples);
}

TrainerOptions trainer_options(const Welcome& welcome, SourceOpener* opener, TraceRing* trace) {
  TrainerOptions trainer{.threads = welcome.threads, .measure = false, .opener = opener, .trace = trace};
  if (!welcome.tuning.empty()) trainer.tuning = Json::parse(welcome.tuning, "tuning");
  trainer.shards = placement_of(job_of(welcome)).shards;
  const Json job = Json::parse(welcome.job, "job");
  const Json* device = job.find("device");
  if (device && device->is_string() && device->as_string() == "ref") trainer.backend = Backend::ref;
  trainer.check = device && device->is_string() && device->as_string().starts_with("check");
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

void add_figures(const StepReport& report, Contribution* contribution) {
  Figures& figures = contribution->figures;
  figures.loss_sum += report.loss * static_cast<double>(report.examples);
  if (report.accuracy >= 0) figures.correct = std::max(figures.correct, 0.0) + report.accuracy * static_cast<double>(report.examples);
  figures.learning_rate = report.learning_rate;
}

}  // namespace

// The numbers of a trainer.
struct ReplicaTrainer::Values {
  std::vector<std::byte> parameters, states;
  std::vector<std::vector<std::byte>> slots;
  Position position;

  explicit Values(Trainer& trainer) {
    parameters.resize(trainer.model().params().block_bytes());
    states.resize(trainer.model().params().state_bytes().size());
    slots.assign(trainer.optimizer_slots(), std::vector<std::byte>(parameters.size()));
  }
  void copy_from(Trainer& trainer) {
    const Params& params = trainer.model().params();
    std::copy_n(params.block(), parameters.size(), parameters.begin());
    std::copy_n(params.state_bytes().begin(), states.size(), states.begin());
    for (size_t i = 0; i < slots.size(); ++i) std::copy_n(trainer.optimizer_slot(i).begin(), slots[i].size(), slots[i].begin());
    position = trainer.position();
  }
  void copy_to(Trainer& trainer, bool with_slots) const {
    Params& params = trainer.model().params();
    std::copy(parameters.begin(), parameters.end(), params.block());
    std::copy(states.begin(), states.end(), params.state_bytes().begin());
    for (size_t i = 0; with_slots && i < slots.size(); ++i) std::copy(slots[i].begin(), slots[i].end(), trainer.optimizer_slot(i).begin());
    trainer.set_position(position);
  }
  void swap_with(Trainer& trainer) {
    Params& params = trainer.model().params();
    std::swap_ranges(parameters.begin(), parameters.end(), params.block());
    std::swap_ranges(states.begin(), states.end(), params.state_bytes().begin());
    for (size_t i = 0; i < slots.size(); ++i) std::swap_ranges(slots[i].begin(), slots[i].end(), trainer.optimizer_slot(i).begin());
    const Position mine = position;
    position = trainer.position();
    trainer.set_position(mine);
  }
};

// While it lives, the trainer holds the last result.
class ReplicaTrainer::AtResult {
 public:
  explicit AtResult(ReplicaTrainer& replica) : replica_(replica) {
    if (replica_.local_work_) replica_.result_->swap_with(replica_.trainer_);
  }
  ~AtResult() {
    if (replica_.local_work_) replica_.result_->swap_with(replica_.trainer_);
  }
  AtResult(const AtResult&) = delete;
  AtResult& operator=(const AtResult&) = delete;

 private:
  ReplicaTrainer& replica_;
};

ReplicaTrainer::ReplicaTrainer(const Welcome& welcome, const ReplicaTrainerOptions& options)
    : opener_(options.opener),
      worker_(welcome.id),
      remote_(remote_opener(welcome, options)),
      trainer_(job_of(welcome), trainer_options(welcome, remote_ ? remote_.get() : options.opener, options.trace)),
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
  const Params& params = trainer_.model().params();
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

bool ReplicaTrainer::train(const TrainOrder& order, std::span<std::byte* const> rows, const std::atomic<bool>& cancel, OrderWatch& watch,
                           Contribution* contribution) {
  assert(!rows.empty());
  PhaseTimes& times = trainer_.times();
  const PhaseTimes before = times;
  times.round = order.round;
  if (staged_ && codec_ && order.carried > 0) codec_->settle(false);  // it goes on from what it had staged
  staged_ = staged_ && order.overlapped;
  overlapped_ = order.overlapped;
  order_done_ = false;
  steps_made_ = 0;
  contribution->round = order.round;
  contribution->examples = contribution->steps = 0;
  contribution->finite = true;
  contribution->norms = {};
  contribution->ranges.clear();
  contribution->partials.clear();
  contribution->figures = {};
  contribution->payload.reset();
  const bool done =
      order.gradient ? train_gradient(order, rows, cancel, watch, contribution) : train_steps(order, rows[0], cancel, watch, contribution);
  overlapped_ = false;
  if (!done) return false;
  if (!contribution->finite) {
    back_to_result();
    if (partial_) partial_->drop();
    const PhaseScope scope(times, TracePhase::encode);
    for (std::byte* row : rows) block_.stage_nothing(row);
    contribution->examples = contribution->steps = 0;
  }
  staged_ = !order.inner;
  staged_gradient_ = order.gradient;
  staged_examples_ = contribution->finite ? order.carried + contribution->examples : 0;
  const auto spent = [&](TracePhase phase) { return times.seconds(phase) - before.seconds(phase); };
  contribution->figures.load_s = spent(TracePhase::load);
  contribution->figures.compute_s = spent(TracePhase::compute) + spent(TracePhase::update);
  contribution->figures.encode_s = spent(TracePhase::encode);
  return true;
}

// The loader reads the order's ranges, then those of the next one. What it has read already for this one is kept.
void ReplicaTrainer::read_ahead(const TrainOrder& order) {
  wanted_.clear();
  for (const auto* ranges : {&order.ranges, &order.next})
    for (const Range& range : *ranges)
      if (range.count > 0) wanted_.push_back(range);
  Loader& loader = trainer_.loader();
  const size_t ready = listed_.size() - taken_;
  const bool foreseen =
      ready > 0 && ready <= wanted_.size() &&
      std::equal(wanted_.begin(), wanted_.begin() + static_cast<ptrdiff_t>(ready), listed_.begin() + static_cast<ptrdiff_t>(taken_));
  if (!foreseen) loader.clear_list();
  size_t count = foreseen ? ready : 0;
  while (count < wanted_.size() && loader.list({wanted_[count].epoch, wanted_[count].begin, wanted_[count].count})) ++count;
  wanted_.resize(count);
  std::swap(listed_, wanted_);
  taken_ = 0;
}

const Batch& ReplicaTrainer::next_batch() {
  assert(taken_ < listed_.size());  // an order has at most kMaxRanges ranges, and as many can be listed
  static_assert(kMaxRanges <= Loader::kMaxListed);
  ++taken_;
  return trainer_.next_batch();
}

bool ReplicaTrainer::train_steps(const TrainOrder& order, std::byte* row, const std::atomic<bool>& cancel, OrderWatch& watch,
                                 Contribution* contribution) {
  const auto begin = SteadyClock::now();
  keep_result();
  read_ahead(order);
  contribution->partials.push_back({0, order.leaves});
  StepReport report;
  for (const Range& range : order.ranges) {
    if (watch.given_up()) return false;
    if (range.count == 0) continue;
    Position position = trainer_.position();
    position.examples = order.examples_before + contribution->steps * order.examples_per_step;
    trainer_.set_position(position);
    const StepOutcome outcome = trainer_.try_step(next_batch(), &report, &cancel);
    if (outcome == StepOutcome::cancelled) return false;
    if (outcome == StepOutcome::not_finite) {
      // What came before it is good and is handed in; the batch itself is then the first of the next order.
      if (contribution->steps > 0 || order.carried > 0) break;
      contribution->finite = false;
      contribution->ranges.push_back(range);
      break;
    }
    watch.on_step();
    ++steps_made_;
    if (partial_) partial_->trained(range.count);
    contribution->ranges.push_back(range);
    contribution->examples += range.count;
    contribution->steps += 1;
    add_figures(report, contribution);
    if (order.stop_after_ms > 0 && seconds_since(begin) * 1000 >= order.stop_after_ms) break;
  }
  order_done_ = true;
  while (overlapped_ && staged_)  // waits for the result of the round before
    if (watch.given_up()) return false;
  if (!contribution->finite) return true;
  const PhaseScope scope(trainer_.times(), TracePhase::encode, contribution->examples);
  contribution->finite = stage(order, row, contribution);
  return true;
}

// result - local values, in the block's part of the row.
std::span<const float> ReplicaTrainer::change_in(std::byte* row) {
  const Params& params = trainer_.model().params();
  const std::span<float> change = block_.coded(row);
  std::fill(change.begin(), change.end(), 0.0f);
  // Elastic: what is sent is where the worker is.
  if (policy_.elastic) std::memcpy(change.data(), params.block(), params.block_bytes());
  else block_math(params.dtype()).add_change(params.block(), result_->parameters.data(), params.block_elements(), change.data());
  return change;
}

// False when a value is not finite, or too large for the codec.
bool ReplicaTrainer::stage(const TrainOrder& order, std::byte* row, Contribution* contribution) {
  const int64_t examples = order.carried + contribution->examples;
  if (partial_) return partial_->stage(round_ + 1, result_->parameters.data(), row, contribution);
  if (order.inner) return stage_inner(examples, row, contribution);
  if (!block_.stage_values(row, examples, !codec_)) return false;
  contribution->norms = norms_of_change();
  if (!codec_) return true;
  contribution->payload = codec_->encode(change_in(row), contribution->round);
  if (const std::span<const float> residual = codec_->residual(); !residual.empty())
    contribution->norms.residual = std::sqrt(block_math(Dtype::f32).sum_of_squares(residual.data(), static_cast<int64_t>(residual.size())));
  return contribution->payload != nullptr;
}

// Of the local work, for the coordinator's guards. Those of the result are told once it has been trained on.
Norms ReplicaTrainer::norms_of_change() {
  const Params& params = trainer_.model().params();
  const BlockMath& math = block_math(params.dtype());
  if (parameters_norm_ < 0) parameters_norm_ = std::sqrt(math.sum_of_squares(result_->parameters.data(), params.block_elements()));
  return {.change = change_norm(params.dtype(), result_->parameters.data(), params.block(), params.block_elements()),
          .parameters = parameters_norm_,
          .merged = merged_norm_};
}

void ReplicaTrainer::plan_node(int32_t first, int32_t last, size_t depth, std::byte* to, const std::vector<const std::byte*>& adds) {
  if (last - first == 1) {
    leaves_.push_back({.leaf = first, .to = to, .adds = adds});
    return;
  }
  if (partial_sums_.size() <= depth) partial_sums_.emplace_back(block_.layout().bytes());
  std::byte* left = partial_sums_[depth].data();
  const int32_t middle = first + (last - first) / 2;
  plan_node(first, middle, depth + 1, left, {});
  std::vector<const std::byte*> adds_of_right = {left};
  adds_of_right.insert(adds_of_right.end(), adds.begin(), adds.end());
  plan_node(middle, last, depth + 1, to, adds_of_right);
}

void ReplicaTrainer::plan_leaves(const TrainOrder& order, std::span<std::byte* const> rows) {
  const auto count = static_cast<int32_t>(order.ranges.size());
  if (planned_first_ == order.first_leaf && planned_count_ == count && planned_leaves_ == order.leaves &&
      std::equal(rows.begin(), rows.end(), planned_rows_.begin(), planned_rows_.end()))
    return;
  leaves_.clear();
  partials_ = partials_of(order.first_leaf, order.first_leaf + count, order.leaves);
  assert(partials_.size() == rows.size());
  for (size_t i = 0; i < partials_.size(); ++i) plan_node(partials_[i].first, partials_[i].first + partials_[i].count, 0, rows[i], {});
  if (!leaves_.empty()) leaves_.back().last_of_all = true;
  planned_first_ = order.first_leaf, planned_count_ = count, planned_leaves_ = order.leaves;
  planned_rows_.assign(rows.begin(), rows.end());
}

bool ReplicaTrainer::train_gradient(const TrainOrder& order, std::span<std::byte* const> rows, const std::atomic<bool>& cancel,
                                    OrderWatch& watch, Contribution* contribution) {
  back_to_result();
  std::byte* const apart[] = {gradient_.data()};
  plan_leaves(order, parts_codec_ ? std::span<std::byte* const>(apart) : rows);
  read_ahead(order);
  const std::span<std::byte> states = trainer_.model().params().state_bytes();
  std::copy(states.begin(), states.end(), states_before_.begin());
  const bool in_buckets = block_.buckets().size() > 1;
  for (const Leaf& leaf : leaves_) {
    if (watch.given_up()) return false;
    const Range& range = order.ranges[static_cast<size_t>(leaf.leaf - order.first_leaf)];
    const Batch& batch = range.count > 0 ? next_batch() : no_batch_;
    const GradientTarget target{
        .to = leaf.to, .add = leaf.adds, .sink = in_buckets && leaf.last_of_all && contribution->finite ? &watch : nullptr};
    const GradientReport report = trainer_.sum_gradient(batch, target, &cancel);
    if (report.cancelled) return false;
    if (range.count > 0) contribution->ranges.push_back(range);
    contribution->finite = contribution->finite && report.finite;
    contribution->examples += range.count;
    contribution->figures.loss_sum += report.loss_sum;
    if (trainer_.model().spec().classes > 0)
      contribution->figures.correct = std::max(contribution->figures.correct, 0.0) + static_cast<double>(report.correct);
    const PhaseScope scope(trainer_.times(), TracePhase::encode, range.count);
    // Each leaf starts from the states of the result; their mean by examples is part of the exchange.
    if (range.count > 0) trainer_.commit_states();
    block_.stage_beside_gradient(parts_codec_ ? rows[0] : leaf.to, leaf.adds, range.count, leaf.leaf == order.first_leaf);
    std::copy(states_before_.begin(), states_before_.end(), states.begin());
  }
  contribution->steps = 1;
  contribution->partials = partials_;
  contribution->figures.learning_rate = trainer_.next_learning_rate();
  contribution->finite = contribution->finite && stage_step(order, rows[0], contribution);
  watch.on_step();
  return true;
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
