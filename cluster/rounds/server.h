// Served rounds (asynchronous policies). One process, the server, holds the parameters and trains nothing. Each worker trains from what it
// pulled last, pushes what it has made of it, and gets the server's parameters in return: no worker waits for another. ServerDesk is where
// pushes arrive, bounded: of each worker one, put together from its pieces, handed out in the order in which they were complete.
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

 private:
  struct Incoming {
    Push push;
    ImageReceiver receiver;
  };
  bool sound(const Push& push) const;

  ExchangeLayout layout_;
  std::map<WorkerId, uint64_t> last_;  // request of each worker
  std::set<WorkerId> open_, idle_;     // open: they wait for an answer
  std::map<WorkerId, Incoming> incoming_;
  std::deque<Arrival> queue_;
};

// The beside part of a row (running statistics, tail, maxima) as a body has it, added to that of others.
void add_beside(const ExchangeLayout& layout, std::span<std::byte> row, std::span<const std::byte> beside, bool first);

// What a worker has of a served round.
struct ServedWork {
  WorkerId server = 0;
  uint32_t threads = 1;  // that this worker trains with

  // The server's.
  ServerDesk desk;
  std::vector<Arrival> merging;  // in the round that is being made, or waiting for others to make one
  std::vector<Arrival> pulls;    // waiting for the parameters to be told
  bool merge_begun = false;
  SharedBytes values;  // parameters and states of the result of `values_round`
  int64_t values_round = -2;
  int64_t merged_examples = 0, merge_workers = 0;
  uint64_t discarded = 0;
  uint64_t merge_ns = 0;

  // A worker's that trains.
  struct Exchange {
    Push push;
    SharedBytes body;
    PeerId peer = 0;  // 0: not sent yet
    std::optional<Pulled> answer;
    uint64_t progress_ns = 0;
  };
  std::optional<Exchange> exchange;
  ImageReceiver receiver;
  uint64_t counted = 0;
  bool fresh = false;   // it has parameters to train from
  bool taking = false;  // asked of the replica and not answered
  bool pushed = false;  // what is staged may be in a result
  bool settling = false;
  bool idle_told = false;
};

}  // namespace perigee
