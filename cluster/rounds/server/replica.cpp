// A replica's part in served rounds: as the server, and as a worker that takes over what the server has.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "cluster/replica/replica_trainer.h"

namespace perigee {

// Parameters, then states, of the result.
SharedBytes ReplicaTrainer::values() {
  const Params& params = trainer_.model().params();
  auto bytes = std::make_shared<std::vector<std::byte>>(block_.layout().values);
  std::memcpy(bytes->data(), params.block(), params.block_bytes());
  std::copy(params.state_bytes().begin(), params.state_bytes().end(), bytes->begin() + static_cast<ptrdiff_t>(params.block_bytes()));
  return bytes;
}

std::optional<size_t> ReplicaTrainer::serve(const ApplyOrder& order, std::byte* row, SharedBytes* reply, bool* change) {
  assert(!local_work_ && !staged_);
  const Params& params = trainer_.model().params();
  *change = policy_.elastic && !order.payloads.empty();
  std::shared_ptr<std::vector<std::byte>> moved;
  if (*change) {
    moved = std::make_shared<std::vector<std::byte>>(params.block_bytes());
    std::memcpy(moved->data(), params.block(), params.block_bytes());
  }
  if (!order.payloads.empty())
    if (const std::optional<size_t> refused = apply(order, row)) return refused;
  if (*change) {
    // Exact where the two are within a factor of two of each other: then nothing is lost between server and worker (U6).
    auto* by = reinterpret_cast<float*>(moved->data());
    const auto* now = reinterpret_cast<const float*>(params.block());
    for (int64_t i = 0; i < params.block_elements(); ++i) by[i] = now[i] - by[i];
    *reply = std::move(moved);
  } else {
    *reply = values();
  }
  return std::nullopt;
}

bool ReplicaTrainer::take(const TakeOrder& order) {
  Params& params = trainer_.model().params();
  const size_t block = params.block_bytes(), states = params.state_bytes().size();
  if (order.bytes && order.bytes->size() != (order.change ? block : block + states)) return false;
  if (!order.counted && (local_work_ || staged_)) drop();
  if (codec_) codec_->settle(order.counted && staged_ && staged_examples_ > 0);
  if (!order.bytes) {               // what became of the contribution is known, not what was made of it
    local_work_ = staged_ = false;  // the optimiser has seen it; parameters will be pulled
    return true;
  }
  if (order.change) {
    auto* own = reinterpret_cast<float*>(params.block());
    const auto* by = reinterpret_cast<const float*>(order.bytes->data());
    for (const ParamWindow& window : params.windows())
      for (int64_t i = 0; window.trainable && i < window.elements; ++i) own[window.offset + i] -= by[window.offset + i];
  } else {
    std::memcpy(params.block(), order.bytes->data(), block);
    std::copy_n(order.bytes->begin() + static_cast<ptrdiff_t>(block), states, params.state_bytes().begin());
  }
  set_progress(order.examples_after);
  new_result(order.round);
  return true;
}

}  // namespace perigee
