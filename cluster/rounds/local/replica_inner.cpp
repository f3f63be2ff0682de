// Inner exchanges in a replica: local values are staged, and the group's mean takes their place. The result held and its hash stay.
#include <algorithm>
#include <cstring>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/replica/replica_trainer.h"

namespace perigee {
namespace {

constexpr int64_t kStagings = int64_t{1} << 16;  // of a round, for a codec's draws
constexpr size_t kWeightBytes = sizeof(int64_t);

// A payload is what the codec made, if anything was trained, and then for how many examples it stands.
SharedBytes with_weight(PayloadPool& pool, const SharedBytes& coded, int64_t examples) {
  const size_t before = coded ? coded->size() : 0;
  const std::shared_ptr<std::vector<std::byte>> bytes = pool.take(before + kWeightBytes);
  if (coded) std::ranges::copy(*coded, bytes->begin());
  std::memcpy(bytes->data() + before, &examples, kWeightBytes);
  return bytes;
}

}  // namespace

ExchangeLayout ReplicaTrainer::inner_layout() const { return block_.layout_with(inner_codec_ ? inner_codec_->bound() + kWeightBytes : 0); }

// False when a value is not finite, or too large for the codec.
bool ReplicaTrainer::stage_inner(int64_t examples, std::byte* row, Contribution* contribution) {
  SharedBytes coded;
  inner_pending_ = inner_codec_ && examples > 0;
  if (examples == 0) {
    block_.stage_nothing(row);
  } else {
    if (!block_.stage_values(row, examples, weight_of_work(examples), !inner_codec_)) return false;
    if (inner_codec_) {
      coded = encode_change(*inner_codec_, row, contribution->round * kStagings + inner_staged_++ % kStagings);
      if (!coded) return false;
    }
  }
  if (inner_codec_) contribution->payload = with_weight(inner_payloads_, coded, examples);
  return true;
}

std::optional<size_t> ReplicaTrainer::apply_inner(const InnerApplyOrder& order, std::byte* row) {
  const int64_t examples = read_exchange_tail(block_.layout(), {row, block_.layout().bytes()}).examples;
  if (!local_work_ || examples == 0) return std::nullopt;
  if (inner_codec_) {
    if (const std::optional<size_t> refused = add_inner_payloads(order, examples, row)) return refused;
    take_change(*inner_codec_);
    inner_codec_->settle(inner_pending_);
  }
  block_.take_values(row, examples, !inner_codec_);
  return std::nullopt;
}

// The weighted mean of the group's changes: every member adds the same payloads in the same order.
std::optional<size_t> ReplicaTrainer::add_inner_payloads(const InnerApplyOrder& order, int64_t examples, std::byte* row) {
  weighted_.clear();
  inner_numbers_.clear();
  for (size_t i = 0; i < order.payloads.size(); ++i) {
    const std::span<const std::byte> payload = *order.payloads[i];
    int64_t own = -1;
    if (payload.size() >= kWeightBytes) std::memcpy(&own, payload.data() + (payload.size() - kWeightBytes), kWeightBytes);
    if (own < 0 || own > examples) return i;
    if (own == 0) continue;
    const auto weight = static_cast<float>(static_cast<double>(own) / static_cast<double>(examples));
    weighted_.push_back({payload.first(payload.size() - kWeightBytes), weight});
    inner_numbers_.push_back(i);
  }
  const std::optional<size_t> refused = inner_codec_->add(weighted_, block_.coded(row));
  return refused ? std::optional(inner_numbers_[*refused]) : std::nullopt;
}

}  // namespace perigee
