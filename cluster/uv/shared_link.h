// Frames between two processes of one machine, through memory instead of a socket. A connection begins one when the first large frame
// is to go to its own machine; the socket stays open beside it, and its end is the link's end.
//
// One side offers: it makes the memory (a sealed memfd with a ring each way) and an abstract Unix socket, and sends that socket's name
// and a token over the authenticated connection. The other side connects, shows the token, and gets the memory and two event
// descriptors. The side that has the memory says Switch over the old way, as its last word there, and writes to its ring from then on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "cluster/uv/shared_ring.h"
#include "src/net/loop.h"

namespace perigee {

class SharedLinkUser {
 public:
  virtual ~SharedLinkUser() = default;
  virtual void on_shared_ready() = 0;    // the memory is there: say Switch, then begin_writing()
  virtual void on_shared_refused() = 0;  // it cannot be had (another network namespace, no descriptors left): all stays as it was
  // One whole frame, header included, not believed. False: take no more.
  virtual bool on_shared_frame(std::span<const std::byte> frame) = 0;
  virtual void on_shared_writable() = 0;
  virtual void on_shared_broken() = 0;  // the other side does not keep to the format
};

class SharedLink {
 public:
  static constexpr size_t kOfferBytes = 32;
  using Offer = std::array<std::byte, kOfferBytes>;

  SharedLink(UvLoop& loop, SharedLinkUser& user);
  ~SharedLink();  // no callbacks follow
  SharedLink(const SharedLink&) = delete;
  SharedLink& operator=(const SharedLink&) = delete;

  // Is the other end of this connected socket on this machine?
  static bool same_machine(int socket);

  // False: not here. on_shared_ready follows when the other side has taken it and says so: mapped().
  bool offer(Offer* out);
  // To an offer from the other side: on_shared_ready or on_shared_refused follows.
  void answer(const Offer& offer);

  bool mapped() const { return memory_ != nullptr; }
  void begin_writing() { writing_ = true; }
  void begin_reading();
  bool writing() const { return writing_; }
  bool reading() const { return reading_; }

  // Like Transport::send, with the queue's bound.
  bool send(std::span<const std::byte> head, std::span<const std::byte> body, size_t bound);
  size_t queued() const { return queued_; }
  // Hands out what has come, whether or not a bell rang. After the socket's end: what was sent before it.
  void drain();

 private:
  class Watcher;
  struct Waiting {
    std::vector<std::byte> frame;
    size_t sent = 0;
  };
  bool make_memory();
  bool map(int memory, bool offered_here);
  void on_visitor();
  void on_token();
  void on_descriptors();
  void on_bell();
  bool read_some(size_t budget);
  bool take(RecordKind kind, std::span<const std::byte> record);
  bool flush();
  bool room();
  bool put_waiting(Waiting& waiting);
  void ring_other();
  void ring_own();
  void refuse();

  UvLoop& loop_;
  SharedLinkUser& user_;
  Offer offer_{};
  std::byte* memory_ = nullptr;
  int memory_fd_ = -1, own_bell_ = -1, other_bell_ = -1, listener_ = -1, socket_ = -1;
  std::unique_ptr<Watcher> listener_watch_, socket_watch_, bell_watch_;
  RingWriter writer_;
  RingReader reader_;
  bool writing_ = false, reading_ = false, draining_ = false;
  bool wants_room_ = false;      // send() has refused or kept something
  std::deque<Waiting> waiting_;  // frames that did not fit
  size_t queued_ = 0;
  std::vector<std::byte> parts_;  // of a frame longer than a record
};

}  // namespace perigee
