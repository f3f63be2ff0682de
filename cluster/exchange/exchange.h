// One worker's part in the exchange of one round: a collective per bucket, started as the bucket is staged, one more for the payloads of a
// coded round, and the chunks of others who are ahead, kept until this worker is there too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/exchange/collective.h"
#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"

namespace perigee {

// To a worker; false: its queue is full or it is not connected yet.
using ExchangeSender = std::function<bool(WorkerId to, int64_t round, const Chunk& chunk, std::span<const std::byte> body)>;

class Exchange {
 public:
  struct Setup {
    int64_t round = -1;
    int rank = 0;
    std::vector<WorkerId> ids;       // of the participants, in the order of the ranks
    std::vector<std::string> hosts;  // likewise
    std::vector<std::vector<Partial>> partials;
    std::vector<std::span<std::byte>> rows;
    ExchangeLayout layout;
    std::vector<Bucket> buckets;
    bool takes_part = true;
    std::string topology;
    // Coded rounds: who gives a payload, by rank (empty: the round is not coded), and this worker's own. Their gather comes after the
    // buckets.
    std::vector<bool> gives;
    SharedBytes payload;
  };
  enum class Verdict { taken, stale, refused };  // refused: no honest worker of this generation sends it

  explicit Exchange(ExchangeSender send);

  // A new generation: ends what is going on. All that is kept of chunks that come early is bounded by these.
  // `ahead`: how many rounds after the expected one another member may be in.
  void reset(size_t members, size_t buckets, const ExchangeLayout& layout, size_t ahead = 1);
  void expect(int64_t round);  // the round that comes next; chunks of this and of those ahead are kept
  void prepare(Setup setup);   // of the expected round
  void start(uint32_t bucket);
  void start_all();
  void close();  // what has not been started is not exchanged
  Verdict on_chunk(WorkerId from, int64_t round, const Chunk& chunk, std::span<const std::byte> body);
  // Where the body of that chunk may be received; the ticket is of this exchange.
  Placement place(WorkerId from, int64_t round, const Chunk& chunk, size_t bytes) const;
  void on_writable(WorkerId to);
  void finish();  // applied: the next round is expected

  bool active() const { return active_; }
  bool started() const { return started_ > 0; }
  bool bucket_done(size_t bucket) const { return active_ && bucket_done_[bucket]; }
  bool done() const { return active_ && started_ == collectives_.size() && done_ == started_; }
  SharedBytes payload(size_t rank) const { return gather_ ? gather_->payload(static_cast<int>(rank)) : nullptr; }
  int64_t round() const { return round_; }
  std::vector<WorkerId> waits_for() const;
  uint64_t bytes_up() const { return bytes_up_; }
  uint64_t bytes_down() const { return bytes_down_; }

 private:
  struct Early {
    WorkerId from;
    Chunk chunk;
    std::vector<std::byte> body;
  };
  struct Kept {
    int64_t round = -1;
    std::vector<std::vector<Early>> buckets;
  };
  int rank_of(WorkerId id) const;
  Kept& kept_of(int64_t round) { return kept_[static_cast<size_t>(round) % kept_.size()]; }
  bool ahead(int64_t round) const { return round - round_ >= static_cast<int64_t>(kept_.size()); }  // too far
  Verdict keep(WorkerId from, int64_t round, const Chunk& chunk, std::span<const std::byte> body);
  void forget(Kept& kept);
  void forget_collectives();
  void note_done(size_t bucket);
  std::unique_ptr<Collective> make_collective(uint32_t bucket);
  ChunkSender sender(uint32_t bucket);

  ExchangeSender send_;
  std::shared_ptr<ChunkPool> pool_;
  std::shared_ptr<PayloadPool> payloads_;
  Setup setup_;
  bool active_ = false;
  uint64_t ticket_ = 0;  // changes with every exchange
  int64_t round_ = -1;   // -1: not known yet (a generation is forming)
  std::vector<std::unique_ptr<Collective>> collectives_;
  Gather* gather_ = nullptr;  // the last of them, in a coded round that has begun
  std::vector<ChunkSender> senders_;
  std::vector<bool> bucket_done_;
  size_t started_ = 0, done_ = 0;
  uint64_t bytes_up_ = 0, bytes_down_ = 0;

  size_t bucket_count_ = 0, kept_bytes_ = 0, kept_limit_ = 0;
  std::vector<Kept> kept_ = std::vector<Kept>(2);  // one for each round that is kept, by the rest of its number
  std::vector<std::vector<std::byte>> spare_;      // memory of kept chunks, used again
};

}  // namespace perigee
