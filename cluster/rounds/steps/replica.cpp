// Rounds of each step in which something else than sums of gradients travels: payloads of a codec, or what each worker's optimiser made of
// its gradient; and what an outer step makes of the mean before the optimiser is given it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/replica/replica_trainer.h"

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

// The row, or with parts `gradient_`, has the sum of the gradient over the contribution's examples. False when what is to be sent is not
// finite, or too large for the codec.
bool ReplicaTrainer::stage_step(const TrainOrder& order, std::byte* row, Contribution* contribution) {
  const bool update = policy_.what == Policy::What::update;
  const int64_t examples = contribution->examples;
  // They make means of sums. A sum of means needs each worker's own; a mean of means is put right by take_step().
  const double weight = weight_ > 0 ? weight_of_work(examples) : static_cast<double>(examples);
  const double divisor = policy_.sums ? weight : static_cast<double>(examples);
  if ((!step_codec_ && !parts_codec_ && !update) || (examples == 0 && !parts_codec_)) return true;
  const Params& params = trainer_.shape().params();
  const BlockMath& math = block_math(params.dtype());
  const int64_t elements = params.block_elements();
  const bool there = step_codec_ && step_codec_->on_device();
  const StepProgress when = {
      .progress = std::min(1.0, progress()),
      .epoch = static_cast<double>(trainer_.position().examples) / static_cast<double>(trainer_.train_source().size()),
      .step = trainer_.position().step};
  std::byte* const gradient = parts_codec_ ? gradient_.data() : row;
  bool finite = true;
  if (there && !gradient_is_there_) rounds_->gpu().upload(trainer_.device_gradient(), gradient, params.block_bytes());
  if (update && examples > 0) {
    keep_result();
    trainer_.update(there ? nullptr : gradient, weight);
  }
  if (examples == 0) {
    math.fill(0, elements, gradient);
  } else if (!step_codec_ && update) {
    math.fill(0, elements, gradient);
    math.add_change(parameters(false), result_parameters(false), elements, gradient);
    if (!parts_codec_) finite = math.scale(gradient, weight_of(examples), elements, gradient);
  } else if (!step_codec_) {
    finite = math.scale(gradient, 1 / divisor, elements, gradient);
  }
  const PhaseScope scope(trainer_.times(), TracePhase::encode, examples);
  const auto* values = reinterpret_cast<const float*>(gradient);
  if (step_codec_) {
    const float* const from = there ? reinterpret_cast<const float*>(trainer_.device_gradient()) : values;
    const CodedValues coded = update ? CodedValues{.block = result_parameters(there), .less = parameters(there)}
                                     : CodedValues{.block = from, .factor = 1 / divisor};
    contribution->payload = step_codec_->encode(coded, block_.coded(row), order.round, when, order.leaves);
    finite = contribution->payload != nullptr;
  }
  if (parts_codec_) {
    if (order.restart) parts_codec_->restart();
    finite = finite && parts_codec_->begin(values, order.round, weight_of(examples), reinterpret_cast<float*>(row));
  }
  contribution->figures.residual_square = parts_codec_  ? parts_codec_->residual_square()
                                          : step_codec_ ? step_codec_->residual_square()
                                                        : -1;
  return finite;
}

// The trainer holds the last result, except that with updates its optimiser has gone on: its slots are this worker's own.
void ReplicaTrainer::take_step(const ApplyOrder& order, std::byte* row) {
  const Params& params = trainer_.shape().params();
  const BlockMath& math = block_math(params.dtype());
  const bool there = step_codec_ && step_codec_->on_device();
  const bool update = policy_.what == Policy::What::update;
  const bool outer = outer_.active() && policy_.what == Policy::What::gradient;
  std::byte* const mean = parts_codec_ ? gradient_.data() : row;
  if (repeats_) {
    repeats_->apply();
    if (repeats_->moves()) return;  // the states too
  } else if (!step_codec_ && !parts_codec_ && !update && !outer) {
    trainer_.update(row, block_.weight(row, order.examples));
  } else {
    if (step_codec_ && update) step_codec_->take_sum(ReplicaCodec::Take::subtract, changed_parameters(there));
    else if (step_codec_)
      step_codec_->take_sum(ReplicaCodec::Take::replace_all, reinterpret_cast<float*>(there ? trainer_.device_gradient() : mean));
    else if (parts_codec_)
      parts_codec_->end(order.round, all_of(order.examples), staged_ && staged_examples_ > 0, reinterpret_cast<const float*>(row),
                        reinterpret_cast<float*>(mean));
    else if (!policy_.sums) math.divide(row, static_cast<double>(order.examples), params.block_elements(), row);
    if (update) {
      if (!step_codec_ && params.dtype() == Dtype::f64) subtract<double>(mean, trainer_.model().params());
      else if (!step_codec_) subtract<float>(mean, trainer_.model().params());
      Position position = trainer_.position();
      position.step += 1;
      trainer_.set_position(position);
    } else {
      if (outer) {
        if (there) rounds_->gpu().download(mean, trainer_.device_gradient(), params.block_bytes());
        const ExchangeTail tail = read_exchange_tail(block_.layout(), {row, block_.layout().bytes()});
        outer_.run({.workers = static_cast<double>(tail.contributions),
                    .progress = progress(),
                    .round = static_cast<double>(order.round),
                    .learning_rate = trainer_.next_learning_rate()},
                   std::as_const(trainer_).model().params().block(), mean);
      }
      const double all = static_cast<double>(order.examples);
      trainer_.update(there && !outer ? nullptr : mean, policy_.sums ? 1 : block_.weight(row, order.examples) / all);
    }
  }
  block_.take_states(row, static_cast<double>(order.examples));
  block_.take_carried(row);
}

}  // namespace perigee
