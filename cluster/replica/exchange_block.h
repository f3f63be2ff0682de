// How a trainer's numbers lie in an exchange: the parameter block (values or gradients), the running statistics (a variance and its mean as
// moment_sums.h has them), what rows carry, the optimiser's slots where they take part, the tail; then what is merged by maximum: integer states and the
// number of updates. What rows carry is there for all lanes, zero but for those that the contribution has trained, so that
// after a round every worker has that of every lane and may go on with any; how often each lane is there goes along. All others but the gradients are multiplied by the examples that they stand for, so that the sum divided by all examples is
// the mean (src/ARCHITECTURE.md, decision 7). Where examples count differently (Trainer::weighted), the sum of their weights goes along:
// values are multiplied by it instead, and the sum of the gradients is divided by it. A gradient is the beginning of its row. With a codec
// the parameters of an announced round are not added up: the block's part of the row is room for float32 values of its size. Owned by the
// trainer thread.
#pragma once

#include <span>
#include <vector>

#include "cluster/replica/replica.h"
#include "src/train/trainer.h"

namespace perigee {

class ExchangeBlock {
 public:
  // Cuts the trainer's gradient into buckets of about `bucket_bytes`; what does not belong to the gradient goes with the last one.
  // `payload_bound`: of a codec; 0: there is none. `fragments`: so many more tails stand before the last. `passes`: of a linear codec,
  // elements that stand in the block's place, a bucket for each. `repeats`: the row is added up so often at most, with the sum of the loss
  // (exact_sum.h) and how many workers begin their round with it; 0: once.
  ExchangeBlock(Trainer& trainer, bool with_slots, size_t payload_bound, size_t bucket_bytes, size_t fragments = 0,
                const std::vector<int64_t>& passes = {}, int repeats = 0);

  const ExchangeLayout& layout() const { return layout_; }
  // The layout of the same rows, coded or not: an inner exchange may have another codec, or none.
  ExchangeLayout layout_with(size_t payload_bound) const;
  const std::vector<Bucket>& buckets() const { return buckets_; }

  // The trainer's states and slots, and with `dense` its parameters, as the contribution of `examples` examples, whose weights add up to
  // `weight`. False when one of them is not finite.
  // `lanes`: what rows carry is sent of these, 1 each; empty where nothing is carried.
  bool stage_values(std::byte* row, int64_t examples, double weight, bool dense, std::span<const uint8_t> lanes = {}) const;
  // All but the parameters.
  bool stage_beside_values(std::byte* row, int64_t examples, double weight, std::span<const uint8_t> lanes = {}) const;
  // The block's part of the row, where a codec's values are made.
  std::span<float> coded(std::byte* row) const { return {reinterpret_cast<float*>(row), static_cast<size_t>(block_)}; }
  // Adds the companions of a gradient over `examples` examples in `row`: the trainer's states, the tail; added to `adds` in the order of
  // GradientTarget. `counts`: the tail counts it as a contribution. `position`: of its first example in the epoch.
  // Where sums are repeated, with the loss and whether this is a round's first sum.
  void stage_beside_gradient(std::byte* row, std::span<const std::byte* const> adds, int64_t position, int64_t examples, double weight,
                             bool counts, double loss = 0, bool begins = false);
  double loss(const std::byte* row) const;    // NaN: that of some contribution is not finite
  int64_t begun(const std::byte* row) const;  // contributions that were a round's first
  void stage_nothing(std::byte* row) const;

  // The mean of the merged rows of `examples` examples into the trainer; the parameters only with `dense`.
  void take_values(const std::byte* row, int64_t examples, bool dense);
  void take_states(const std::byte* row, double all);  // `all`: the sum of what the contributions were multiplied by
  void take_carried(const std::byte* row);             // of the lanes that some contribution has trained
  // The sum of the weights of the `examples` whose contributions the row adds up; never 0.
  double weight(const std::byte* row, int64_t examples) const;
  void take_step(const std::byte* row);

 private:
  struct PlacedState {
    int64_t to = 0;  // element of the row's sums or maxima
    int64_t elements = 0;
    size_t from = 0;  // byte of the state segment
  };
  struct PlacedMoments {
    int64_t to = 0;  // element of the row's sums
    int64_t channels = 0;
    size_t mean = 0, variance = 0;  // bytes of the state segment
  };
  void place_states(const Params& params);
  // The running statistics times `weight`. False when one of them is not finite.
  bool put_states(std::span<const std::byte> segment, double weight, std::byte* states) const;
  void put_weight(double weight, std::byte* states) const;
  void put_carried(int64_t first, int64_t count, bool committed, std::byte* states) const;  // of these lanes, beside others
  void clear_carried(std::byte* states) const;
  size_t bytes_of(int64_t sums) const { return static_cast<size_t>(sums) * layout_.width(); }
  size_t slot_at(size_t i) const;  // byte of the row
  int64_t* maxima(std::byte* row) const { return reinterpret_cast<int64_t*>(row + layout_.sum_bytes()); }
  const int64_t* maxima(const std::byte* row) const { return reinterpret_cast<const int64_t*>(row + layout_.sum_bytes()); }

  Trainer& trainer_;
  const BlockMath& math_;
  ExchangeLayout layout_;
  std::vector<Bucket> buckets_;
  int64_t block_ = 0, states_ = 0, slots_ = 0;  // sums: where the block ends, the states, the slots
  int64_t carried_ = 0, present_ = 0;           // sums: what rows carry; then, up to where states end, how often each lane is there
  int64_t weight_ = -1;                         // sums: two digits of the weight; -1: examples count alike
  int64_t loss_ = -1, begun_ = -1;              // sums: digits of the loss; 1 where it is a round's first; -1: they are not sent
  bool with_slots_;
  std::vector<std::byte> beside_;  // where stage_beside_gradient adds up: its row may be one of those that it adds
  std::vector<PlacedState> float_states_, integer_states_;
  std::vector<PlacedMoments> moments_;
};

}  // namespace perigee
