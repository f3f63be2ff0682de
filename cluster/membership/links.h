// One worker's connections to the other workers of its generation: made when a generation forms or when first needed.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"

namespace perigee {

class Links {
 public:
  Links(Transport& transport, Clock& clock) : transport_(transport), clock_(clock) {}

  // The number that others link to: a Link to another one is for the process that was here before.
  void join(WorkerId self) { self_ = self; }
  // Ends links to workers that are no members any more. Up to kMesh members all are connected at once, the higher id to the lower;
  // with more of them a link is made when it is first used. Links to `dead` members were reported lost: what there is of them from before
  // `generation` ends, as the other side of a cut may look alive for long, and they must come up sooner than others.
  void form(uint64_t job, uint64_t generation, WorkerId self, const std::vector<Member>& members, std::set<WorkerId> dead);
  // Where to send to that member; 0: it is not connected yet, and is being connected.
  PeerId to(WorkerId id);
  WorkerId who(PeerId peer) const;  // 0: unknown
  bool owns(PeerId peer) const { return connections_.contains(peer); }

  // A connection that this worker made (true) or one from outside, which must say who it is in time.
  bool on_connected(PeerId peer);
  // False: not a link to this worker, and it is closed.
  bool on_link(PeerId peer, const Link& link, uint64_t generation);
  // The member that cannot be reached any more by its newest connection, which this generation has used; 0: it does not matter. What has
  // carried nothing of it may end late, because the other end was in a generation between without this worker: nothing is lost with it.
  WorkerId on_lost(PeerId peer);
  void used(PeerId peer, uint64_t generation);  // a frame of that generation has come by it
  void expire();                                // ends connections from outside that have not said who they are

  // Heartbeats: a link carries one every now and then, whatever else it carries.
  void beat(std::span<const std::byte> frame);
  void heard(PeerId peer);
  void forgive(uint64_t gap_ns);  // this process stood still
  // Ends connections that have carried nothing for so long. With each, as on_lost().
  std::vector<std::pair<PeerId, WorkerId>> end_silent(uint64_t silent_ns);
  void close(PeerId peer);
  void close_all();

 private:
  static constexpr size_t kMesh = 64;
  static constexpr size_t kMaxUnknown = 256;
  static constexpr uint64_t kHelloNs = 5'000'000'000, kAgainNs = 800'000'000, kPatienceNs = 300'000'000;

  struct Connection {
    WorkerId id = 0;
    WorkerId meant = 0;  // from outside: for whom, who may have had this address before
    bool outgoing = false, ready = false;
    uint64_t since_ns = 0, heard_ns = 0;
    uint64_t generation = 0;  // of who made it, when it did
    uint64_t used = 0;        // the last generation that it carried something of, heartbeats apart
  };
  void connect(WorkerId id);
  WorkerId remove(PeerId peer, bool whatever_it_carried);
  const Member* member(WorkerId id) const;

  Transport& transport_;
  Clock& clock_;
  uint64_t job_ = 0, generation_ = 0, formed_ns_ = 0;
  WorkerId self_ = 0;
  std::map<WorkerId, Member> members_;
  std::set<WorkerId> dead_;
  std::map<PeerId, Connection> connections_;
  std::map<WorkerId, std::vector<PeerId>> ready_;  // the newest last: it is the one that is sent on
};

}  // namespace perigee
