// One connection: its socket, what waits to be sent, the frame that is being received, TLS between them. It tells its keeper, the
// transport, what became of it; it never calls the keeper from within a call by the keeper.
#pragma once

#include <uv.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"
#include "cluster/uv/frame_reader.h"
#include "cluster/uv/loop.h"
#include "cluster/uv/outbox.h"
#include "cluster/uv/shared_link.h"
#include "cluster/uv/tls.h"

namespace perigee {

struct TransportCounters {
  uint64_t accepted = 0, connected = 0, lost = 0;
  uint64_t frames_in = 0, frames_out = 0, bytes_in = 0, bytes_out = 0, queue_full = 0, key_updates = 0;
  uint64_t unauthenticated = 0, handshake_timeouts = 0, pending_dropped = 0, shut_out = 0, accept_errors = 0;
  uint64_t bad_frames = 0, bad_records = 0, other_protocol = 0, shared_memory = 0;
};

class Connection;

class ConnectionKeeper {
 public:
  virtual ~ConnectionKeeper() = default;
  virtual void on_ready(Connection& connection) = 0;
  virtual void on_frame(Connection& connection, std::span<const std::byte> frame) = 0;
  virtual Placement place(Connection& connection, std::span<const std::byte> head) = 0;  // as TransportEvents::place
  virtual void on_placed(Connection& connection, std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  virtual void on_bytes(Connection& connection) = 0;  // as TransportEvents::on_bytes
  virtual void on_writable(Connection& connection) = 0;
  // Nothing can be sent any more. What the other side said before it went may still come.
  virtual void on_send_failed(Connection& connection) = 0;
  // It is over; the connection may linger a while, to send what it has.
  virtual void on_end(Connection& connection, PeerLoss why, std::string detail) = 0;
  virtual void on_lingered(Connection& connection) = 0;  // now nothing is left to do
};

// What the connections of one transport share. It outlives the transport until the last of libuv's handles is closed.
struct ConnectionShared {
  UvLoop* loop = nullptr;
  std::unique_ptr<TlsContext> tls;  // null: plain text
  std::shared_ptr<SendBlocks> blocks = std::make_shared<SendBlocks>();
  std::vector<std::byte> received;  // TLS records on their way into a Tls
  size_t queue_bytes = 0;
  bool share_memory = true;
  TransportCounters counters;
};

class Connection final : public TlsSink, public SharedLinkUser {
 public:
  enum class State { idle, connecting, handshake, open, lingering, closing };

  Connection(std::shared_ptr<ConnectionShared> shared, ConnectionKeeper* keeper, PeerId id, std::string address);
  ~Connection() override;
  // The only way to end one: frees it when libuv has closed its handle. No callbacks follow.
  static void dispose(std::unique_ptr<Connection> connection);

  // How one begins; of libuv, 0 or an error.
  int accept(uv_stream_t* server);
  int adopt(int descriptor);
  void connect(std::vector<sockaddr_storage> candidates);  // each in turn; errors come by on_end

  bool send(std::span<const std::byte> head, std::span<const std::byte> body);
  // Sends what it has, says goodbye, waits until the other side has it. Whoever calls sets a deadline for that.
  void linger();
  // Ends it for a reason that only the keeper knows: a deadline.
  void give_up();

  PeerId id() const { return id_; }
  State state() const { return state_; }
  bool inbound() const { return inbound_; }
  const std::string& address() const { return address_; }
  const sockaddr* remote() const { return reinterpret_cast<const sockaddr*>(&remote_); }
  size_t queued() const { return outbox_.queued() + (link_ ? link_->queued() : 0); }
  bool send_failed() const { return outbox_.error() != 0; }

 private:
  void put(std::span<const std::byte> bytes) override { outbox_.put(bytes); }
  uv_stream_t* stream() { return &handle_.stream; }
  int set_up();
  void connect_next();
  void on_connect(int status);
  void close_handle();
  void on_closed();
  void on_sent();
  void finish_lingering();
  void on_read(ssize_t count, std::span<std::byte> bytes);
  std::span<std::byte> room();
  void receive_tls(std::span<const std::byte> bytes);
  bool drain();
  bool refused_stranger(std::span<const std::byte> bytes);
  bool take(const FrameHeader& header, std::span<const std::byte> frame);
  bool take_placed(std::span<const std::byte> head, std::span<const std::byte> body);
  void become_open();
  void refuse_protocol();
  void end(PeerLoss why, std::string detail = {}, bool politely = false);
  std::string tls_detail() const;

  // Shared memory (shared_link.h): the socket first, then, after one Switch each way, the rings.
  bool send_on_socket(std::span<const std::byte> head, std::span<const std::byte> body);
  bool put_on_socket(std::span<const std::byte> head, std::span<const std::byte> body);  // whatever is queued
  void say(MessageType what, std::span<const std::byte> payload = {});
  void offer_memory();
  bool drain_link();
  static bool is_link_message(MessageType type) { return type >= MessageType::shared_offer && type <= MessageType::shared_refused; }
  bool on_link_frame(const FrameHeader& header, std::span<const std::byte> payload);
  void on_shared_ready() override;
  void on_shared_refused() override;
  bool on_shared_frame(std::span<const std::byte> frame) override;
  void on_shared_writable() override;
  void on_shared_broken() override;

  std::shared_ptr<ConnectionShared> shared_;
  ConnectionKeeper* keeper_;
  const PeerId id_;
  std::string address_;
  sockaddr_storage remote_{};
  State state_ = State::idle;
  bool inbound_ = false;
  bool encrypted_ = false;
  bool has_handle_ = false;
  bool blocked_ = false;       // send() has refused something since the last on_writable
  size_t writable_below_ = 0;  // bytes queued at which on_writable() follows
  bool heard_ = false;         // anything at all
  uv_any_handle handle_{};
  uv_connect_t connect_request_{};
  uv_shutdown_t shutdown_request_{};
  std::vector<sockaddr_storage> candidates_;
  size_t next_candidate_ = 0;
  Outbox outbox_;
  FrameReader reader_;
  std::optional<Tls> tls_;
  std::unique_ptr<SharedLink> link_;
  bool link_tried_ = false, link_offered_ = false;
};

}  // namespace perigee
