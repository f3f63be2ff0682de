#include "src/net/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

#include "src/net/address.h"
#include "src/net/loopback.h"

namespace perigee {
namespace {

constexpr unsigned kUserTimeoutMs = 5000;  // unanswered writes; libuv has no call for it, and keepalive never fires under writes
constexpr unsigned kKeepaliveS = 5;
// Through a network: what the system has taken and not yet sent goes before anything urgent. Its own bound is 4 MB, 16 s at 2 Mbit/s,
// and a sender of large data then looks dead. This and one write of 128 KB are 0.4 s; what is sent and unanswered, the window, is not
// bounded by it.
constexpr int kUnsentBytes = 32 << 10;

StreamEnd end_of(int status) {
  switch (status) {
    case UV_EOF: return StreamEnd::closed;
    case UV_ENOENT:
    case UV_ECONNREFUSED: return StreamEnd::refused;
    case UV_ETIMEDOUT:
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH: return StreamEnd::timed_out;
    default: return StreamEnd::reset;
  }
}

}  // namespace

Stream::Stream(std::shared_ptr<StreamShared> shared, StreamKeeper* keeper, uint64_t id, std::string address)
    : shared_(std::move(shared)),
      keeper_(keeper),
      id_(id),
      address_(std::move(address)),
      outbox_(
          shared_->blocks, [](void* self) { static_cast<Stream*>(self)->on_sent(); }, this) {
  assert(keeper_ && id_ != 0);
}

Stream::~Stream() = default;

void Stream::dispose(std::unique_ptr<Stream> stream) {
  stream->state_ = State::closed;
  stream->keeper_ = nullptr;
  if (!stream->has_handle_) return;
  Stream* self = stream.release();  // on_closed() takes it back
  self->close_handle();
}

void Stream::close_handle() {
  handle_.handle.data = this;
  if (!uv_is_closing(&handle_.handle))
    uv_close(&handle_.handle, [](uv_handle_t* handle) { static_cast<Stream*>(handle->data)->on_closed(); });
}

void Stream::on_closed() {
  if (state_ == State::closed) {
    const std::unique_ptr<Stream> self(this);
    return;
  }
  has_handle_ = false;
  assert(state_ == State::connecting);
  loop().guard([&] { connect_next(); });
}

int Stream::descriptor() {
  uv_os_fd_t fd = -1;
  return handle_.handle.type == UV_TCP && uv_fileno(&handle_.handle, &fd) == 0 ? fd : -1;
}

int Stream::set_up() {
  handle_.handle.data = this;
  outbox_.attach(stream());
  if (handle_.handle.type == UV_TCP) {
    uv_tcp_nodelay(&handle_.tcp, 1);
    uv_tcp_keepalive(&handle_.tcp, 1, kKeepaliveS);
    const int fd = descriptor();
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
    if (fd >= 0 && is_loopback(remote())) tune_for_loopback(fd);
    else if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof kUnsentBytes);
  }
  return start_reading();
}

int Stream::start_reading() {
  const auto allocate = [](uv_handle_t* handle, size_t, uv_buf_t* buffer) {
    auto* self = static_cast<Stream*>(handle->data);
    const bool wanted = self->state_ == State::open || self->state_ == State::handshake;
    const std::span<std::byte> room = wanted && !self->encrypted_ ? self->room() : std::span(self->shared_->received);
    *buffer = uv_buf_init(reinterpret_cast<char*>(room.data()), static_cast<unsigned>(room.size()));
  };
  const auto read = [](uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
    auto* self = static_cast<Stream*>(stream->data);
    const size_t size = count > 0 ? static_cast<size_t>(count) : 0;
    self->loop().guard([&] { self->on_read(count, {reinterpret_cast<std::byte*>(buffer->base), size}); });
  };
  return uv_read_start(stream(), allocate, read);
}

void Stream::pause_reading() {
  if (std::exchange(paused_, true) || state_ != State::open) return;
  uv_read_stop(stream());
}

void Stream::resume_reading() {
  if (!std::exchange(paused_, false) || state_ != State::open) return;
  start_reading();
}

