// The order of an epoch that is cut into shards. A shard is a run of the source's examples, shuffled in itself; positions take turns among the
// shards, block by block. (Of streams, src/data/streams.h, a shard is some of the lanes, and a block is one step of them: positions stay the
// source's own.) So a reader of positions in turn gets about as much of each shard, wherever a run ends, and one that keeps to the
// blocks of one shard sees that part of the data alone. A pure function of size, shards and batch.
#pragma once

#include <cstdint>

namespace perigee {

class ShardedOrder {
 public:
  static constexpr int64_t kMaxShards = 256;
  static constexpr int64_t kBlockBatches = 16;  // of a block, so that few batches are cut short by its end

  ShardedOrder() = default;  // one shard: all is one block
  // 1 <= shards <= kMaxShards; `size` examples, at least as many as shards.
  ShardedOrder(int64_t size, int64_t shards, int64_t batch) : ShardedOrder(size, shards, batch, kBlockBatches) {}
  // `streams` lanes, as many in each shard; both divide what they share out. index() is not for them.
  static ShardedOrder of_streams(int64_t size, int64_t shards, int64_t streams) { return {size, shards, streams / shards, 1}; }

  struct Place {
    int64_t shard = 0;
    int64_t within = 0;  // number in the shard, before it is shuffled
    int64_t end = 0;     // of the block: positions up to here are of the same shard
  };
  int64_t shards() const { return shards_; }
  Place at(int64_t position) const;
  // The example at `position`: in the source's order within its shard unless `shuffle`.
  int64_t index(uint64_t seed, uint64_t epoch, int64_t position, bool shuffle) const;
  // The first position from `position` on, below `end`, that is of one of the shards [first, last); `end` when there is none.
  int64_t next_of(int64_t first, int64_t last, int64_t position, int64_t end) const;

 private:
  ShardedOrder(int64_t size, int64_t shards, int64_t batch, int64_t block_batches);
  int64_t border(int64_t shard) const { return rest_ * shard / shards_; }  // where its block in what is left over begins

  int64_t size_ = 0, shards_ = 1, block_ = 0, rows_ = 0;
  int64_t body_ = 0, rest_ = 0;  // whole blocks of every shard in turn; and what is left over, cut once
};

}  // namespace perigee
