// Rounds of each step in which something else than sums of gradients travels: payloads of a codec, or what each worker's optimiser made of
// its gradient; and what an outer step makes of the mean before the optimiser is given it.
#include <algorithm>
#include <cassert>

#include "cluster/exchange_tail.h"
#include "cluster/uv/replica_trainer.h"

namespace perigee {
namespace {

template <class T>
void subtract(const std::byte* change, Params& params) {
  const T* from = reinterpret_cast<const T*>(change);
  T* values = reinterpret_cast<T*>(params.block());
  for (const ParamWindow& window : params.windows())
    for (int64_t i = 0; window.trainable && i < window.elements; ++i) values[window.offset + i] -= from[window.offset + i];
}

}  // namespace

// The row has the sum of the gradient over the contribution's examples. False when what is to be sent is not finite, or too large for the
// codec.
bool ReplicaTrainer::stage_step(const TrainOrder& order, std::byte* row, Contribution* contribution) {
  const bool update = policy_.what == Policy::What::update;
  if ((!step_codec_ && !update) || contribution->examples == 0) return true;
  Params& params = trainer_.model().params();
  const BlockMath& math = block_math(params.dtype());
  const int64_t elements = params.block_elements();
  const StepProgress when = {
      .progress = std::min(1.0, progress()),
      .epoch = static_cast<double>(trainer_.position().examples) / static_cast<double>(trainer_.train_source().size()),
      .step = trainer_.position().step};
  bool finite = true;
  if (update) {
    keep_result();
    trainer_.update(row, contribution->examples);
    const PhaseScope scope(trainer_.times(), TracePhase::encode);
    math.fill(0, elements, row);
    math.add_change(params.block(), result_parameters(), elements, row);
    if (!step_codec_) finite = math.scale(row, policy_.sums ? 1 : static_cast<double>(contribution->examples), elements, row);
  } else {
    finite = math.scale(row, 1 / static_cast<double>(contribution->examples), elements, row);
  }
  const PhaseScope scope(trainer_.times(), TracePhase::encode, contribution->examples);
  if (finite && step_codec_) {
    contribution->payload = step_codec_->encode(reinterpret_cast<const float*>(row), order.round, when, order.leaves);
    finite = contribution->payload != nullptr;
  }
  return finite;
}

// The number of a payload that is none; then nothing has changed but room for sums.
std::optional<size_t> ReplicaTrainer::add_step_payloads(const ApplyOrder& order) {
  step_codec_->begin_sum();
  for (size_t i = 0; i < order.payloads.size(); ++i) {
    const Payload& payload = order.payloads[i];
    const double weight = policy_.sums ? 1 : static_cast<double>(payload.examples) / static_cast<double>(order.examples);
    if (!step_codec_->add(*payload.bytes, static_cast<float>(weight))) return i;
  }
  return std::nullopt;
}

// The trainer holds the last result, except that with updates its optimiser has gone on: its slots are this worker's own.
void ReplicaTrainer::take_step(const ApplyOrder& order, std::byte* row) {
  Params& params = trainer_.model().params();
  const BlockMath& math = block_math(params.dtype());
  const bool update = policy_.what == Policy::What::update;
  const bool outer = outer_.active() && policy_.what == Policy::What::gradient;
  if (!step_codec_ && !update && !outer) {
    trainer_.update(row, order.examples);
  } else {
    if (step_codec_) step_codec_->end_sum(reinterpret_cast<float*>(row));
    else if (!policy_.sums) math.divide(row, static_cast<double>(order.examples), params.block_elements(), row);
    if (update) {
      if (params.dtype() == Dtype::f64) subtract<double>(row, params);
      else subtract<float>(row, params);
      Position position = trainer_.position();
      position.step += 1;
      trainer_.set_position(position);
    } else {
      if (outer) {
        const ExchangeTail tail = read_exchange_tail(block_.layout(), {row, block_.layout().bytes()});
        outer_.run({.workers = static_cast<double>(tail.contributions),
                    .progress = progress(),
                    .round = static_cast<double>(order.round),
                    .learning_rate = trainer_.next_learning_rate()},
                   params.block(), row);
      }
      trainer_.update(row, 1);
    }
  }
  block_.take_states(row, order.examples);
}

}  // namespace perigee
