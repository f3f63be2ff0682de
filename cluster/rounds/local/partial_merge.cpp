#include "cluster/rounds/local/partial_merge.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "cluster/exchange/exchange_tail.h"
#include "kernels/block_math.h"

namespace perigee {
namespace {

constexpr int64_t kMostExamples = exchange_tail::kDigit * exchange_tail::kDigit - 1;  // that a tail can tell of one contribution

// to = share * to + (1 - share) * from. Local parameters belong to one worker: their last bits need not be.
template <class T>
void blend(double share, const std::byte* from, int64_t elements, std::byte* to) {
  const auto* values = reinterpret_cast<const T*>(from);
  auto* mixed = reinterpret_cast<T*>(to);
  const T mine = static_cast<T>(share), other = static_cast<T>(1 - share);
  for (int64_t i = 0; i < elements; ++i) mixed[i] = mine * mixed[i] + other * values[i];
}

}  // namespace

size_t payload_bound(const FragmentPlan& plan, Dtype dtype, const std::string& where) {
  size_t bound = 0;
  for (const Fragment& f : plan.fragments()) {
    if (f.codec.is_null()) continue;
    if (dtype != Dtype::f32)
      throw Error(ErrorKind::model, {.where = where + ": codec",
                                     .what = "works on float32 only",
                                     .got = "precision = \"float64\"",
                                     .hint = "leave out the codec or the precision"});
    bound += kFragmentChangeHead + make_codec(&f.codec, where)->bound(f.segment());
  }
  return bound > 0 ? kFragmentPayloadHead + bound : 0;
}

PartialMerge::PartialMerge(Trainer& trainer, ExchangeBlock& block, OuterStep& outer, const FragmentPlan& plan, const Policy& policy,
                           uint64_t worker)
    : trainer_(trainer),
      block_(block),
      outer_(outer),
      plan_(plan),
      keep_(policy.keep),
      overlap_(policy.overlap),
      math_{block_math(trainer.model().params().dtype()), trainer.model().params().width()},
      next_(trainer.model().params().block_bytes()) {
  for (const Fragment& f : plan.fragments()) {
    Part part;
    if (!f.codec.is_null())
      part.codec = std::make_unique<DeltaCodec>(make_codec(&f.codec, "averaging"), f.segment(), trainer.seed(), worker);
    parts_.push_back(std::move(part));
  }
  std::memset(next_.data(), 0, next_.bytes());
  states_now_.resize(trainer.model().params().state_bytes().size());
}

void PartialMerge::trained(int64_t examples) {
  for (Part& part : parts_) part.weight = std::min(part.weight + examples, kMostExamples);
  unmerged_ = std::min(unmerged_ + examples, kMostExamples);
}

std::span<float> PartialMerge::coded(std::byte* row, const Fragment& f) const {
  return {reinterpret_cast<float*>(row + bytes(f.row)), static_cast<size_t>(f.elements)};
}

// result - local parameters, into the fragment's part of the row.
void PartialMerge::stage_change(const Fragment& f, const std::byte* global, std::byte* row) const {
  const std::byte* local = trainer_.model().params().block();
  std::memset(row + bytes(f.row), 0, bytes(f.elements));
  for (const FragmentRun& run : f.runs)
    math_.of.add_change(local + bytes(run.block), global + bytes(run.block), run.elements, row + bytes(run.row));
}

bool PartialMerge::stage(int64_t round, const std::byte* global, std::byte* row, Contribution* contribution) {
  unstage();
  const Params& params = trainer_.model().params();
  const auto count = static_cast<int64_t>(parts_.size());
  bool finite = block_.stage_beside_values(row, unmerged_, static_cast<double>(unmerged_)), with_codec = false;
  std::vector<SharedBytes> payloads;
  changes_.clear();
  for (int64_t i = 0; i < count; ++i) {
    const Fragment& f = plan_.fragments()[static_cast<size_t>(i)];
    Part& part = parts_[static_cast<size_t>(i)];
    const auto weight = static_cast<double>(part.weight);
    if (!part.codec) {
      for (const FragmentRun& run : f.runs)
        finite = math_.of.scale(params.block() + bytes(run.block), weight, run.elements, row + bytes(run.row)) && finite;
    } else {
      with_codec = true;
      stage_change(f, global, row);
      if (!f.due(round, false)) {  // added up if the round turns out to be the run's last
        finite = math_.of.scale(row + bytes(f.row), weight, f.elements, row + bytes(f.row)) && finite;
      } else if (part.weight > 0) {
        payloads.push_back(part.codec->encode(coded(row, f), round));
        if (!payloads.back()) return false;
        part.pending = true;
        changes_.push_back({.fragment = static_cast<uint32_t>(i), .examples = part.weight, .bytes = *payloads.back()});
      }
    }
    part.staged_weight = part.weight;
    const ExchangeTail tail{.examples = part.weight, .contributions = part.weight > 0 ? 1 : 0};
    write_exchange_tail(tail, block_.layout(), {row, block_.layout().bytes()}, count - i);
  }
  if (with_codec) contribution->payload = std::make_shared<const std::vector<std::byte>>(encode_fragments(changes_));
  staged_unmerged_ = unmerged_;
  if (overlap_) {
    then_.assign(params.block(), params.block() + params.block_bytes());
    const std::span<const std::byte> states = params.state_bytes();
    states_then_.assign(states.begin(), states.end());
  }
  staged_ = finite;
  return finite;
}

void PartialMerge::unstage() {
  for (Part& part : parts_) {
    if (part.codec) part.codec->drop();
    part.pending = false;
    part.staged_weight = 0;
  }
  staged_unmerged_ = 0;
  staged_ = false;
}

void PartialMerge::drop() {
  unstage();
  for (Part& part : parts_) part.weight = 0;
  unmerged_ = 0;
}

void PartialMerge::overtaken() {
  for (Part& part : parts_)
    if (part.codec) part.codec->overtaken();
}

// The weighted mean of all changes into the fragments' parts of the row: every member adds the same payloads in the same order.
std::optional<size_t> PartialMerge::add_payloads(const ApplyOrder& order, std::byte* row) {
  for (Part& part : parts_) part.merged = part.givers = 0;
  const auto read = [&](const Payload& payload) {
    if (!decode_fragments(*payload.bytes, parts_.size(), &changes_)) return false;
    return std::all_of(changes_.begin(), changes_.end(), [&](const FragmentChange& c) { return by_payload(c.fragment, order.round); });
  };
  for (size_t p = 0; p < order.payloads.size(); ++p) {
    if (!read(order.payloads[p])) return p;
    for (const FragmentChange& change : changes_) parts_[change.fragment].merged += change.examples, ++parts_[change.fragment].givers;
  }
  for (size_t i = 0; i < parts_.size(); ++i)
    if (by_payload(i, order.round)) std::fill_n(coded(row, plan_.fragments()[i]).data(), plan_.fragments()[i].elements, 0.0f);
  for (size_t p = 0; p < order.payloads.size(); ++p) {
    read(order.payloads[p]);
    for (const FragmentChange& change : changes_) {
      Part& part = parts_[change.fragment];
      const auto weight = static_cast<float>(static_cast<double>(change.examples) / static_cast<double>(part.merged));
      if (!part.codec->add(change.bytes, weight, coded(row, plan_.fragments()[change.fragment]))) return p;
    }
  }
  return std::nullopt;
}

// The mean of the contributions to a fragment that is due, into `next_`. The examples that it is of; 0: no worker had worked on it.
int64_t PartialMerge::take_mean(size_t i, const ApplyOrder& order, const std::byte* global, std::byte* row, OuterRound* seen) {
  const Fragment& f = plan_.fragments()[i];
  const Part& part = parts_[i];
  std::byte* next = next_.data();
  if (order.alone) {
    const std::byte* local = overlap_ && staged_ ? then_.data() : trainer_.model().params().block();
    for (const FragmentRun& run : f.runs) std::memcpy(next + bytes(run.block), local + bytes(run.block), bytes(run.elements));
    seen->workers = 1;
    return part.staged_weight;
  }
  ExchangeTail tail{.examples = part.merged, .contributions = part.givers};
  if (!by_payload(i, order.round))
    tail = read_exchange_tail(block_.layout(), {row, block_.layout().bytes()}, static_cast<int64_t>(parts_.size() - i));
  seen->workers = static_cast<double>(tail.contributions);
  if (tail.examples == 0) return 0;
  const auto all = static_cast<double>(tail.examples);
  if (!part.codec) {
    for (const FragmentRun& run : f.runs) math_.of.divide(row + bytes(run.row), all, run.elements, next + bytes(run.block));
    return tail.examples;
  }
  if (!by_payload(i, order.round)) math_.of.divide(row + bytes(f.row), all, f.elements, row + bytes(f.row));
  for (const FragmentRun& run : f.runs) std::memcpy(next + bytes(run.block), global + bytes(run.block), bytes(run.elements));
  const auto* change = reinterpret_cast<const float*>(row);
  auto* values = reinterpret_cast<float*>(next);
  for (const FragmentRun& run : f.trainable)
    for (int64_t k = 0; k < run.elements; ++k) values[run.block + k] -= change[run.row + k];
  return tail.examples;
}

// `next_` becomes the result, and the trainer's parameters take it.
void PartialMerge::take_result(const Fragment& f, std::byte* global) {
  std::byte *local = trainer_.model().params().block(), *next = next_.data();
  for (const FragmentRun& run : f.runs) {
    const size_t at = bytes(run.block);
    std::memcpy(global + at, next + at, bytes(run.elements));
    if (keep_ > 0) {
      (math_.width == sizeof(float) ? blend<float> : blend<double>)(keep_, next + at, run.elements, local + at);
      continue;
    }
    if (keep_ < 0 && overlap_ && staged_) math_.of.add_change(then_.data() + at, local + at, run.elements, next + at);
    std::memcpy(local + at, next + at, bytes(run.elements));
  }
}

void PartialMerge::take_states(const ApplyOrder& order, const std::byte* row, std::span<std::byte> states) {
  const Params& params = trainer_.model().params();
  const std::span<std::byte> local = params.state_bytes();
  const bool moved = overlap_ && staged_;
  std::copy(local.begin(), local.end(), states_now_.begin());
  if (order.alone) {
    if (moved) std::copy(states_then_.begin(), states_then_.end(), local.begin());
  } else if (const ExchangeTail tail = read_exchange_tail(block_.layout(), {row, block_.layout().bytes()}); tail.examples > 0) {
    block_.take_states(row, static_cast<double>(tail.examples));
  } else {
    std::copy(states.begin(), states.end(), local.begin());
  }
  std::copy(local.begin(), local.end(), states.begin());
  if (!order.alone) block_.take_step(row);
  if (!moved) return;
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    const size_t at = params.state_offset(static_cast<int>(i));
    if (spec.dtype == params.dtype())
      math_.of.add_change(states_then_.data() + at, states_now_.data() + at, spec.shape.elements(), local.data() + at);
    else std::memcpy(local.data() + at, states_now_.data() + at, static_cast<size_t>(spec.shape.elements()) * dtype_bytes(spec.dtype));
  }
}

std::optional<size_t> PartialMerge::merge(const ApplyOrder& order, OuterRound seen, std::byte* row, std::byte* global,
                                          std::span<std::byte> states) {
  if (!order.alone)
    if (const std::optional<size_t> refused = add_payloads(order, row)) return refused;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Fragment& f = plan_.fragments()[i];
    Part& part = parts_[i];
    if (!f.due(order.round, order.last)) continue;
    const bool taken = take_mean(i, order, global, row, &seen) > 0;
    if (taken && outer_.active(i)) outer_.run(seen, global, next_.data(), i);
    if (taken) take_result(f, global);
    part.weight -= part.staged_weight;
    // Alone, the local parameters themselves are the result: the payload is in none.
    if (part.codec) part.codec->settle(part.pending && !order.alone);
    part.pending = false;
  }
  take_states(order, row, states);
  unmerged_ -= staged_unmerged_;
  unstage();
  return std::nullopt;
}

}  // namespace perigee
