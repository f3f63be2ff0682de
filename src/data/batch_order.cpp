#include "src/data/batch_order.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "kernels/philox.h"

namespace perigee {
namespace {

constexpr int kFeistelRounds = 6;

// Shuffled halves of unequal width, so that the domain is less than twice the size and the walk below is short.
struct Feistel {
  int low_bits, high_bits;
  uint64_t keys[kFeistelRounds];

  uint64_t permute(uint64_t x) const {
    const uint64_t low_mask = (uint64_t{1} << low_bits) - 1, high_mask = (uint64_t{1} << high_bits) - 1;
    uint64_t low = x & low_mask, high = x >> low_bits;
    for (int i = 0; i < kFeistelRounds; i += 2) {
      high = (high ^ mix_bits(low + keys[i])) & high_mask;
      low = (low ^ mix_bits(high + keys[i + 1])) & low_mask;
    }
    return high << low_bits | low;
  }
};

}  // namespace

int64_t shuffled_index(uint64_t seed, uint64_t epoch, int64_t position, int64_t size) {
  assert(size > 0 && position >= 0 && position < size);
  const int bits = std::max(4, static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1))));
  Feistel feistel{bits / 2, bits - bits / 2, {}};
  for (int i = 0; i < kFeistelRounds; ++i) feistel.keys[i] = mix_bits(mix_bits(seed) ^ mix_bits(epoch * kFeistelRounds + i + 1));
  auto index = static_cast<uint64_t>(position);
  do index = feistel.permute(index);  // outside the size: walk on along the cycle, which comes back inside
  while (index >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(index);
}

EpochPermutation::EpochPermutation(int64_t size, uint64_t seed, bool shuffle, int64_t shards, int64_t batch)
    : size_(size), shards_(shards), seed_(seed), shuffle_(shuffle) {
  if (shards > 1) sharded_ = ShardedOrder(size, shards, batch);
}

void EpochOrder::start_at(uint64_t epoch, int64_t position) {
  assert(position >= 0);
  epoch_ = epoch + static_cast<uint64_t>(position / examples_.size());
  position_ = position % examples_.size();
}

BatchRange EpochOrder::range(uint64_t number) const {
  const auto first = static_cast<uint64_t>(batches_from(position_));
  BatchRange range{.epoch = epoch_, .position = position_};
  if (number < first) {
    range.position += static_cast<int64_t>(number) * batch_;
  } else {
    const auto whole = static_cast<uint64_t>(batches_from(0));
    range.epoch += 1 + (number - first) / whole;
    range.position = static_cast<int64_t>((number - first) % whole) * batch_;
  }
  range.size = std::min(batch_, examples_.size() - range.position);
  return range;
}

void ListedOrder::append(const BatchRange& range, uint64_t taken) {
  if (end_ - taken + 1 >= ranges_.size()) {  // the batch that was taken last keeps its place
    std::vector<BatchRange> larger(std::max<size_t>(64, 2 * ranges_.size()));
    for (uint64_t i = taken; i < end_; ++i) larger[i % larger.size()] = ranges_[i % ranges_.size()];
    ranges_.swap(larger);
  }
  ranges_[end_++ % ranges_.size()] = range;
}

}  // namespace perigee
