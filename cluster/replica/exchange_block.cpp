#include "cluster/replica/exchange_block.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

#include "cluster/exchange/exact_sum.h"
#include "cluster/replica/moment_sums.h"
#include "kernels/round_up.h"
#include "src/model/steps/carried_rows.h"

namespace perigee {
namespace {

constexpr int64_t kBorder = 16;        // elements: 64 bytes of float32
constexpr double kWeightDigit = 4096;  // sums of whole weights stay exact in float32

}  // namespace

ExchangeBlock::ExchangeBlock(Trainer& trainer, bool with_slots, size_t payload_bound, size_t bucket_bytes, size_t fragments,
                             const std::vector<int64_t>& passes, int repeats)
    : trainer_(trainer), math_(block_math(trainer.model().params().dtype())), with_slots_(with_slots) {
  const Params& params = trainer.model().params();
  block_ = passes.empty() ? params.block_elements() : std::accumulate(passes.begin(), passes.end(), int64_t{0});
  states_ = block_;
  layout_.dtype = params.dtype();
  layout_.maxima = 1;  // updates made
  place_states(params);
  if (trainer.weighted()) weight_ = states_, states_ += 2;
  if (repeats > 0) loss_ = states_, begun_ = loss_ + kExactDigits, states_ = begun_ + 1;
  carried_ = states_;
  if (const CarriedRows* rows = trainer.carried())
    for (size_t i = 0; i < rows->specs().size(); ++i) {
      assert(rows->specs()[i].row.dtype == layout_.dtype && rows->specs()[i].slots == 0);
      states_ += static_cast<int64_t>(rows->now(i).size() / layout_.width());
    }
  present_ = states_;
  if (trainer.carried()) states_ += trainer.streams();
  slots_ = round_up(states_, kBorder);
  if (with_slots) slots_ += static_cast<int64_t>(trainer.optimizer_slots()) * block_;
  layout_.sums = round_up(slots_ + static_cast<int64_t>(fragments + 1) * kExchangeTail, kBorder);
  layout_.values = params.block_bytes() + params.state_bytes().size();
  layout_ = layout_with(payload_bound);
  beside_.resize(bytes_of(states_ - block_ + kExchangeTail));

  trainer.cut_gradient(repeats > 0 ? SIZE_MAX : bucket_bytes);
  if (repeats > 0) {
    layout_.passes = repeats + 1;  // the last is never made: it is asked for, to hear that there is none
    layout_.repeated = true;
    buckets_.assign(static_cast<size_t>(layout_.passes), {0, layout_.bytes()});
    return;
  }
  if (!passes.empty()) {
    layout_.passes = static_cast<int>(passes.size());
    int64_t begin = 0;
    for (const int64_t pass : passes) {
      buckets_.push_back({bytes_of(begin), bytes_of(begin + pass)});
      begin += pass;
    }
    buckets_.back().end = layout_.bytes();
    return;
  }
  for (const Optimizer::Range& range : trainer.gradient_buckets()) buckets_.push_back({bytes_of(range.begin), bytes_of(range.end)});
  if (buckets_.size() == 1) buckets_[0] = {0, layout_.bytes()};
  else buckets_.push_back({bytes_of(block_), layout_.bytes()});
}

void ExchangeBlock::place_states(const Params& params) {
  const std::vector<StateSpec>& specs = params.state_specs();
  const auto is_mean = [&](const StateSpec& spec) {
    return std::any_of(specs.begin(), specs.end(), [&](const StateSpec& other) { return other.mean == spec.name; });
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].frozen) continue;  // the same everywhere
    const int64_t elements = specs[i].shape.elements();
    const size_t from = params.state_offset(static_cast<int>(i));
    assert(specs[i].dtype == layout_.dtype || specs[i].dtype == Dtype::i64);
    if (specs[i].dtype != layout_.dtype) {
      integer_states_.push_back({layout_.maxima, elements, from});
      layout_.maxima += elements;
    } else if (!specs[i].mean.empty()) {
      moments_.push_back({states_, elements, params.state_offset(params.find_state(specs[i].mean)), from});
      states_ += moment_sums(layout_.dtype, elements);
    } else if (!is_mean(specs[i])) {
      float_states_.push_back({states_, elements, from});
      states_ += elements;
    }
  }
}

void ExchangeBlock::put_weight(double weight, std::byte* states) const {
  if (weight_ < 0) return;
  const double high = std::floor(weight / kWeightDigit);
  const double digits[] = {high, weight - high * kWeightDigit};
  convert(Dtype::f64, digits, layout_.dtype, states + bytes_of(weight_ - block_), 2);
}

