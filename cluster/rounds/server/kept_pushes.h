// A worker's memory of what it has pushed since the newest image of the server: with it, and in the order that the coordinator knows, a new
// server makes the rounds again that died with the old one. Bounded; what does not fit is forgotten, oldest first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/replica/replica.h"

namespace perigee {

// How much that may be. The coordinator counts along, to have an image of the server before anything is forgotten (coordinator_redo.cpp).
struct KeptBound {
  static constexpr size_t kFewest = 3;
  size_t most_bytes = size_t{256} << 20;
  bool holds(size_t pushes, size_t bytes) const { return pushes <= kMaxRedo && (bytes <= most_bytes || pushes <= kFewest); }
  // So many pushes of that size.
  size_t pushes_of(size_t bytes) const { return std::clamp(most_bytes / std::max<size_t>(1, bytes), kFewest, size_t{kMaxRedo}); }
};

struct KeptPush {
  static constexpr int64_t kOpen = INT64_MAX;
  Push push;
  SharedBytes body;
  std::vector<Range> ranges;  // joined
  int64_t round = kOpen;      // whose result it is in; kOpen: no answer has come
};

class KeptPushes {
 public:
  explicit KeptPushes(KeptBound bound = {}) : bound_(bound) {}

  void add(const Push& push, SharedBytes body);
  void answered(uint64_t request, bool counted, int64_t round);
  // A membership goes on from that round: what was counted without an answer is in it or before it, and what came after it is void.
  void settle(int64_t base);
  void forget_up_to(int64_t round);

  const KeptPush* find(const std::vector<Range>& ranges) const;  // joined
  int64_t complete_from() const { return complete_from_; }       // all that this worker pushed for this round and later ones is here
  size_t size() const { return kept_.size(); }

 private:
  void forget_oldest();

  KeptBound bound_;
  size_t bytes_ = 0;
  std::deque<KeptPush> kept_;
  int64_t complete_from_ = 0;
};

}  // namespace perigee
