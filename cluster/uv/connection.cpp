#include "cluster/uv/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "cluster/protocol/message.h"
#include "cluster/uv/address.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr unsigned kUserTimeoutMs = 5000;  // unanswered writes; libuv has no call for it, and keepalive never fires under writes
constexpr unsigned kKeepaliveS = 5;
// Between processes of one machine what is under way should still be in the cache when it is read: with the system's 4 MB it comes back
// from memory, at twice the CPU time per byte. The system doubles the number, and says that there is room when a third is free: then a
// whole chunk nearly always goes at once, without waking anybody again or being copied for later.
constexpr int kLoopbackSendBuffer = 256 << 10;
// Through a network: what the system has taken and not yet sent goes before every heartbeat. Its own bound is 4 MB, 16 s at 2 Mbit/s, and
// whoever sends an image then looks dead. This and one chunk are 0.4 s; what is sent and unanswered, the window, is not bounded by it.
constexpr int kUnsentBytes = 32 << 10;
constexpr size_t kLargeBody = size_t{32} << 10;  // the first of this size makes a connection within one machine ask for shared memory

PeerLoss loss_of(int status) {
  switch (status) {
    case UV_EOF: return PeerLoss::closed;
    case UV_ECONNREFUSED: return PeerLoss::refused;
    case UV_ETIMEDOUT:
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH: return PeerLoss::timed_out;
    default: return PeerLoss::reset;
  }
}

bool starts_with(std::span<const std::byte> bytes, std::span<const uint8_t> start) {
  return bytes.size() >= start.size() && std::memcmp(bytes.data(), start.data(), start.size()) == 0;
}

}  // namespace

Connection::Connection(std::shared_ptr<ConnectionShared> shared, ConnectionKeeper* keeper, PeerId id, std::string address)
    : shared_(std::move(shared)),
      keeper_(keeper),
      id_(id),
      address_(std::move(address)),
      outbox_(
          shared_->blocks, [](void* self) { static_cast<Connection*>(self)->on_sent(); }, this) {
  assert(keeper_ && id_ != 0);
}

Connection::~Connection() = default;

void Connection::dispose(std::unique_ptr<Connection> connection) {
  connection->state_ = State::closing;
  connection->keeper_ = nullptr;
  if (!connection->has_handle_) return;
  Connection* self = connection.release();  // on_closed() takes it back
  self->close_handle();
}

void Connection::close_handle() {
  handle_.handle.data = this;
  if (!uv_is_closing(&handle_.handle))
    uv_close(&handle_.handle, [](uv_handle_t* handle) { static_cast<Connection*>(handle->data)->on_closed(); });
}

void Connection::on_closed() {
  if (state_ == State::closing) {
    const std::unique_ptr<Connection> self(this);
    return;
  }
  has_handle_ = false;
  assert(state_ == State::connecting);
  shared_->loop->guard([&] { connect_next(); });
}

int Connection::set_up() {
  handle_.handle.data = this;
  outbox_.attach(stream());
  if (handle_.handle.type == UV_TCP) {
    uv_tcp_nodelay(&handle_.tcp, 1);
    uv_tcp_keepalive(&handle_.tcp, 1, kKeepaliveS);
    uv_os_fd_t fd = -1;
    if (uv_fileno(&handle_.handle, &fd) == 0) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
    if (fd >= 0 && is_loopback(remote())) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kLoopbackSendBuffer, sizeof kLoopbackSendBuffer);
    else if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof kUnsentBytes);
  }
  const auto allocate = [](uv_handle_t* handle, size_t, uv_buf_t* buffer) {
    auto* self = static_cast<Connection*>(handle->data);
    const bool frames = self->state_ == State::open || self->state_ == State::handshake;
    const std::span<std::byte> room = frames && !self->encrypted_ ? self->room() : std::span(self->shared_->received);
    *buffer = uv_buf_init(reinterpret_cast<char*>(room.data()), static_cast<unsigned>(room.size()));
  };
  const auto read = [](uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
    auto* self = static_cast<Connection*>(stream->data);
    const size_t size = count > 0 ? static_cast<size_t>(count) : 0;
    self->shared_->loop->guard([&] { self->on_read(count, {reinterpret_cast<std::byte*>(buffer->base), size}); });
  };
  return uv_read_start(stream(), allocate, read);
}

