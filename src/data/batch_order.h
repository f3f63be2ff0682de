// Which examples are in batch number n: a pure function of n, whenever and on whichever thread they are read. An order says what there is
// to read; the loader reads it ahead of what is taken.
#pragma once

#include <cstdint>
#include <vector>

#include "src/data/sharded_order.h"

namespace perigee {

// Position `position` of epoch `epoch`'s permutation of [0, size): a pure O(1) function (a Feistel network with cycle walking),
// so that a seek costs nothing and every worker computes the same order.
int64_t shuffled_index(uint64_t seed, uint64_t epoch, int64_t position, int64_t size);

// Positions [position, position + size) of epoch `epoch`'s order.
struct BatchRange {
  uint64_t epoch = 0;
  int64_t position = 0, size = 0;
};

// Where the examples of an epoch's positions are in the source. Immutable.
class EpochPermutation {
 public:
  // `batch`: in how many examples shards take turns (sharded_order.h).
  EpochPermutation(int64_t size, uint64_t seed, bool shuffle, int64_t shards, int64_t batch);
  int64_t size() const { return size_; }
  int64_t index(uint64_t epoch, int64_t position) const {
    if (shards_ > 1) return sharded_.index(seed_, epoch, position, shuffle_);
    return shuffle_ ? shuffled_index(seed_, epoch, position, size_) : position;
  }

 private:
  int64_t size_, shards_;
  uint64_t seed_;
  bool shuffle_;
  ShardedOrder sharded_;  // with several shards
};

class BatchOrder {
 public:
  virtual ~BatchOrder() = default;
  virtual uint64_t end() const = 0;                     // one more than the last batch; kEndless: there is always another one
  virtual BatchRange range(uint64_t number) const = 0;  // of a batch before end()
  virtual int64_t index(const BatchRange& range, int64_t i) const = 0;  // in the source, of the range's example i; any thread

  static constexpr uint64_t kEndless = UINT64_MAX;
};

// One epoch after another, in batches of one size; the last of an epoch may be smaller.
class EpochOrder final : public BatchOrder {
 public:
  EpochOrder(const EpochPermutation& examples, int64_t batch) : examples_(examples), batch_(batch) {}
  void start_at(uint64_t epoch, int64_t position);  // batch 0 begins there

  uint64_t end() const override { return kEndless; }
  BatchRange range(uint64_t number) const override;
  int64_t index(const BatchRange& range, int64_t i) const override { return examples_.index(range.epoch, range.position + i); }

 private:
  int64_t batches_from(int64_t position) const { return (examples_.size() - position + batch_ - 1) / batch_; }

  const EpochPermutation& examples_;
  int64_t batch_;
  uint64_t epoch_ = 0;
  int64_t position_ = 0;
};

// Batches of any size, in the order in which they are listed.
class ListedOrder final : public BatchOrder {
 public:
  explicit ListedOrder(const EpochPermutation& examples) : examples_(examples) {}
  void clear() { end_ = 0; }
  // Batches before number `taken` are not asked for again; their places are used for others.
  void append(const BatchRange& range, uint64_t taken);

  uint64_t end() const override { return end_; }
  BatchRange range(uint64_t number) const override { return ranges_[number % ranges_.size()]; }
  int64_t index(const BatchRange& range, int64_t i) const override { return examples_.index(range.epoch, range.position + i); }

 private:
  const EpochPermutation& examples_;
  std::vector<BatchRange> ranges_;  // a ring: batch number n is at n % size
  uint64_t end_ = 0;
};

}  // namespace perigee
