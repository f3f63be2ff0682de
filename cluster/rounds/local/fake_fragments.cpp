// Rounds of fragments and overlap in a FakeReplica. Every fragment has sums of its own beside those that every round exchanges, so that it
// can be seen which examples each is made of.
#include <cstring>
#include <utility>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/exchange/fragment_payload.h"
#include "cluster/planted.h"
#include "cluster/simulator/fake_replica.h"

namespace perigee::sim {

Contents FakeReplica::blank() const {
  Contents contents(options_.examples);
  contents.fragments.assign(parts_.size(), std::vector<float>(contents.sums.size()));
  return contents;
}

void FakeReplica::set_up_fragments(const Policy& policy) {
  const size_t bytes = contents_.sums.size() * sizeof(float);
  const auto add = [&](int64_t interval, int64_t phase, bool coded) {
    const size_t begin = parts_.size() * bytes;
    parts_.push_back({.begin = begin, .end = begin + bytes, .coded = coded, .interval = interval, .phase = phase});
    if (coded) layout_.payload_bound += kFragmentChangeHead + bytes;
  };
  for (int64_t i = 0; policy.layers.empty() && i < policy.fragments; ++i) add(policy.fragments, i, policy.coded());
  for (const LayerPolicy& layer : policy.layers) {
    const int64_t interval = layer.policy.every / policy.every;
    add(interval, interval - 1, layer.policy.coded());
  }
  if (layout_.payload_bound > 0) layout_.payload_bound += kFragmentPayloadHead;
  layout_.sums += static_cast<int64_t>(parts_.size() * contents_.sums.size());
  late_ = policy.late;
  cut_buckets();
  contents_ = local_ = staged_ = blank();
}

// Those that are due in the round for which they are staged.
SharedBytes FakeReplica::encode_fragments_of(int64_t round) {
  std::vector<FragmentChange> changes;
  bool any = false;
  for (size_t f = 0; f < parts_.size(); ++f) {
    any |= parts_[f].coded;
    if (!parts_[f].coded || !parts_[f].due(round)) continue;
    double examples = 0;
    for (size_t i = 0; i < local_.sums.size() / 2; ++i) examples += static_cast<double>(local_.fragments[f][i]);
    if (examples <= 0) continue;
    changes.push_back({.fragment = static_cast<uint32_t>(f),
                       .examples = static_cast<int64_t>(examples),
                       .bytes = std::as_bytes(std::span(local_.fragments[f]))});
  }
  if (!any) return nullptr;
  std::vector<std::byte> bytes = encode_fragments(changes);
  if (faults_.bad_payloads > 0) --faults_.bad_payloads, bytes.pop_back();
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

// False: a payload is none, and nothing has changed.
bool FakeReplica::merge_fragments(const ApplyOrder& order, size_t* refused) {
  std::vector<std::vector<FragmentChange>> sent(order.payloads.size());
  for (size_t p = 0; p < sent.size() && !order.alone; ++p) {
    *refused = p;
    if (!decode_fragments(*order.payloads[p].bytes, parts_.size(), &sent[p])) return false;
    for (const FragmentChange& change : sent[p])
      if (!parts_[change.fragment].coded || !parts_[change.fragment].due(order.round) || change.bytes.size() != contents_.sums.size() * 4)
        return false;
  }
  std::vector<float> sums(contents_.sums.size());
  const auto take = [&](size_t f, const std::byte* from) {
    std::memcpy(sums.data(), from, sums.size() * 4);
    for (size_t i = 0; i < sums.size(); ++i) contents_.fragments[f][i] += sums[i];
  };
  for (size_t f = 0; f < parts_.size(); ++f) {
    const bool due = parts_[f].due(order.round);
    if (!due && !order.last) continue;
    if (order.alone || !due || !parts_[f].coded) take(f, exchange_row(order.row).data() + parts_[f].begin);
    else
      for (const auto& changes : sent)
        for (const FragmentChange& change : changes)
          if (change.fragment == f) take(f, change.bytes.data());
    for (size_t i = 0; i < sums.size() && !planted(Bug::fragment_sent_twice); ++i) local_.fragments[f][i] -= staged_.fragments[f][i];
  }
  return true;
}

// The staged contribution is in the result; later work is not.
void FakeReplica::forget_staged() {
  for (size_t i = 0; i < local_.sums.size(); ++i) local_.sums[i] -= staged_.sums[i];
  local_examples_ -= staged_examples_;
  staged_ = blank();
  staged_examples_ = 0;
  staged_local_ = false;
  if (!training_) local_finite_ = true;
}

// An overlapped order stands still where the result before it must be taken first.
bool FakeReplica::waits_for_result(bool done) {
  Training& t = *training_;
  const bool must = done || (late_ > 0 && static_cast<int64_t>(t.step) >= late_);
  if (!t.order.overlapped || !staged_local_ || !must) return false;
  t.waits = true;
  if (const std::function<void()> apply = std::exchange(held_, nullptr)) apply();
  return true;
}

void FakeReplica::unstage() {
  staged_ = blank();
  staged_examples_ = 0;
  staged_local_ = false;
  if (training_ && std::exchange(training_->waits, false))
    later(0, [this, token = token_] {
      if (token == token_) go_on();
    });
}

}  // namespace perigee::sim
