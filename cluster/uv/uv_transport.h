// Frames over TCP, and over descriptors that were inherited; with a key everything is TLS 1.3 and both sides prove that they hold it.
// Several may share a loop: a launcher has one for the agents (the cluster's key) and one for its workers (the job's).
// Without a key an incoming connection counts as a stranger's (src/net/stream_set.h) until its first valid header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch/secret.h"
#include "cluster/protocol/transport.h"
#include "src/core/json.h"
#include "src/net/loop.h"
#include "src/net/stream_set.h"

namespace perigee {

struct UvTransportOptions {
  Secret key;                                 // empty: plain text, only on loopback
  std::vector<Secret> accepted_keys;          // of incoming connections, besides `key`
  size_t queue_bytes = size_t{1} << 20;       // bound of what waits to be sent to one peer; one frame may always wait
  bool share_memory = true;                   // between processes of one machine, once large frames go from one to the other
  StreamLimits limits;                        // of strangers
  uint64_t rekey_bytes = uint64_t{64} << 30;  // TLS: new keys after so much is sent (AES-GCM's bound is 2^24.5 records)
};

class UvTransport final : public Transport {
 public:
  explicit UvTransport(UvLoop& loop, const UvTransportOptions& options = {});
  ~UvTransport() override;  // closes everything at once; no callbacks follow
  UvTransport(const UvTransport&) = delete;
  UvTransport& operator=(const UvTransport&) = delete;

  // Before the loop runs; they must live as long as this.
  void set_events(TransportEvents* events);

  // "127.0.0.1:0", "[::1]:7700", ":7700" (all interfaces); may be called for several addresses. The answer is the real address, with
  // the port that the system chose. Error(usage) for an address that others can reach when there is no key; Error(resources) when it
  // is taken.
  std::string listen(const std::string& address);
  // Takes over a connected stream socket (TCP or Unix) that was inherited, without TLS: the process that passed it on needs no proof.
  // on_connected follows at once.
  PeerId adopt(int descriptor);

  PeerId connect(const std::string& address, uint64_t deadline_ns) override;
  bool send(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body = {}) override;
  void close(PeerId peer) override;
  void start_timer(uint64_t timer, uint64_t deadline_ns) override;
  void stop_timer(uint64_t timer) override;

  size_t queued_bytes(PeerId peer) const;  // not yet taken by the system; 0 for an unknown peer
  size_t peers() const;                    // connected ones
  // During on_lost: more about it, for people ("it speaks protocol 2, this is 1"); else empty.
  const std::string& loss_detail() const;
  // Counts since the start: connections by fate, frames and bytes, refusals by reason.
  Json counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
