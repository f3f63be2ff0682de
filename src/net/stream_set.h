// The streams of one server or client, by number: accepts them, looks names up and connects, and ends each at its deadline. Before a
// stranger has proved itself it costs little: at most `max_pending` connections, `handshake_ms` each, a few KiB. An address that keeps
// failing is shut out for a while, unless a peer has authenticated there before: strangers at a peer's own address do not keep it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/net/stream.h"

namespace perigee {

struct StreamLimits {
  size_t max_pending = 256;  // unproved incoming connections; the oldest that has said nothing makes room
  uint64_t handshake_ms = 3000;
  int failures_per_address = 32;  // failed authentications in a row before an address is shut out...
  double forgiven_per_s = 8;      // ...and how fast that is forgotten
};

struct StreamCounters {
  uint64_t accepted = 0, connected = 0, lost = 0;
  uint64_t unauthenticated = 0, pending_dropped = 0, shut_out = 0, accept_errors = 0;
};

// Called on the loop's thread, one at a time, never from within a call of the set.
class StreamUser {
 public:
  virtual ~StreamUser() = default;
  // `address`: of the other side, for people; empty for one that is accepted.
  virtual std::unique_ptr<Stream> make_stream(StreamKeeper* keeper, uint64_t id, std::string address) = 0;
  virtual void on_ready(Stream& stream) = 0;
  // Once for each stream that this side did not close(), also for a connect() that failed; not for an incoming one that never became
  // ready. `id` is known no more.
  virtual void on_lost(uint64_t id, StreamEnd why, const std::string& detail) = 0;
  virtual void on_timer(uint64_t timer) = 0;
};

class StreamSet {
 public:
  static constexpr uint64_t kLingerMs = 1000;

  StreamSet(UvLoop& loop, StreamLimits limits, StreamUser& user);
  ~StreamSet();  // closes everything at once; no callbacks follow
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  // As Listener; may be called for several addresses. The answer is the real address.
  std::string listen(const std::string& address);
  // Takes over a connected stream socket (TCP or Unix) that was inherited, without TLS. on_ready follows at once.
  uint64_t adopt(int descriptor);
  // "host:port" or "unix:PATH". The answer is on_ready or on_lost, at the latest at the deadline.
  uint64_t connect(const std::string& address, uint64_t deadline_ns);
  // No on_lost follows. What waits is still sent, for at most kLingerMs.
  void close(uint64_t id);
  // The stream ends as timed out then, unless it is set anew; a stream that becomes ready has none.
  void set_deadline(uint64_t id, uint64_t deadline_ns);
  void clear_deadline(uint64_t id);

  // One shot; a timer that is started again has the new deadline. Numbers are the user's.
  void start_timer(uint64_t timer, uint64_t deadline_ns);
  void stop_timer(uint64_t timer);

  Stream* find(uint64_t id) const;  // null: unknown
  // For a write that failed by the socket's fault.
  void on_send_failed(Stream& stream);
  size_t ready() const;    // streams that are open
  size_t pending() const;  // incoming ones that are not proved yet
  const StreamCounters& counters() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // names that are being looked up know whether it is still there
};

}  // namespace perigee
