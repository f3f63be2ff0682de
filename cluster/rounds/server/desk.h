// Where pushes arrive at a parameter server, bounded: of each worker one, put together from its pieces, handed out in the order in which
// they were complete.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cluster/protocol/images.h"
#include "cluster/protocol/message.h"
#include "cluster/replica/replica.h"

namespace perigee {

struct Arrival {
  WorkerId from = 0;
  PeerId peer = 0;
  Push push;
  std::vector<std::byte> body;
  int64_t staleness = 0;
};

class ServerDesk {
 public:
  enum class Verdict { taken, stale, refused };  // refused: no honest worker of this generation sends it

  // A new generation: what is here is void.
  void reset(const ExchangeLayout& layout);
  Verdict on_push(WorkerId from, PeerId peer, Push push);
  Verdict on_image(WorkerId from, PeerId peer, Image& image, std::span<const std::byte> body);
  std::optional<Arrival> next();
  size_t idle() const { return idle_.size(); }  // workers that say that they have no work
  void answered(WorkerId to) { open_.erase(to); }
  bool sound(const Push& push) const;  // its numbers fit together

 private:
  struct Incoming {
    Push push;
    ImageReceiver receiver;
  };

  ExchangeLayout layout_;
  std::map<WorkerId, uint64_t> last_;  // request of each worker
  std::set<WorkerId> open_, idle_;     // open: they wait for an answer
  std::map<WorkerId, Incoming> incoming_;
  std::deque<Arrival> queue_;
};

// The beside part of a row (running statistics, tail, maxima) as a body has it, added to that of others.
void add_beside(const ExchangeLayout& layout, std::span<std::byte> row, std::span<const std::byte> beside, bool first);

}  // namespace perigee