int Stream::accept(uv_stream_t* server) {
  assert(state_ == State::idle);
  const bool local = server->type == UV_NAMED_PIPE;
  if (local) uv_pipe_init(loop().handle(), &handle_.pipe, 0);
  else uv_tcp_init(loop().handle(), &handle_.tcp);
  has_handle_ = true, inbound_ = true, encrypted_ = has_tls();
  if (const int status = uv_accept(server, stream()); status != 0) return status;
  if (local) {
    remote_.ss_family = AF_UNIX;
    address_ = "a Unix socket";
  } else {
    int size = sizeof remote_;
    if (const int status = uv_tcp_getpeername(&handle_.tcp, reinterpret_cast<sockaddr*>(&remote_), &size); status != 0) return status;
    if (strange_at_once()) return UV_EPROTO;
    address_ = to_host_port(remote()).text();
  }
  state_ = State::handshake;
  return set_up();
}

// A look at what came before the connection was accepted, without taking it. In a flood thousands wait to be accepted: those with nonsense
// go here, at the least cost, and who has said hello is known before the next ones need his place.
bool Stream::strange_at_once() {
  std::array<std::byte, 4> first;
  const ssize_t count = recv(descriptor(), first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count <= 0) return false;
  spoke_ = true;
  return !may_begin_with(std::span(first).first(static_cast<size_t>(count)));
}

int Stream::adopt(int descriptor) {
  assert(state_ == State::idle);
  socklen_t size = sizeof remote_;
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return uv_translate_sys_error(errno);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&remote_), &size) != 0) return uv_translate_sys_error(errno);
  const bool local = own.ss_family == AF_UNIX;
  if (local) uv_pipe_init(loop().handle(), &handle_.pipe, 0);
  else uv_tcp_init(loop().handle(), &handle_.tcp);
  has_handle_ = true;
  const int status = local ? uv_pipe_open(&handle_.pipe, descriptor) : uv_tcp_open(&handle_.tcp, descriptor);
  if (status != 0) return status;
  state_ = State::open;
  return set_up();
}

void Stream::connect(std::vector<sockaddr_storage> candidates) {
  assert(state_ == State::idle && !candidates.empty());
  encrypted_ = has_tls();
  candidates_ = std::move(candidates);
  state_ = State::connecting;
  connect_next();
}

void Stream::connect_unix(std::string path) {
  assert(!path.empty());
  path_ = std::move(path);
  sockaddr_storage local{};
  local.ss_family = AF_UNIX;
  connect({local});
}

void Stream::connect_next() {
  assert(!has_handle_ && next_candidate_ < candidates_.size());
  remote_ = candidates_[next_candidate_++];
  connect_request_.data = this;
  const auto done = [](uv_connect_t* request, int status) {
    auto* self = static_cast<Stream*>(request->data);
    if (status != UV_ECANCELED) self->loop().guard([&] { self->on_connect(status); });
  };
  has_handle_ = true;
  if (!path_.empty()) {
    uv_pipe_init(loop().handle(), &handle_.pipe, 0);
    handle_.handle.data = this;
    return uv_pipe_connect(&connect_request_, &handle_.pipe, path_.c_str(), done);
  }
  int status = uv_tcp_init_ex(loop().handle(), &handle_.tcp, remote()->sa_family);
  if (status != 0) uv_tcp_init(loop().handle(), &handle_.tcp);  // no such socket: a handle to be closed all the same
  handle_.handle.data = this;
  if (status == 0 && is_loopback(remote())) tune_for_loopback(descriptor());
  if (status == 0) status = uv_tcp_connect(&connect_request_, &handle_.tcp, remote(), done);
  if (status != 0) on_connect(status);
}

void Stream::on_connect(int status) {
  if (state_ != State::connecting) return;
  if (status == 0) {
    state_ = State::handshake;
    status = set_up();
  }
  if (status != 0) {
    if (next_candidate_ == candidates_.size())
      return end(end_of(status) == StreamEnd::timed_out ? StreamEnd::timed_out : StreamEnd::refused, uv_strerror(status));
    state_ = State::connecting;
    return close_handle();  // a socket cannot be connected twice
  }
  if (!encrypted_) return become_open();
  tls_.emplace(*shared_->tls, Tls::Role::client, static_cast<TlsSink&>(*this));
  tls_->start();
  outbox_.flush();
}