void ExchangeBlock::clear_carried(std::byte* states) const {
  std::memset(states + bytes_of(carried_ - block_), 0, bytes_of(states_ - carried_));
}

void ExchangeBlock::put_carried(int64_t first, int64_t count, bool committed, std::byte* states) const {
  const CarriedRows* rows = trainer_.carried();
  if (!rows || count == 0) return;
  std::byte* to = states + bytes_of(carried_ - block_);
  for (size_t i = 0; i < rows->specs().size(); to += rows->now(i).size(), ++i) {
    const size_t at = static_cast<size_t>(first) * rows->row_bytes(i);
    std::memcpy(to + at, (committed ? rows->now(i) : rows->next(i)).data() + at, static_cast<size_t>(count) * rows->row_bytes(i));
  }
  const double once = 1;
  for (int64_t lane = first; lane < first + count; ++lane)
    convert(Dtype::f64, &once, layout_.dtype, states + bytes_of(present_ + lane - block_), 1);
}

void ExchangeBlock::take_carried(const std::byte* row) {
  const CarriedRows* rows = trainer_.carried();
  if (!rows) return;
  for (int64_t lane = 0; lane < trainer_.streams(); ++lane) {
    double times = 0;
    convert(layout_.dtype, row + bytes_of(present_ + lane), Dtype::f64, &times, 1);
    if (times < 1) continue;
    const std::byte* from = row + bytes_of(carried_);
    for (size_t i = 0; i < rows->specs().size(); from += rows->now(i).size(), ++i) {
      const size_t bytes = rows->row_bytes(i), at = static_cast<size_t>(lane) * bytes;
      math_.divide(from + at, times, static_cast<int64_t>(bytes / layout_.width()), rows->now(i).data() + at);
    }
  }
}

double ExchangeBlock::weight(const std::byte* row, int64_t examples) const {
  if (weight_ < 0) return static_cast<double>(examples);
  double digits[2];
  convert(layout_.dtype, row + bytes_of(weight_), Dtype::f64, digits, 2);
  const double sum = digits[0] * kWeightDigit + digits[1];
  return sum > 0 ? sum : static_cast<double>(examples);  // nothing counted, and the gradient is 0
}

bool ExchangeBlock::put_states(std::span<const std::byte> segment, double weight, std::byte* states) const {
  bool finite = true;
  for (const PlacedState& state : float_states_)
    finite = math_.scale(segment.data() + state.from, weight, state.elements, states + bytes_of(state.to - block_)) && finite;
  for (const PlacedMoments& state : moments_)
    finite = put_moments(layout_.dtype, segment.data() + state.mean, segment.data() + state.variance, weight, state.channels,
                         states + bytes_of(state.to - block_)) &&
             finite;
  return finite;
}

size_t ExchangeBlock::slot_at(size_t i) const { return bytes_of(round_up(states_, kBorder) + static_cast<int64_t>(i) * block_); }

ExchangeLayout ExchangeBlock::layout_with(size_t payload_bound) const {
  ExchangeLayout layout = layout_;
  layout.coded = payload_bound > 0 ? bytes_of(block_) : 0;
  layout.payload_bound = payload_bound;
  return layout;
}

bool ExchangeBlock::stage_values(std::byte* row, int64_t examples, double weight, bool dense, std::span<const uint8_t> lanes) const {
  const bool finite = !dense || math_.scale(std::as_const(trainer_).model().params().block(), weight, block_, row);
  return stage_beside_values(row, examples, weight, lanes) && finite;
}

bool ExchangeBlock::stage_beside_values(std::byte* row, int64_t examples, double weight, std::span<const uint8_t> lanes) const {
  const std::span<const std::byte> states = std::as_const(trainer_).states();
  bool finite = put_states(states, weight, row + bytes_of(block_));
  put_weight(weight, row + bytes_of(block_));
  clear_carried(row + bytes_of(block_));
  for (size_t lane = 0; lane < lanes.size(); ++lane) put_carried(static_cast<int64_t>(lane), lanes[lane], true, row + bytes_of(block_));
  std::memset(row + bytes_of(states_), 0, bytes_of(round_up(states_, kBorder) - states_));
  for (size_t i = 0; with_slots_ && i < trainer_.optimizer_slots(); ++i)
    finite = math_.scale(std::as_const(trainer_).optimizer_slot(i).data(), weight, block_, row + slot_at(i)) && finite;
  std::memset(row + bytes_of(slots_), 0, bytes_of(layout_.sums - slots_));
  write_exchange_tail({.examples = examples, .contributions = 1}, layout_, {row, layout_.bytes()});
  maxima(row)[0] = trainer_.position().step;
  for (const PlacedState& state : integer_states_)
    std::memcpy(maxima(row) + state.to, states.data() + state.from, static_cast<size_t>(state.elements) * sizeof(int64_t));
  return finite;
}