int Connection::accept(uv_stream_t* server) {
  assert(state_ == State::idle);
  uv_tcp_init(shared_->loop->handle(), &handle_.tcp);
  has_handle_ = true, inbound_ = true, encrypted_ = shared_->tls != nullptr;
  if (const int status = uv_accept(server, stream()); status != 0) return status;
  int size = sizeof remote_;
  if (const int status = uv_tcp_getpeername(&handle_.tcp, reinterpret_cast<sockaddr*>(&remote_), &size); status != 0) return status;
  address_ = to_host_port(remote()).text();
  state_ = State::handshake;
  return set_up();
}

int Connection::adopt(int descriptor) {
  assert(state_ == State::idle);
  socklen_t size = sizeof remote_;
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return uv_translate_sys_error(errno);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&remote_), &size) != 0) return uv_translate_sys_error(errno);
  const bool local = own.ss_family == AF_UNIX;
  if (local) uv_pipe_init(shared_->loop->handle(), &handle_.pipe, 0);
  else uv_tcp_init(shared_->loop->handle(), &handle_.tcp);
  has_handle_ = true;
  const int status = local ? uv_pipe_open(&handle_.pipe, descriptor) : uv_tcp_open(&handle_.tcp, descriptor);
  if (status != 0) return status;
  state_ = State::open;
  return set_up();
}

void Connection::connect(std::vector<sockaddr_storage> candidates) {
  assert(state_ == State::idle && !candidates.empty());
  encrypted_ = shared_->tls != nullptr;
  candidates_ = std::move(candidates);
  state_ = State::connecting;
  connect_next();
}

void Connection::connect_next() {
  assert(!has_handle_ && next_candidate_ < candidates_.size());
  remote_ = candidates_[next_candidate_++];
  uv_tcp_init(shared_->loop->handle(), &handle_.tcp);
  has_handle_ = true;
  handle_.handle.data = this;
  connect_request_.data = this;
  const auto done = [](uv_connect_t* request, int status) {
    auto* self = static_cast<Connection*>(request->data);
    if (status != UV_ECANCELED) self->shared_->loop->guard([&] { self->on_connect(status); });
  };
  const int status = uv_tcp_connect(&connect_request_, &handle_.tcp, remote(), done);
  if (status != 0) on_connect(status);
}

void Connection::on_connect(int status) {
  if (state_ != State::connecting) return;
  if (status == 0) {
    state_ = State::handshake;
    status = set_up();
  }
  if (status != 0) {
    if (next_candidate_ == candidates_.size())
      return end(loss_of(status) == PeerLoss::timed_out ? PeerLoss::timed_out : PeerLoss::refused, uv_strerror(status));
    state_ = State::connecting;
    return close_handle();  // a socket cannot be connected twice
  }
  if (!encrypted_) return become_open();
  tls_.emplace(*shared_->tls, Tls::Role::client, *this);
  tls_->start();
  outbox_.flush();
}

bool Connection::send(std::span<const std::byte> head, std::span<const std::byte> body) {
  assert(head.size() >= kHeaderBytes && head.size() + body.size() <= kMaxFrameBytes);
  if (state_ != State::open || outbox_.error()) return false;
  if (body.size() >= kLargeBody && !link_tried_) offer_memory();
  if (!link_ || !link_->writing()) return send_on_socket(head, body);
  if (!link_->send(head, body, shared_->queue_bytes)) {
    blocked_ = true;
    ++shared_->counters.queue_full;
    return false;
  }
  ++shared_->counters.frames_out;
  shared_->counters.bytes_out += head.size() + body.size();
  return true;
}

bool Connection::send_on_socket(std::span<const std::byte> head, std::span<const std::byte> body) {
  const bool large = body.size() >= kLargeBody;
  if (large) outbox_.flush();  // so that what is left is under way, and on_sent() follows
  const size_t queued = outbox_.queued(), size = head.size() + body.size();
  // A large body waits where it is until the last one is with the system: a copy of it would only cost time.
  const bool waits = large && queued > 0;
  const size_t bound = body.empty() ? 4 * shared_->queue_bytes : shared_->queue_bytes;
  if (waits || (queued > 0 && queued + size > bound)) {
    blocked_ = true;
    writable_below_ = waits ? 1 : shared_->queue_bytes / 2;
    ++shared_->counters.queue_full;
    return false;
  }
  return put_on_socket(head, body);
}