bool Stream::write(std::span<const std::byte> head, std::span<const std::byte> body, size_t bound) {
  const size_t waiting = outbox_.queued(), size = head.size() + body.size();
  if (waiting > 0 && (size > bound || waiting > bound - size)) {
    call_writable_below(bound / 2 + 1);
    return false;
  }
  if (!tls_) {
    outbox_.send(head, body);
  } else {
    const uint64_t before = tls_->key_updates();
    const bool ok = tls_->write(head) && tls_->write(body);
    outbox_.flush();
    shared_->key_updates += tls_->key_updates() - before;
    if (!ok) return false;
  }
  return !outbox_.error();
}

void Stream::on_sent() {
  if (state_ != State::open) return;
  if (outbox_.error()) return keeper_->on_send_failed(*this);
  if (outbox_.queued() >= writable_below_) return;
  writable_below_ = 0;
  loop().guard([&] { writable(); });
}

void Stream::linger() {
  assert(state_ == State::open || state_ == State::handshake);
  if (std::exchange(paused_, false) && state_ == State::open) start_reading();  // the other side's end is awaited
  state_ = State::lingering;
  if (!holds_back()) finish();
}

void Stream::finish() {
  if (tls_) tls_->close();
  outbox_.finish();
  // The other side's end of it is awaited: a socket closed with something unread in it would take back what was sent last.
  uv_shutdown(&shutdown_request_, stream(), nullptr);
}

void Stream::give_up() {
  switch (state_) {
    case State::idle:
    case State::connecting: return end(StreamEnd::timed_out, "no answer");
    case State::handshake:
      ++shared_->handshake_timeouts;
      costly_ = true;
      return end(inbound_ ? StreamEnd::unauthenticated : StreamEnd::timed_out, "the handshake took too long");
    case State::open: return end(outbox_.error() ? end_of(outbox_.error()) : StreamEnd::timed_out);
    case State::lingering: return keeper_->on_lingered(*this);
    case State::closed: return;
  }
}

void Stream::on_read(ssize_t count, std::span<std::byte> bytes) {
  if (state_ == State::closed || count == 0) return;
  if (state_ == State::lingering) {
    if (count < 0) keeper_->on_lingered(*this);
    return;
  }
  if (count < 0) {
    if (!drain_other()) return;
    const bool turned_away = state_ == State::handshake && !inbound_;
    const std::string detail = turned_away ? "it closed the connection during the handshake" : "";
    return end(turned_away ? StreamEnd::refused : end_of(static_cast<int>(count)), detail);
  }
  if (!heard_) {
    heard_ = spoke_ = true;
    if (inbound_ && !greeted(bytes)) return;
    if (inbound_ && encrypted_ && !may_be_handshake(bytes)) return end(StreamEnd::unauthenticated, "its first bytes are no TLS");
  }
  if (state_ == State::open) heard();
  if (encrypted_) return receive_tls(bytes);
  received(bytes.size());
}

void Stream::receive_tls(std::span<const std::byte> bytes) {
  costly_ = true;
  if (!tls_) tls_.emplace(*shared_->tls, Tls::Role::server, static_cast<TlsSink&>(*this));
  tls_->feed(bytes);
  while (true) {
    const size_t count = tls_->read(room());
    if (state_ == State::handshake && tls_->state() == Tls::State::open) become_open();
    if (state_ != State::open && state_ != State::handshake) return;
    if (count == 0) break;
    received(count);
    if (state_ != State::open && state_ != State::handshake) return;
  }
  outbox_.flush();  // the handshake's answers, an alert
  if (tls_->state() == Tls::State::closed) {
    if (drain_other()) end(StreamEnd::closed);
    return;
  }
  if (tls_->state() != Tls::State::failed) return;
  if (state_ == State::handshake) return end(StreamEnd::unauthenticated, tls_detail(), true);
  ++shared_->bad_records;
  end(StreamEnd::protocol_error, tls_detail(), true);
}

std::string Stream::tls_detail() const { return "TLS: " + tls_->problem(); }

void Stream::become_open() {
  assert(state_ == State::handshake);
  state_ = State::open;
  if (tls_) outbox_.flush();
  if (paused_) uv_read_stop(stream());
  keeper_->on_ready(*this);
}

void Stream::end(StreamEnd why, std::string detail, bool politely) {
  assert(keeper_ && state_ != State::closed && state_ != State::lingering);
  if (politely) linger();
  else state_ = State::closed;
  keeper_->on_end(*this, why, std::move(detail));
}

}  // namespace perigee
