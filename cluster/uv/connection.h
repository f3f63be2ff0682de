// One connection of the cluster: frames over a stream, or, within one machine, over shared memory beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"
#include "cluster/uv/frame_reader.h"
#include "cluster/uv/shared_link.h"
#include "src/net/stream.h"

namespace perigee {

struct FrameCounters {
  uint64_t frames_in = 0, frames_out = 0, bytes_in = 0, bytes_out = 0, queue_full = 0;
  uint64_t bad_frames = 0, other_protocol = 0, shared_memory = 0;
};

class Connection;

// Takes what connections receive; never called from within a call of theirs.
class FrameUser {
 public:
  virtual ~FrameUser() = default;
  virtual void on_frame(Connection& connection, std::span<const std::byte> frame) = 0;
  virtual Placement place(Connection& connection, std::span<const std::byte> head) = 0;  // as TransportEvents::place
  virtual void on_placed(Connection& connection, std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  virtual void on_bytes(Connection& connection) = 0;  // as TransportEvents::on_bytes
  virtual void on_writable(Connection& connection) = 0;
};

// The state that the connections of one transport share.
struct ConnectionShared final : StreamShared {
  using StreamShared::StreamShared;
  size_t queue_bytes = 0;
  bool share_memory = true;
  FrameCounters counters;
};

class Connection final : public Stream, public SharedLinkUser {
 public:
  Connection(std::shared_ptr<ConnectionShared> shared, FrameUser& user, StreamKeeper* keeper, PeerId id, std::string address);
  ~Connection() override;

  // Like Transport::send.
  bool send(std::span<const std::byte> head, std::span<const std::byte> body);
  size_t queued() const { return waiting_bytes() + (link_ ? link_->queued() : 0); }

 private:
  std::span<std::byte> room() override;
  void received(size_t bytes) override;
  void writable() override;
  void heard() override { user_.on_bytes(*this); }
  bool drain_other() override;
  bool holds_back() override { return link_ && link_->queued() > 0; }  // until the other side has made room for it
  bool may_begin_with(std::span<const std::byte> bytes) const override;
  bool greeted(std::span<const std::byte> bytes) override;
  bool alive() const { return state() == State::open || state() == State::handshake; }
  bool take(const FrameHeader& header, std::span<const std::byte> frame);
  bool take_placed(std::span<const std::byte> head, std::span<const std::byte> body);
  void refuse_protocol();

  // Shared memory (shared_link.h): the socket first, then, after one Switch each way, the rings.
  bool send_on_socket(std::span<const std::byte> head, std::span<const std::byte> body);
  bool put_on_socket(std::span<const std::byte> head, std::span<const std::byte> body);  // whatever is queued
  void say(MessageType what, std::span<const std::byte> payload = {});
  void offer_memory();
  static bool is_link_message(MessageType type) { return type >= MessageType::shared_offer && type <= MessageType::shared_refused; }
  bool on_link_frame(const FrameHeader& header, std::span<const std::byte> payload);
  void on_shared_ready() override;
  void on_shared_refused() override;
  bool on_shared_frame(std::span<const std::byte> frame) override;
  void on_shared_writable() override;
  void on_shared_broken() override;

  std::shared_ptr<ConnectionShared> shared_;
  FrameUser& user_;
  FrameReader reader_;
  std::unique_ptr<SharedLink> link_;
  bool link_tried_ = false, link_offered_ = false;
  bool blocked_ = false;  // send() has refused something since the last on_writable
};

}  // namespace perigee
