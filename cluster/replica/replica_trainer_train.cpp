// A replica's work between two exchanges: batches of its ranges, and what it stages of them.
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "cluster/exchange/change_norm.h"
#include "cluster/ledger/fixed_plan.h"
#include "cluster/replica/replica_trainer_values.h"

namespace perigee {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

double seconds_since(SteadyClock::time_point begin) { return std::chrono::duration<double>(SteadyClock::now() - begin).count(); }

void add_figures(const StepReport& report, Contribution* contribution) {
  Figures& figures = contribution->figures;
  figures.loss_sum += report.loss * static_cast<double>(report.examples);
  if (report.accuracy >= 0) figures.correct = std::max(figures.correct, 0.0) + report.accuracy * static_cast<double>(report.examples);
  figures.learning_rate = report.learning_rate;
}

}  // namespace

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
  weight_ = order.carried > 0 ? staged_weight_ : 0;
  contribution->round = contribution->staged_for = order.round;
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
  staged_weight_ = contribution->finite ? weight_ : 0;
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
      // The work before it is good and is handed in; the batch itself is then the first of the next order.
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
    if (!lanes_.empty()) std::fill_n(lanes_.begin() + range.begin % trainer_.streams(), range.count, uint8_t{1});
    contribution->steps += 1;
    weight_ += report.weight;
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

// False when a value is not finite, or too large for the codec.
bool ReplicaTrainer::stage(const TrainOrder& order, std::byte* row, Contribution* contribution) {
  const int64_t examples = order.carried + contribution->examples;
  if (partial_) {
    contribution->staged_for = round_ + 1;
    return partial_->stage(contribution->staged_for, result_block(), row, contribution);
  }
  if (order.inner) return stage_inner(examples, row, contribution);
  if (!block_.stage_values(row, examples, weight_of_work(examples), !codec_, lanes_)) return false;
  contribution->norms = norms_of_change();
  if (!codec_) return true;
  contribution->payload = encode_change(*codec_, row, contribution->round);
  if (const double square = codec_->residual_square(); square >= 0) contribution->norms.residual = std::sqrt(square);
  return contribution->payload != nullptr;
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
  if (repeats_) begin_repeats(order);
  if (order.ranges.empty()) plan_nothing(rows[0]);
  else plan_leaves(order, parts_codec_ ? std::span<std::byte* const>(apart) : rows);
  read_ahead(repeats_ && leaves_.size() > 1 ? repeated_ : order);
  // Where there is nothing to add, and the codec is on the GPU, the gradient stays there.
  gradient_is_there_ = step_codec_ && step_codec_->on_device() && leaves_.size() == 1 && leaves_[0].adds.empty();
  if (!sum_leaves(order, rows[0], cancel, watch, contribution)) return false;
  contribution->steps = 1;
  contribution->partials = partials_;
  contribution->figures.learning_rate = trainer_.next_learning_rate();
  contribution->finite = contribution->finite && stage_step(order, rows[0], contribution);
  if (repeats_) tell_figures(contribution);
  watch.on_step();
  return true;
}

// The gradients of the order's leaves, and what is beside them, where plan_leaves() has placed their sums; with parts, beside `row`.
bool ReplicaTrainer::sum_leaves(const TrainOrder& order, std::byte* row, const std::atomic<bool>& cancel, OrderWatch& watch,
                                Contribution* contribution) {
  const Model& model = trainer_.shape();
  std::ranges::copy(std::as_const(trainer_).states(), states_before_.begin());
  const bool in_buckets = block_.buckets().size() > 1 && !repeats_;
  for (const Leaf& leaf : leaves_) {
    if (watch.given_up()) return false;
    const Range& range = order.ranges[static_cast<size_t>(leaf.leaf - order.first_leaf)];
    const Batch& batch = range.count > 0 ? leaf_batch() : no_batch_;
    const GradientTarget target{.to = gradient_is_there_ ? nullptr : leaf.to,
                                .add = leaf.adds,
                                .sink = in_buckets && leaf.last_of_all && contribution->finite ? &watch : nullptr};
    const GradientReport report = repeats_ ? repeats_->sum_gradient(batch, target, &cancel) : trainer_.sum_gradient(batch, target, &cancel);
    if (report.cancelled) return false;
    if (range.count > 0) contribution->ranges.push_back(range);
    const bool finite = report.finite || (repeats_ && !repeats_->must_be_finite());
    contribution->finite = contribution->finite && finite;
    contribution->examples += range.count;
    weight_ += report.weight;
    if (report.weight > 0) contribution->figures.loss_sum += report.loss_sum * (static_cast<double>(report.examples) / report.weight);
    if (model.spec().classes > 0)
      contribution->figures.correct = std::max(contribution->figures.correct, 0.0) + static_cast<double>(report.correct);
    const PhaseScope scope(trainer_.times(), TracePhase::encode, range.count);
    // Each leaf starts from the states of the result; their mean by examples is part of the exchange.
    if (range.count > 0) repeats_ ? repeats_->commit_states() : trainer_.commit_states();
    block_.stage_beside_gradient(parts_codec_ ? row : leaf.to, leaf.adds, range.begin, range.count, report.weight,
                                 leaf.leaf == order.first_leaf, report.finite ? report.loss_sum : kNoNumber,
                                 repeats_ && repeats_->begins());
    if (!states_before_.empty()) std::ranges::copy(states_before_, trainer_.states().begin());
  }
  return true;
}

}  // namespace perigee
