// A codec's memory from round to round, and its fate when a round comes to nothing. A contribution may be sent and its round be
// void, so what encoding left behind takes effect only when a result holds the contribution: nothing is then sent twice or lost.
// Owned by the trainer thread.
#pragma once

#include <cassert>
#include <utility>
#include <vector>

#include "cluster/planted.h"

namespace perigee {

// `Floats` are copied by assignment: of the host, or of a device (cluster/replica/device_codec.h).
template <class Floats>
class BasicCodecMemory {
 public:
  Floats residual, state;  // a codec writes to these

  // Before encoding: what was pending is void.
  void begin() {
    drop();
    last_ = Last::settled;
    other_residual_ = residual, other_state_ = state;
  }
  void pend() { last_ = Last::pending; }  // what was encoded is on its way
  bool pending() const { return last_ == Last::pending; }
  // The next result is here, and holds what is pending or not: then the memory is what it was before begin().
  void settle(bool counted) {
    assert(!counted || last_ == Last::pending);
    if (!counted) drop();
    last_ = Last::settled;
  }
  // Gives up what is pending. The memory is restored, unless ...
  void drop() {
    if (last_ != Last::pending) return;
    if (!planted(Bug::residual_kept)) swap();
    last_ = Last::dropped;
  }
  // ... another worker's result is taken, which may hold it all the same: it is taken for counted. At worst it is lost; it never counts
  // twice.
  void overtaken() {
    if (last_ == Last::dropped) swap();
    last_ = Last::settled;
  }

 private:
  void swap() { std::swap(residual, other_residual_), std::swap(state, other_state_); }

  Floats other_residual_, other_state_;  // before what is pending, or what a dropped one left
  enum class Last : unsigned char { settled, pending, dropped } last_ = Last::settled;
};

using CodecMemory = BasicCodecMemory<std::vector<float>>;

}  // namespace perigee
