#include "cluster/simulator/replica_numbers.h"

#include "cluster/exchange/fragment_payload.h"
#include "cluster/ledger/fixed_plan.h"
#include "cluster/simulator/seeded_rng.h"

namespace perigee::sim {

std::span<std::byte> BlankNumbers::exchange_row(size_t row) {
  while (model_.rows.size() <= row) model_.rows.push_back(std::make_unique<BlankMemory>(model_.layout.bytes()));
  return model_.rows[row]->bytes();
}

void BlankNumbers::begin(const TrainOrder& order) {
  order_ = order;
  contribution_ = {.round = order.round, .staged_for = order.round};
  done_ = 0;
}

void BlankNumbers::count(const Range& range) {
  contribution_.examples += range.count;
  if (range.count > 0) contribution_.ranges.push_back(range);
}

std::optional<Contribution> BlankNumbers::step(bool last) {
  if (!order_.ranges.empty()) ++contribution_.steps;
  if (order_.gradient) {
    for (const Range& range : order_.ranges) count(range);
    const int end = order_.first_leaf + static_cast<int>(order_.ranges.size());
    contribution_.partials = partials_of(order_.first_leaf, end, order_.leaves);
    if (contribution_.examples > 0) contribution_.payload = model_.payload;
    return contribution_;
  }
  if (done_ < order_.ranges.size()) count(order_.ranges[done_++]);
  if (!last && done_ < order_.ranges.size()) return std::nullopt;
  contribution_.partials = {{0, 1}};
  contribution_.payload = order_.inner ? model_.inner_payload : model_.fragments.empty() ? model_.payload : fragments_payload();
  return contribution_;
}

// Fragments that are due in the round for which it is staged.
SharedBytes BlankNumbers::fragments_payload() const {
  size_t bytes = kFragmentPayloadHead;
  bool any = false;
  for (size_t i = 0; i < model_.fragments.size(); ++i) {
    any |= model_.fragments[i].coded;
    if (model_.fragments[i].coded && model_.fragments[i].due(round_ + 1)) bytes += kFragmentChangeHead + model_.fragment_payloads[i];
  }
  return any ? std::make_shared<const std::vector<std::byte>>(bytes) : nullptr;
}

std::optional<size_t> BlankNumbers::apply(const ApplyOrder& order) {
  round_ = order.round;
  return std::nullopt;
}

std::optional<size_t> BlankNumbers::serve(const ApplyOrder& order, SharedBytes* reply, bool* change) {
  round_ = order.round;
  *change = model_.elastic && !order.payloads.empty();
  *reply = *change ? model_.change : model_.values;
  return std::nullopt;
}

bool BlankNumbers::take(const TakeOrder& order) {
  if (order.bytes) round_ = order.round;
  return true;
}

void BlankNumbers::load(int64_t round, const SharedBytes&, bool) { round_ = round; }

uint64_t BlankNumbers::hash() const { return mix(0x726573756c74, static_cast<uint64_t>(round_ + 2)) | 1; }  // 0 is "no result"

}  // namespace perigee::sim