bool Connection::put_on_socket(std::span<const std::byte> head, std::span<const std::byte> body) {
  const size_t size = head.size() + body.size();
  if (!tls_) {
    outbox_.send(head, body);
  } else {
    const uint64_t before = tls_->key_updates();
    const bool ok = tls_->write(head) && tls_->write(body);
    outbox_.flush();
    shared_->counters.key_updates += tls_->key_updates() - before;
    if (!ok) return false;
  }
  ++shared_->counters.frames_out;
  shared_->counters.bytes_out += size;
  return !outbox_.error();
}

void Connection::on_sent() {
  if (state_ != State::open) return;
  if (outbox_.error()) return keeper_->on_send_failed(*this);
  if (!blocked_ || outbox_.queued() >= writable_below_) return;
  blocked_ = false;
  shared_->loop->guard([&] { keeper_->on_writable(*this); });
}

void Connection::linger() {
  assert(state_ == State::open || state_ == State::handshake);
  state_ = State::lingering;
  if (!link_ || link_->queued() == 0) finish_lingering();  // else when the other side has made room for it
}

void Connection::finish_lingering() {
  if (tls_) tls_->close();
  outbox_.finish();
  // The other side's end of it is awaited: a socket closed with something unread in it would take back what was sent last.
  uv_shutdown(&shutdown_request_, stream(), nullptr);
}

void Connection::give_up() {
  switch (state_) {
    case State::idle:
    case State::connecting: return end(PeerLoss::timed_out, "no answer");
    case State::handshake:
      ++shared_->counters.handshake_timeouts;
      return end(inbound_ ? PeerLoss::unauthenticated : PeerLoss::timed_out, "the handshake took too long");
    case State::open: return end(outbox_.error() ? loss_of(outbox_.error()) : PeerLoss::timed_out);
    case State::lingering: return keeper_->on_lingered(*this);
    case State::closing: return;
  }
}

void Connection::on_read(ssize_t count, std::span<std::byte> bytes) {
  if (state_ == State::closing || count == 0) return;
  if (state_ == State::lingering) {
    if (count < 0) keeper_->on_lingered(*this);
    return;
  }
  if (count < 0) {
    if (!drain_link()) return;
    const bool turned_away = state_ == State::handshake && !inbound_;
    const std::string detail = turned_away ? "it closed the connection during the handshake" : "";
    return end(turned_away ? PeerLoss::refused : loss_of(static_cast<int>(count)), detail);
  }
  if (!heard_) {
    heard_ = true;
    if (inbound_ && refused_stranger(bytes)) return;
  }
  if (state_ == State::open) keeper_->on_bytes(*this);
  if (encrypted_) return receive_tls(bytes);
  reader_.filled(bytes.size());
  drain();
}

// Somebody with a secret at a port without one, or the other way round: told in the language that he speaks.
bool Connection::refused_stranger(std::span<const std::byte> bytes) {
  static constexpr std::array<uint8_t, 2> kTlsHandshake = {0x16, 0x03};
  static constexpr std::array<uint8_t, 4> kPlainFrame = {'P', 'R', 'G', 'E'};
  static constexpr std::array<uint8_t, 7> kTlsAlert = {0x15, 0x03, 0x03, 0, 2, 2, 40};  // fatal: handshake failure
  if (!shared_->tls && starts_with(bytes, kTlsHandshake)) {
    outbox_.put(std::as_bytes(std::span(kTlsAlert)));
    end(PeerLoss::unauthenticated, "it has a secret, this side has none", true);
    return true;
  }
  if (shared_->tls && starts_with(bytes, kPlainFrame)) {
    outbox_.put(encode(Refuse{.kind = static_cast<uint16_t>(ErrorKind::authentication),
                              .what = "this address is only for those who have the cluster's secret",
                              .hint = "give the secret file: --secret FILE"},
                       {}));
    end(PeerLoss::unauthenticated, "it has no secret", true);
    return true;
  }
  return false;
}

