// Rounds of each step in which a row is added up several times (repeated_sums.h): the same examples, the same places, each time with what the
// sum before it asks for.
#include <cassert>
#include <utility>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/replica/replica_trainer.h"

namespace perigee {

void ReplicaTrainer::begin_repeats(const TrainOrder& order) {
  repeated_ = order;
  repeated_.next = order.ranges;  // the same examples come again
  batch_ = nullptr;
  repeats_->begin(order);
}

// A worker that has no examples in this round takes part in the sums all the same.
void ReplicaTrainer::plan_nothing(std::byte* row) {
  leaves_.clear();
  partials_.clear();
  planned_first_ = -1;
  block_.stage_nothing(row);
}

const Batch& ReplicaTrainer::leaf_batch() {
  if (!repeats_ || leaves_.size() > 1) return next_batch();
  if (!batch_) batch_ = &next_batch();
  return *batch_;
}

// A round is told of by the parameters that it begins with: where a search goes on from a value that is known, by the last sum of the one before.
void ReplicaTrainer::tell_figures(Contribution* contribution) {
  const double loss_sum = contribution->figures.loss_sum, correct = contribution->figures.correct;
  if (!repeats_->begins()) contribution->figures.loss_sum = known_.loss_sum, contribution->figures.correct = known_.correct;
  known_.loss_sum = loss_sum, known_.correct = correct;
}

ReplicaTrainer::Part ReplicaTrainer::make_part(const PartOrder& order, std::span<std::byte* const> rows, const std::atomic<bool>& cancel,
                                               OrderWatch& watch) {
  if (repeats_) return repeat(order, rows, cancel, watch);
  assert(parts_codec_);
  const PhaseScope scope(trainer_.times(), TracePhase::encode);
  parts_codec_->next(order.pass, all_of(order.examples), reinterpret_cast<float*>(rows[0]));
  return Part::made;
}

ReplicaTrainer::Part ReplicaTrainer::repeat(const PartOrder& order, std::span<std::byte* const> rows, const std::atomic<bool>& cancel,
                                            OrderWatch& watch) {
  std::byte* const row = rows[0];
  const int64_t begun = block_.begun(row), all = read_exchange_tail(block_.layout(), {row, block_.layout().bytes()}).contributions;
  const MergedSum sum{
      .gradient = row, .loss = block_.loss(row), .weight = block_.weight(row, order.examples), .mixed = begun > 0 && begun < all};
  if (repeats_->moves()) {
    keep_result();
    block_.take_states(row, static_cast<double>(order.examples));
  }
  if (!repeats_->take(sum)) return Part::over;
  if (repeated_.ranges.empty()) block_.stage_nothing(row);
  if (leaves_.size() > 1) read_ahead(repeated_);
  again_.finite = true;
  again_.examples = 0;
  again_.ranges.clear();
  again_.figures = {};
  if (!sum_leaves(repeated_, row, cancel, watch, &again_)) return Part::given_up;
  if (!repeats_->moves()) known_.loss_sum = again_.figures.loss_sum, known_.correct = again_.figures.correct;
  return Part::made;
}

}  // namespace perigee
