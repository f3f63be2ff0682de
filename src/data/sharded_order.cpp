#include "src/data/sharded_order.h"

#include <algorithm>
#include <cassert>

#include "src/data/loader.h"

namespace perigee {

ShardedOrder::ShardedOrder(int64_t size, int64_t shards, int64_t batch, int64_t block_batches)
    : size_(size), shards_(shards), block_(block_batches * batch), rows_(size / shards / block_), body_(rows_ * block_ * shards) {
  assert(shards >= 1 && shards <= kMaxShards && size >= shards && batch > 0);
  rest_ = size_ - body_;
}

ShardedOrder::Place ShardedOrder::at(int64_t position) const {
  assert(position >= 0 && position < size_);
  if (position < body_) {
    const int64_t block = position / block_;
    return {block % shards_, block / shards_ * block_ + position % block_, (block + 1) * block_};
  }
  const int64_t left = position - body_;
  int64_t shard = left * shards_ / rest_;
  while (border(shard + 1) <= left) ++shard;  // borders are rounded down
  return {shard, rows_ * block_ + left - border(shard), body_ + border(shard + 1)};
}

int64_t ShardedOrder::index(uint64_t seed, uint64_t epoch, int64_t position, bool shuffle) const {
  const Place place = at(position);
  const int64_t whole = rows_ * block_, size = whole + border(place.shard + 1) - border(place.shard);
  const auto key = epoch * static_cast<uint64_t>(shards_) + static_cast<uint64_t>(place.shard);  // each shard's shuffle is its own
  return place.shard * whole + border(place.shard) + (shuffle ? shuffled_index(seed, key, place.within, size) : place.within);
}

int64_t ShardedOrder::next_of(int64_t first, int64_t last, int64_t position, int64_t end) const {
  while (position < end) {
    const Place place = at(position);
    if (place.shard >= first && place.shard < last) return position;
    position = place.end;
  }
  return end;
}

}  // namespace perigee