void ExchangeBlock::stage_beside_gradient(std::byte* row, std::span<const std::byte* const> adds, int64_t position, int64_t examples,
                                          double weight, bool counts, double loss, bool begins) {
  const std::span<const std::byte> segment = std::as_const(trainer_).states();
  const int64_t states = states_ - block_, tail = layout_.sums - kExchangeTail;
  std::byte *own_states = beside_.data(), *own_tail = beside_.data() + bytes_of(states);
  if (examples > 0) put_states(segment, static_cast<double>(examples), own_states);
  else std::memset(own_states, 0, bytes_of(states));
  put_weight(weight, own_states);
  if (loss_ >= 0) {
    const double begun = counts && begins ? 1 : 0;
    convert(Dtype::f64, exact_digits(loss).data(), layout_.dtype, own_states + bytes_of(loss_ - block_), kExactDigits);
    convert(Dtype::f64, &begun, layout_.dtype, own_states + bytes_of(begun_ - block_), 1);
  }
  clear_carried(own_states);
  if (trainer_.carried()) put_carried(position % trainer_.streams(), examples, false, own_states);
  const auto counted = exchange_tail_sums({.examples = examples, .contributions = counts ? 1 : 0});
  convert(Dtype::f64, counted.data(), layout_.dtype, own_tail, kExchangeTail);
  for (const std::byte* add : adds) {
    math_.add(add + bytes_of(block_), own_states, states, own_states);
    math_.add(add + bytes_of(tail), own_tail, kExchangeTail, own_tail);
  }
  std::memcpy(row + bytes_of(block_), own_states, bytes_of(states));
  std::memset(row + bytes_of(states_), 0, bytes_of(tail - states_));
  std::memcpy(row + bytes_of(tail), own_tail, bytes_of(kExchangeTail));

  const auto take_maximum = [&](int64_t at, int64_t value) {
    for (const std::byte* add : adds) value = std::max(value, maxima(add)[at]);
    maxima(row)[at] = value;
  };
  take_maximum(0, trainer_.position().step);
  for (const PlacedState& state : integer_states_) {
    const auto* from = reinterpret_cast<const int64_t*>(segment.data() + state.from);
    for (int64_t k = 0; k < state.elements; ++k) take_maximum(state.to + k, from[k]);
  }
}

double ExchangeBlock::loss(const std::byte* row) const {
  std::array<double, kExactDigits> digits;
  convert(layout_.dtype, row + bytes_of(loss_), Dtype::f64, digits.data(), kExactDigits);
  return exact_value(digits);
}

int64_t ExchangeBlock::begun(const std::byte* row) const {
  double begun = 0;
  convert(layout_.dtype, row + bytes_of(begun_), Dtype::f64, &begun, 1);
  return static_cast<int64_t>(begun);
}

void ExchangeBlock::stage_nothing(std::byte* row) const {
  std::memset(row, 0, layout_.bytes());
  std::fill_n(maxima(row), layout_.maxima, INT64_MIN);
}

void ExchangeBlock::take_states(const std::byte* row, double all) {
  assert(all > 0);
  if (float_states_.empty() && integer_states_.empty() && moments_.empty()) return;
  const std::span<std::byte> segment = trainer_.states();
  for (const PlacedState& state : float_states_) math_.divide(row + bytes_of(state.to), all, state.elements, segment.data() + state.from);
  for (const PlacedMoments& state : moments_)
    take_moments(layout_.dtype, row + bytes_of(state.to), all, state.channels, segment.data() + state.mean,
                 segment.data() + state.variance);
  for (const PlacedState& state : integer_states_)
    std::memcpy(segment.data() + state.from, maxima(row) + state.to, static_cast<size_t>(state.elements) * sizeof(int64_t));
}

void ExchangeBlock::take_values(const std::byte* row, int64_t examples, bool dense) {
  assert(examples > 0);
  const double all = weight(row, examples);
  if (dense) math_.divide(row, all, block_, trainer_.model().params().block());
  take_states(row, all);
  for (size_t i = 0; with_slots_ && i < trainer_.optimizer_slots(); ++i)
    math_.divide(row + slot_at(i), all, block_, trainer_.optimizer_slot(i).data());
  take_step(row);
}

void ExchangeBlock::take_step(const std::byte* row) {
  Position position = trainer_.position();
  position.step = std::max(position.step, maxima(row)[0]);
  trainer_.set_position(position);
}

}  // namespace perigee
