// One exchange of one bucket between the members of one generation, as a state machine: bytes in, bytes out, no clock, no socket.
// It adds up what every member staged and leaves the same bytes in row 0 of every member. One file in topology/ defines one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/replica/replica.h"

namespace perigee {

class ChunkPool;    // topology/chunk_pool.h
class PayloadPool;  // payload_pool.h

struct CollectiveSetup {
  int rank = 0;
  std::vector<std::string> hosts;  // one per participant, in the order of the ranks: equal for those that share memory
  ExchangeLayout layout;           // of the whole exchange: which bytes are sums, and of what, which int64 maxima
  Bucket bucket;
  std::vector<std::span<std::byte>> rows;      // this member's rows, whole exchange; row 0 receives the result
  std::vector<std::vector<Partial>> partials;  // of every participant; empty: one row each, added in an order fixed by the topology
  bool takes_part = true;                      // false: weight 0, contributes nothing but receives the result
  std::span<std::byte> result;      // whole exchange; receives the result instead of row 0, and the rows stay as they were staged
  std::shared_ptr<ChunkPool> pool;  // memory for chunks that wait for others, kept from exchange to exchange; null: one of its own
};

// Sends a chunk to a rank; false when its queue is full: try again when on_writable. `body` is copied or sent before it returns.
// The sender fills in `from` and `bucket`, which a collective does not know. An empty body says: nothing from here for this chunk.
using ChunkSender = std::function<bool(int to, const Chunk& chunk, std::span<const std::byte> body)>;

class Collective {
 public:
  virtual ~Collective() = default;
  // This member's rows are staged. Chunks of others may come before.
  virtual void start(const ChunkSender& send) = 0;
  // False: not a chunk that this exchange can expect from that rank (the sender is at fault). A repeated chunk is ignored: true.
  virtual bool on_chunk(int from, const Chunk& chunk, std::span<const std::byte> body, const ChunkSender& send) = 0;
  // Where the body of a chunk that is being received may go at once; on_chunk() with that very memory then copies nothing. Null: nowhere.
  virtual std::byte* place(int from, const Chunk& chunk, size_t bytes) = 0;
  virtual void on_writable(int to, const ChunkSender& send) = 0;
  virtual bool done() const = 0;                   // the result is in row 0, and all that others need from here is sent
  virtual std::vector<int> waits_for() const = 0;  // ranks whose bytes are missing; for people
};

// An exchange that brings each member's bytes to every member, unadded: payloads of a codec, whose lengths only their owners know.
struct GatherSetup {
  int rank = 0;
  std::vector<std::string> hosts;  // one per participant, in the order of the ranks
  std::vector<bool> gives;         // likewise: who has a payload; the others only receive
  SharedBytes payload;             // this member's, if it gives one
  size_t bound = 0;                // bytes of the largest payload: what is longer is refused before any memory is taken for it
  std::shared_ptr<PayloadPool> payloads = nullptr;  // memory for those of others, kept from exchange to exchange; null: one of its own
};

class Gather : public Collective {
 public:
  // The payload of that rank, once it is here as a whole; null before, and for a rank that gives none.
  virtual SharedBytes payload(int rank) const = 0;
};

struct TopologyDef {
  const char* name = nullptr;
  const char* doc = nullptr;
  bool keeps_tree = false;  // honours `partials`: the sum is bit-equal however the leaves are dealt out
  std::unique_ptr<Collective> (*make)(CollectiveSetup setup) = nullptr;
  // Bytes that rank `rank` of the members on `hosts` sends for an exchange of `bytes` in one row, without headers; for describe and
  // tests (U7).
  double (*bytes_sent)(int rank, const std::vector<std::string>& hosts, double bytes) = nullptr;
  std::unique_ptr<Gather> (*gather)(GatherSetup setup) = nullptr;
  // Likewise, for a gather to which every member gives `bytes`.
  double (*gather_bytes_sent)(int rank, const std::vector<std::string>& hosts, double bytes) = nullptr;
};

std::span<const TopologyDef* const> all_topologies();
// "auto" resolves by the number of members, hosts and bytes. Error(model) with the nearest name.
const TopologyDef& find_topology(const std::string& name, const CollectiveSetup& setup);
const TopologyDef& find_gather_topology(const std::string& name, const GatherSetup& setup);

}  // namespace perigee
