#include "cluster/uv/uv_transport.h"

#include <cassert>
#include <cstdlib>
#include <utility>

#include "cluster/protocol/message.h"
#include "cluster/uv/connection.h"
#include "src/core/error.h"
#include "src/net/address.h"

namespace perigee {
namespace {

PeerLoss loss_of(StreamEnd why) {
  switch (why) {
    case StreamEnd::closed: return PeerLoss::closed;
    case StreamEnd::reset: return PeerLoss::reset;
    case StreamEnd::timed_out: return PeerLoss::timed_out;
    case StreamEnd::refused: return PeerLoss::refused;
    case StreamEnd::protocol_error: return PeerLoss::protocol_error;
    case StreamEnd::unauthenticated: return PeerLoss::unauthenticated;
  }
  std::abort();
}

}  // namespace

struct UvTransport::Impl final : StreamUser, FrameUser {
  Impl(UvLoop& loop, const UvTransportOptions& options)
      : shared(std::make_shared<ConnectionShared>(loop)), streams(loop, options.limits, *this) {
    shared->queue_bytes = options.queue_bytes;
    shared->share_memory = options.share_memory;
    assert(!options.key.empty() || options.accepted_keys.empty());
    if (!options.key.empty())
      shared->tls = std::make_unique<TlsContext>(credentials_of(options.key, options.accepted_keys), options.rekey_bytes);
  }

  Connection* find(PeerId peer) const { return static_cast<Connection*>(streams.find(peer)); }  // make_stream() makes all of them

  std::unique_ptr<Stream> make_stream(StreamKeeper* keeper, uint64_t id, std::string address) override {
    return std::make_unique<Connection>(shared, *this, keeper, id, std::move(address));
  }
  void on_ready(Stream& stream) override { events->on_connected(stream.id(), stream.address()); }
  void on_lost(uint64_t id, StreamEnd why, const std::string& detail) override {
    loss_detail = detail;
    events->on_lost(id, loss_of(why));
    loss_detail.clear();
  }
  void on_timer(uint64_t timer) override { events->on_timer(timer); }

  void on_frame(Connection& connection, std::span<const std::byte> frame) override { events->on_frame(connection.id(), frame); }
  Placement place(Connection& connection, std::span<const std::byte> head) override { return events->place(connection.id(), head); }
  void on_placed(Connection& connection, std::span<const std::byte> head, std::span<const std::byte> body) override {
    events->on_placed(connection.id(), head, body);
  }
  void on_bytes(Connection& connection) override { events->on_bytes(connection.id()); }
  void on_writable(Connection& connection) override { events->on_writable(connection.id()); }

  TransportEvents* events = nullptr;
  std::shared_ptr<ConnectionShared> shared;
  std::string loss_detail;
  StreamSet streams;  // last: its end closes everything
};

UvTransport::UvTransport(UvLoop& loop, const UvTransportOptions& options) : impl_(std::make_unique<Impl>(loop, options)) {}
UvTransport::~UvTransport() = default;

void UvTransport::set_events(TransportEvents* events) { impl_->events = events; }

std::string UvTransport::listen(const std::string& address) {
  const HostPort wanted = parse_host_port(address, "--listen");
  const sockaddr_storage at = address_to_listen(wanted);
  if (!impl_->shared->tls && !is_loopback(reinterpret_cast<const sockaddr*>(&at)))
    throw Error(ErrorKind::usage, {.where = "--listen " + address,
                                   .what = "without a secret any process that reaches this address could join and read the model",
                                   .expected = "--secret FILE, or a loopback address such as 127.0.0.1:" + std::to_string(wanted.port),
                                   .hint = "perigee secret new > cluster.key, and give it on every machine"});
  return impl_->streams.listen(address);
}

PeerId UvTransport::adopt(int descriptor) { return impl_->streams.adopt(descriptor); }
PeerId UvTransport::connect(const std::string& address, uint64_t deadline_ns) {
  assert(impl_->events);
  return impl_->streams.connect(address, deadline_ns);
}

bool UvTransport::send(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) {
  Connection* connection = impl_->find(peer);
  if (!connection) return false;
  const bool sent = connection->send(head, body);
  if (connection->send_failed() && connection->state() == Stream::State::open) impl_->streams.on_send_failed(*connection);
  return sent;
}

void UvTransport::close(PeerId peer) { impl_->streams.close(peer); }
void UvTransport::start_timer(uint64_t timer, uint64_t deadline_ns) { impl_->streams.start_timer(timer, deadline_ns); }
void UvTransport::stop_timer(uint64_t timer) { impl_->streams.stop_timer(timer); }

size_t UvTransport::queued_bytes(PeerId peer) const {
  const Connection* connection = impl_->find(peer);
  return connection ? connection->queued() : 0;
}

size_t UvTransport::peers() const { return impl_->streams.ready(); }
const std::string& UvTransport::loss_detail() const { return impl_->loss_detail; }

Json UvTransport::counters() const {
  const FrameCounters& frames = impl_->shared->counters;
  const StreamCounters& streams = impl_->streams.counters();
  Json json = Json::object();
  const auto put = [&json](const char* name, uint64_t value) { json.set(name, static_cast<int64_t>(value)); };
  put("peers", peers()), put("pending", impl_->streams.pending());
  put("accepted", streams.accepted), put("connected", streams.connected), put("lost", streams.lost);
  put("frames_in", frames.frames_in), put("frames_out", frames.frames_out);
  put("bytes_in", frames.bytes_in), put("bytes_out", frames.bytes_out);
  put("queue_full", frames.queue_full), put("key_updates", impl_->shared->key_updates);
  put("unauthenticated", streams.unauthenticated), put("handshake_timeouts", impl_->shared->handshake_timeouts);
  put("pending_dropped", streams.pending_dropped), put("shut_out", streams.shut_out), put("accept_errors", streams.accept_errors);
  put("bad_frames", frames.bad_frames), put("bad_records", impl_->shared->bad_records);
  put("other_protocol", frames.other_protocol), put("shared_memory", frames.shared_memory);
  return json;
}

}  // namespace perigee
