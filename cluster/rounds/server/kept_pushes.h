// A worker's memory of what it has pushed since the newest image of the server: with it, and in the order that the coordinator knows, a new
// server makes the rounds again that died with the old one. Bounded; what does not fit is forgotten, oldest first.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/replica/replica.h"

namespace perigee {

struct KeptPush {
  static constexpr int64_t kOpen = INT64_MAX;
  Push push;
  SharedBytes body;
  std::vector<Range> ranges;  // joined
  int64_t round = kOpen;      // whose result it is in; kOpen: no answer has come
};

class KeptPushes {
 public:
  explicit KeptPushes(size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  void add(const Push& push, SharedBytes body);
  void answered(uint64_t request, bool counted, int64_t round);
  // A membership goes on from that round: what was counted without an answer is in it or before it, and what came after it is void.
  void settle(int64_t base);
  void forget_up_to(int64_t round);

  const KeptPush* find(const std::vector<Range>& ranges) const;  // joined
  int64_t complete_from() const { return complete_from_; }       // all that this worker pushed for this round and later ones is here
  size_t size() const { return kept_.size(); }

 private:
  static constexpr size_t kMostBytes = size_t{256} << 20, kFewest = 3;
  void bound();

  size_t most_bytes_, bytes_ = 0;
  std::deque<KeptPush> kept_;
  int64_t complete_from_ = 0;
};

}  // namespace perigee
