// Access to a replica's numbers on the host or, with a codec on the GPU, on the device; downloads only on demand.
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

#include "cluster/exchange/change_norm.h"
#include "cluster/replica/replica_trainer_values.h"
#include "kernels/block_math.h"
#include "src/io/digest.h"
#include "src/model/steps/carried_rows.h"

namespace perigee {

bool ReplicaTrainer::coded_on_device() const {
  return (codec_ && codec_->on_device()) || (step_codec_ && step_codec_->on_device()) || (inner_codec_ && inner_codec_->on_device());
}

const float* ReplicaTrainer::parameters(bool there) {
  if (!there) return reinterpret_cast<const float*>(std::as_const(trainer_).model().params().block());
  DeviceModel& model = *trainer_.device_model();
  model.gpu().select();
  model.to_device();
  return reinterpret_cast<const float*>(model.block());
}

float* ReplicaTrainer::changed_parameters(bool there) {
  if (!there) return reinterpret_cast<float*>(trainer_.model().params().block());
  const float* const values = parameters(true);
  trainer_.device_model()->device_changed_parameters();
  return const_cast<float*>(values);
}

const float* ReplicaTrainer::result_parameters(bool there) {
  assert(local_work_);
  return reinterpret_cast<const float*>(there ? result_->device_parameters() : result_block());
}

std::byte* ReplicaTrainer::result_block() {
  result_->download();
  return result_->parameters.data();
}

uint64_t ReplicaTrainer::hash_of_result() const {
  const DeviceModel* const there = trainer_.device_model();
  uint64_t hash = 0;
  if (!local_work_ && rounds_ && there->parameters_only_on_device()) {
    hash = rounds_->xxh3_64(there->block(), trainer_.shape().params().block_bytes());
  } else if (!local_work_) {
    const Params& params = std::as_const(trainer_).model().params();
    hash = xxh3_64({params.block(), params.block_bytes()});
  } else {
    result_->download();
    hash = xxh3_64(result_->parameters);
  }
  hash = xxh3_64(local_work_ ? result_->states : std::as_const(trainer_).states(), hash);
  for (size_t i = 0; i < outer_.states().size(); ++i) hash = xxh3_64(outer_.state(i), hash);
  const CarriedRows* const rows = trainer_.carried();
  for (size_t i = 0; rows && i < rows->specs().size(); ++i)
    hash = xxh3_64(local_work_ ? std::span<const std::byte>(result_->carried[i]) : rows->now(i), hash);
  return hash;
}

// Norms of the local work, for the coordinator's guards. Those of the result are told once it has been trained on.
Norms ReplicaTrainer::norms_of_change() {
  const Params& params = trainer_.shape().params();
  const bool there = codec_ && codec_->on_device();
  if (parameters_norm_ < 0)
    parameters_norm_ = std::sqrt(there ? rounds_->square(result_parameters(true), nullptr, params.block_elements())
                                       : block_math(params.dtype()).sum_of_squares(result_parameters(false), params.block_elements()));
  return {.change = change_norm_of_local(), .parameters = parameters_norm_, .merged = merged_norm_};
}

double ReplicaTrainer::change_norm_of_local() {
  const Params& params = trainer_.shape().params();
  if (codec_ && codec_->on_device()) return std::sqrt(rounds_->square(parameters(true), result_parameters(true), params.block_elements()));
  return change_norm(params.dtype(), result_parameters(false), parameters(false), params.block_elements());
}

// result - local values. Elastic: what is sent is where the worker is.
SharedBytes ReplicaTrainer::encode_change(ReplicaCodec& codec, std::byte* row, int64_t round) {
  const bool there = codec.on_device();
  const float* const local = parameters(there);
  const CodedValues values = policy_.elastic ? CodedValues{.block = local} : CodedValues{.block = result_parameters(there), .less = local};
  return codec.encode(values, block_.coded(row), round, {}, 1);
}

// The weighted mean of all changes, or their sum: every member adds the same payloads in the same order. The number of an invalid payload;
// then nothing has changed but room for sums.
std::optional<size_t> ReplicaTrainer::add_payloads(ReplicaCodec& codec, const ApplyOrder& order, bool sums, std::byte* row) {
  weighted_.clear();
  for (const Payload& payload : order.payloads) {
    const double weight = sums ? 1 : static_cast<double>(payload.examples) / static_cast<double>(order.examples);
    weighted_.push_back({*payload.bytes, static_cast<float>(weight)});
  }
  return codec.add(weighted_, block_.coded(row));
}

// The parameters become those of the result, less the mean of what came.
void ReplicaTrainer::take_change(ReplicaCodec& codec) {
  const bool there = codec.on_device();
  float* const values = changed_parameters(there);
  const size_t bytes = trainer_.shape().params().block_bytes();
  if (local_work_ && there) rounds_->gpu().copy(values, result_parameters(true), bytes);
  else if (local_work_) std::memcpy(values, result_parameters(false), bytes);
  codec.take_sum(policy_.elastic ? ReplicaCodec::Take::replace : ReplicaCodec::Take::subtract, values);
}

}  // namespace perigee
