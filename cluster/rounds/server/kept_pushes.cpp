#include "cluster/rounds/server/kept_pushes.h"

#include <algorithm>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/planted.h"

namespace perigee {

void KeptPushes::add(const Push& push, SharedBytes body) {
  KeptPush one{.push = push, .body = std::move(body), .ranges = joined(push.ranges)};
  // The same work, pushed again because no answer came.
  std::erase_if(kept_, [&](const KeptPush& k) {
    if (k.ranges != one.ranges) return false;
    bytes_ -= k.body->size();
    return true;
  });
  bytes_ += one.body->size();
  kept_.push_back(std::move(one));
  forget_oldest();
}

void KeptPushes::forget_oldest() {
  while (!bound_.holds(kept_.size(), bytes_)) {
    const KeptPush& oldest = kept_.front();
    if (oldest.round != KeptPush::kOpen) complete_from_ = std::max(complete_from_, oldest.round + 1);
    bytes_ -= oldest.body->size();
    kept_.pop_front();
  }
}

void KeptPushes::answered(uint64_t request, bool counted, int64_t round) {
  const auto it = std::find_if(kept_.begin(), kept_.end(), [&](const KeptPush& k) { return k.push.request == request; });
  if (it == kept_.end()) return;
  if (counted && !planted(Bug::pushes_not_kept)) {
    it->round = round;
    return;
  }
  bytes_ -= it->body->size();
  kept_.erase(it);
}

void KeptPushes::settle(int64_t base) {
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (it->round == KeptPush::kOpen) it->round = base;
    if (it->round <= base) {
      ++it;
      continue;
    }
    bytes_ -= it->body->size();
    it = kept_.erase(it);
  }
}

void KeptPushes::forget_up_to(int64_t round) {
  std::erase_if(kept_, [&](const KeptPush& k) {
    if (k.round > round) return false;
    bytes_ -= k.body->size();
    return true;
  });
}

const KeptPush* KeptPushes::find(const std::vector<Range>& ranges) const {
  const auto it = std::find_if(kept_.rbegin(), kept_.rend(), [&](const KeptPush& k) { return k.ranges == ranges; });
  return it == kept_.rend() ? nullptr : &*it;
}

}  // namespace perigee
