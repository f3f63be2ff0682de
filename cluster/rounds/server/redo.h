// Rounds that a lost server had made and its next process makes again: which they are, and what their workers send once more for them.
// At most one push of each worker is on its way, for one of the next few rounds.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "cluster/protocol/images.h"
#include "cluster/protocol/message.h"
#include "cluster/rounds/server/desk.h"

namespace perigee {

class RedoQueue {
 public:
  enum class Verdict { taken, stale, gone, refused };  // gone: the worker has it no more; refused: no honest worker sends it
  struct Ask {
    WorkerId of = 0;
    std::vector<Range> ranges;
  };

  // False: the rounds do not follow `held` or each other.
  bool add(int64_t held, Redo redo);
  void reset() { rounds_.clear(), asked_.clear(), target_ = -2; }
  bool active() const { return target_ >= 0; }
  int64_t target() const { return target_; }

  std::optional<Ask> next_ask() const;  // that can be made now
  void asked(const Ask& ask, PeerId peer, uint64_t request);
  Verdict on_resent(WorkerId from, Resent resent, const ServerDesk& desk);
  Verdict on_image(WorkerId from, PeerId peer, Image& image, std::span<const std::byte> body);

  const RedoRound* ready() const;  // the next round, once all of it is here; null: not yet
  std::vector<Arrival> take();     // what the next round is made of, in its order
  void made() { rounds_.pop_front(); }
  const RedoRound& front() const { return rounds_.front().plan; }

 private:
  static constexpr size_t kAhead = 4;  // rounds that are gathered at a time
  struct Round {
    RedoRound plan;
    std::map<WorkerId, Arrival> arrivals;
  };
  struct Asked {
    uint64_t request = 0;
    int64_t round = 0;
    PeerId peer = 0;
    std::optional<Push> push;
    ImageReceiver receiver;
  };
  Round* round_of(int64_t round);

  std::deque<Round> rounds_;
  std::map<WorkerId, Asked> asked_;
  int64_t target_ = -2;
};

}  // namespace perigee