// For what is received next: the body of a chunk goes where it belongs, if its owner says so.
std::span<std::byte> Connection::room() {
  if (const auto head = reader_.chunk_head(); !head.empty())
    reader_.place(state_ == State::open ? keeper_->place(*this, head) : Placement{});
  return reader_.space();
}

void Connection::receive_tls(std::span<const std::byte> bytes) {
  if (!tls_) tls_.emplace(*shared_->tls, Tls::Role::server, *this);
  tls_->feed(bytes);
  while (true) {
    const size_t count = tls_->read(room());
    if (state_ == State::handshake && tls_->state() == Tls::State::open) become_open();
    if (state_ != State::open && state_ != State::handshake) return;
    if (count == 0) break;
    reader_.filled(count);
    if (!drain()) return;
  }
  outbox_.flush();  // the handshake's answers, an alert
  if (tls_->state() == Tls::State::closed) {
    if (drain_link()) end(PeerLoss::closed);
    return;
  }
  if (tls_->state() != Tls::State::failed) return;
  if (state_ == State::handshake) return end(PeerLoss::unauthenticated, tls_detail(), true);
  ++shared_->counters.bad_records;
  end(PeerLoss::protocol_error, tls_detail(), true);
}

std::string Connection::tls_detail() const { return "TLS: " + tls_->problem(); }

// False when this connection takes no more.
bool Connection::drain() {
  std::span<const std::byte> frame;
  while (true) {
    const FrameReader::Next next = reader_.next(&frame);
    if (next == FrameReader::Next::broken) {
      ++shared_->counters.bad_frames;
      end(state_ == State::handshake ? PeerLoss::unauthenticated : PeerLoss::protocol_error, "what it sends is no frame of perigee's");
      return false;
    }
    if (next == FrameReader::Next::other_protocol) {
      refuse_protocol();
      return false;
    }
    // Plain text from outside: the first good header is all the proof there is.
    if (state_ == State::handshake && (next == FrameReader::Next::frame || reader_.header_seen())) become_open();
    if (state_ != State::open && state_ != State::handshake) return false;
    if (next == FrameReader::Next::more) return true;
    if (next == FrameReader::Next::frame ? !take(reader_.header(), frame) : !take_placed(frame, reader_.body())) return false;
  }
}

// False: no more.
bool Connection::take(const FrameHeader& header, std::span<const std::byte> frame) {
  if (is_link_message(header.type)) {
    if (on_link_frame(header, frame.subspan(kHeaderBytes))) return true;
    ++shared_->counters.bad_frames;
    end(PeerLoss::protocol_error, "what it says about shared memory cannot be");
    return false;
  }
  ++shared_->counters.frames_in;
  shared_->counters.bytes_in += frame.size();
  keeper_->on_frame(*this, frame);
  return state_ == State::open;
}

bool Connection::take_placed(std::span<const std::byte> head, std::span<const std::byte> body) {
  ++shared_->counters.frames_in;
  shared_->counters.bytes_in += head.size() + body.size();
  keeper_->on_placed(*this, head, body);
  return state_ == State::open;
}

void Connection::become_open() {
  assert(state_ == State::handshake);
  state_ = State::open;
  if (tls_) outbox_.flush();
  keeper_->on_ready(*this);
}

void Connection::refuse_protocol() {
  ++shared_->counters.other_protocol;
  const std::string theirs = "protocol " + std::to_string(reader_.header().protocol);
  const std::string ours = "protocol " + std::to_string(kProtocol) + " (perigee " PERIGEE_VERSION ")";
  const Refuse refusal{.kind = static_cast<uint16_t>(ErrorKind::cluster),
                       .what = "the two sides do not speak the same version",
                       .got = theirs,
                       .expected = ours,
                       .hint = "install the same version on all machines"};
  const auto frame = encode(refusal, {});
  if (tls_) tls_->write(frame);
  else outbox_.put(frame);
  end(PeerLoss::protocol_error, "it speaks " + theirs + ", this is " + ours, true);
}

void Connection::end(PeerLoss why, std::string detail, bool politely) {
  assert(keeper_ && state_ != State::closing && state_ != State::lingering);
  if (politely) linger();
  else state_ = State::closing;
  keeper_->on_end(*this, why, std::move(detail));
}

}  // namespace perigee
