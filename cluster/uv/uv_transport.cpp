#include "cluster/uv/uv_transport.h"

#include <sys/socket.h>
#include <uv.h>

#include <algorithm>
#include <cassert>
#include <set>
#include <unordered_map>
#include <utility>

#include "cluster/protocol/message.h"
#include "cluster/uv/address.h"
#include "cluster/uv/admission.h"
#include "cluster/uv/connection.h"
#include "cluster/uv/deadlines.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr int kBacklog = 511;
constexpr size_t kReceiveBytes = size_t{128} << 10;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLingerNs = 1000 * kMs;
constexpr uint64_t kFailedSendNs = 500 * kMs;  // what came before the other side went may still be read

struct Listener {
  uv_tcp_t handle;
  UvTransport::Impl* owner = nullptr;
};

struct Tick {
  uv_timer_t handle;
  UvTransport::Impl* owner = nullptr;
};

template <class T>
void close_owned(std::unique_ptr<T> owned) {
  owned->owner = nullptr;
  auto* handle = reinterpret_cast<uv_handle_t*>(&owned->handle);
  handle->data = owned.release();
  uv_close(handle, [](uv_handle_t* closed) { std::unique_ptr<T>(static_cast<T*>(closed->data)); });
}

// A name that is being looked up; the transport may be gone when the answer comes.
struct Lookup {
  uv_getaddrinfo_t request;
  std::weak_ptr<UvTransport::Impl> owner;
  PeerId peer = 0;
};

}  // namespace

struct UvTransport::Impl final : ConnectionKeeper, std::enable_shared_from_this<UvTransport::Impl> {
  Impl(UvLoop& loop, UvTransportOptions given)
      : loop(loop),
        options(std::move(given)),
        shared(std::make_shared<ConnectionShared>()),
        admission(options.failures_per_address, options.forgiven_per_s) {
    shared->loop = &loop;
    shared->queue_bytes = options.queue_bytes;
    shared->share_memory = options.share_memory;
    shared->received.resize(kReceiveBytes);
    assert(!options.key.empty() || options.accepted_keys.empty());
    if (!options.key.empty()) shared->tls = std::make_unique<TlsContext>(options.key, options.accepted_keys, options.rekey_bytes);
    tick = std::make_unique<Tick>();
    tick->owner = this;
    uv_timer_init(loop.handle(), &tick->handle);
    tick->handle.data = tick.get();
  }

  UvLoop& loop;
  const UvTransportOptions options;
  std::shared_ptr<ConnectionShared> shared;
  Admission admission;
  TransportEvents* events = nullptr;
  std::unordered_map<PeerId, std::unique_ptr<Connection>> connections;
  std::set<PeerId> strangers;  // incoming and not authenticated, oldest first
  std::vector<std::unique_ptr<Listener>> listeners;
  std::unique_ptr<Tick> tick;
  Deadlines timers;  // of the user
  Deadlines limits;  // of connections
  std::vector<PeerId> to_start, starting;
  PeerId last_id = 0;
  uint64_t armed_for = Deadlines::kNever;
  bool ticking = false;
  std::string loss_detail;

  // ---- time ----

  struct Rearm {
    Impl& impl;
    // At least a millisecond: libuv would call again at once what is due, and sockets would never get their turn.
    ~Rearm() {
      impl.ticking = false;
      impl.arm(1);
    }
  };

  void arm(uint64_t least_ms = 0) {
    if (ticking) return;  // it ends with this
    const uint64_t soonest = to_start.empty() ? std::min(timers.soonest(), limits.soonest()) : 0;
    if (soonest == armed_for) return;
    armed_for = soonest;
    if (soonest == Deadlines::kNever) {
      uv_timer_stop(&tick->handle);
      return;
    }
    const uint64_t now = loop.now_ns();
    uv_update_time(loop.handle());
    const auto fired = [](uv_timer_t* timer) {
      Impl* owner = static_cast<Tick*>(timer->data)->owner;
      owner->loop.guard([&] { owner->on_tick(); });
    };
    const uint64_t wait_ms = soonest > now ? (soonest - now + kMs - 1) / kMs : 0;
    uv_timer_start(&tick->handle, fired, std::max(wait_ms, least_ms), 0);
  }

  void on_tick() {
    ticking = true;
    armed_for = Deadlines::kNever;
    const Rearm at_the_end{*this};
    std::swap(starting, to_start);
    for (const PeerId id : starting) start_one(id);
    starting.clear();
    const uint64_t now = loop.now_ns();
    uint64_t id = 0;
    for (size_t left = limits.size(); left > 0 && limits.take_due(now, &id); --left)
      if (Connection* connection = find(id)) connection->give_up();
    // As many as there were: a timer that is started anew with a deadline that has passed waits for the next turn.
    for (size_t left = timers.size(); left > 0 && timers.take_due(now, &id); --left) events->on_timer(id);
  }

  // ---- connections ----

  Connection* find(PeerId id) const {
    const auto found = connections.find(id);
    return found == connections.end() ? nullptr : found->second.get();
  }

  Connection& add(std::string address) {
    const PeerId id = ++last_id;
    return *(connections[id] = std::make_unique<Connection>(shared, this, id, std::move(address)));
  }

  void remove(PeerId id) {
    limits.erase(id);
    strangers.erase(id);
    const auto found = connections.find(id);
    if (found == connections.end()) return;
    Connection::dispose(std::move(found->second));
    connections.erase(found);
  }

  void start_one(PeerId id) {
    Connection* connection = find(id);
    if (!connection) return;  // closed meanwhile
    if (connection->state() == Connection::State::open) return on_ready(*connection);
    if (connection->state() != Connection::State::idle) return;
    HostPort target;
    try {
      target = parse_host_port(connection->address());
    } catch (const Error& error) {
      return on_end(*connection, PeerLoss::refused, error.what());
    }
    sockaddr_storage address;
    if (target.host.empty()) target.host = "localhost";
    if (numeric_address(target, &address)) return connection->connect({address});
    look_up(*connection, target);
  }

  void look_up(Connection& connection, const HostPort& target) {
    auto lookup = std::make_unique<Lookup>();
    lookup->owner = weak_from_this();
    lookup->peer = connection.id();
    lookup->request.data = lookup.get();
    const addrinfo hints{.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM};
    const auto answered = [](uv_getaddrinfo_t* request, int status, addrinfo* list) {
      const std::unique_ptr<Lookup> lookup(static_cast<Lookup*>(request->data));
      const std::unique_ptr<addrinfo, decltype(&uv_freeaddrinfo)> owner(list, uv_freeaddrinfo);
      const auto impl = lookup->owner.lock();
      if (impl) impl->loop.guard([&] { impl->on_looked_up(lookup->peer, status, list); });
    };
    const int status =
        uv_getaddrinfo(loop.handle(), &lookup->request, answered, target.host.c_str(), std::to_string(target.port).c_str(), &hints);
    if (status != 0) return on_end(connection, PeerLoss::refused, uv_strerror(status));
    [[maybe_unused]] const Lookup* owned_by_libuv = lookup.release();
  }

  void on_looked_up(PeerId id, int status, const addrinfo* list) {
    Connection* connection = find(id);
    if (!connection || connection->state() != Connection::State::idle) return;
    std::vector<sockaddr_storage> candidates;
    for (const addrinfo* entry = list; status == 0 && entry && candidates.size() < 8; entry = entry->ai_next) {
      sockaddr_storage one{};
      std::copy_n(reinterpret_cast<const char*>(entry->ai_addr), entry->ai_addrlen, reinterpret_cast<char*>(&one));
      candidates.push_back(one);
    }
    if (candidates.empty()) return on_end(*connection, PeerLoss::refused, "no machine of this name is known");
    connection->connect(std::move(candidates));
  }

  void on_incoming(uv_stream_t* server, int status) {
    assert(events);
    if (status != 0) {  // not for want of descriptors: then libuv turns away all that wait, and does not spin
      ++shared->counters.accept_errors;
      return;
    }
    if (strangers.size() >= options.max_pending) {
      ++shared->counters.pending_dropped;
      remove(*strangers.begin());
    }
    Connection& connection = add("");
    const uint64_t now = loop.now_ns();
    const int accepted = connection.accept(server);
    if (accepted != 0) ++shared->counters.accept_errors;
    const bool welcome = accepted == 0 && !admission.shut_out(connection.remote(), now);
    if (accepted == 0 && !welcome) ++shared->counters.shut_out;
    if (!welcome) return remove(connection.id());
    ++shared->counters.accepted;
    strangers.insert(connection.id());
    limits.set(connection.id(), now + options.handshake_ms * kMs);
    arm();
  }

  // ---- what connections tell ----

  void on_ready(Connection& connection) override {
    limits.erase(connection.id());
    if (strangers.erase(connection.id())) admission.succeeded(connection.remote());
    ++shared->counters.connected;
    events->on_connected(connection.id(), connection.address());
  }

  void on_frame(Connection& connection, std::span<const std::byte> frame) override { events->on_frame(connection.id(), frame); }
  Placement place(Connection& connection, std::span<const std::byte> head) override { return events->place(connection.id(), head); }
  void on_placed(Connection& connection, std::span<const std::byte> head, std::span<const std::byte> body) override {
    events->on_placed(connection.id(), head, body);
  }
  void on_bytes(Connection& connection) override { events->on_bytes(connection.id()); }
  void on_writable(Connection& connection) override { events->on_writable(connection.id()); }
  void on_send_failed(Connection& connection) override {
    if (limits.contains(connection.id())) return;
    limits.set(connection.id(), loop.now_ns() + kFailedSendNs);
    arm();
  }
  void on_lingered(Connection& connection) override { remove(connection.id()); }

  void on_end(Connection& connection, PeerLoss why, std::string detail) override {
    const PeerId id = connection.id();
    const bool stranger = strangers.erase(id) > 0;
    if (why == PeerLoss::unauthenticated) {
      ++shared->counters.unauthenticated;
      if (connection.inbound()) admission.failed(connection.remote(), loop.now_ns());
    }
    if (connection.state() == Connection::State::lingering) limits.set(id, loop.now_ns() + kLingerNs), arm();
    else remove(id);
    if (stranger) return;  // nobody was told of it
    ++shared->counters.lost;
    loss_detail = std::move(detail);
    events->on_lost(id, why);
    loss_detail.clear();
  }
};

UvTransport::UvTransport(UvLoop& loop, UvTransportOptions options) : impl_(std::make_shared<Impl>(loop, std::move(options))) {}

UvTransport::~UvTransport() {
  for (auto& [id, connection] : impl_->connections) Connection::dispose(std::move(connection));
  impl_->connections.clear();
  for (auto& listener : impl_->listeners) close_owned(std::move(listener));
  close_owned(std::move(impl_->tick));
}

void UvTransport::set_events(TransportEvents* events) { impl_->events = events; }

std::string UvTransport::listen(const std::string& address) {
  const HostPort wanted = parse_host_port(address, "--listen");
  sockaddr_storage at{};
  if (!numeric_address(wanted.host.empty() ? HostPort{"::", wanted.port} : wanted, &at)) at = resolve(wanted).front();
  const auto* target = reinterpret_cast<const sockaddr*>(&at);
  if (!impl_->shared->tls && !is_loopback(target))
    throw Error(ErrorKind::usage, {.where = "--listen " + address,
                                   .what = "without a secret anybody who reaches this address could join and read what is trained",
                                   .expected = "--secret FILE, or a loopback address such as 127.0.0.1:" + std::to_string(wanted.port),
                                   .hint = "perigee secret new > cluster.key, and give it on every machine"});
  auto listener = std::make_unique<Listener>();
  listener->owner = impl_.get();
  uv_tcp_init(impl_->loop.handle(), &listener->handle);
  listener->handle.data = listener.get();
  const auto incoming = [](uv_stream_t* server, int status) {
    UvTransport::Impl* owner = static_cast<Listener*>(server->data)->owner;
    owner->loop.guard([&] { owner->on_incoming(server, status); });
  };
  int status = uv_tcp_bind(&listener->handle, target, 0);
  if (status == UV_EAFNOSUPPORT && wanted.host.empty() && numeric_address({"0.0.0.0", wanted.port}, &at))
    status = uv_tcp_bind(&listener->handle, target, 0);  // a machine without IPv6
  if (status == 0) status = uv_listen(reinterpret_cast<uv_stream_t*>(&listener->handle), kBacklog, incoming);
  int size = sizeof at;
  if (status == 0) status = uv_tcp_getsockname(&listener->handle, reinterpret_cast<sockaddr*>(&at), &size);
  if (status != 0) {
    close_owned(std::move(listener));
    const char* hint = status == UV_EADDRINUSE      ? "another program has this port: choose another, or port 0 for a free one"
                       : status == UV_EADDRNOTAVAIL ? "no interface of this machine has this address"
                                                    : "";
    throw Error(ErrorKind::resources,
                {.where = "--listen " + address, .what = "cannot listen here", .got = uv_strerror(status), .hint = hint});
  }
  impl_->listeners.push_back(std::move(listener));
  return to_host_port(target).text();
}

PeerId UvTransport::adopt(int descriptor) {
  Connection& connection = impl_->add("inherited descriptor " + std::to_string(descriptor));
  const PeerId id = connection.id();
  if (const int status = connection.adopt(descriptor); status != 0) {
    impl_->remove(id);
    throw Error(ErrorKind::resources,
                {.what = "the inherited descriptor " + std::to_string(descriptor) + " is no connected socket", .got = uv_strerror(status)});
  }
  impl_->to_start.push_back(id);
  impl_->arm();
  return id;
}

PeerId UvTransport::connect(const std::string& address, uint64_t deadline_ns) {
  assert(impl_->events);
  const PeerId id = impl_->add(address).id();
  impl_->to_start.push_back(id);
  impl_->limits.set(id, deadline_ns);
  impl_->arm();
  return id;
}

bool UvTransport::send(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) {
  Connection* connection = impl_->find(peer);
  if (!connection) return false;
  const bool sent = connection->send(head, body);
  if (connection->send_failed() && connection->state() == Connection::State::open) impl_->on_send_failed(*connection);
  return sent;
}

void UvTransport::close(PeerId peer) {
  Connection* connection = impl_->find(peer);
  if (!connection || connection->state() == Connection::State::lingering) return;
  if (connection->state() != Connection::State::open) return impl_->remove(peer);
  connection->linger();
  impl_->limits.set(peer, impl_->loop.now_ns() + kLingerNs);
  impl_->arm();
}

void UvTransport::start_timer(uint64_t timer, uint64_t deadline_ns) {
  impl_->timers.set(timer, deadline_ns);
  impl_->arm();
}

void UvTransport::stop_timer(uint64_t timer) { impl_->timers.erase(timer); }

size_t UvTransport::queued_bytes(PeerId peer) const {
  const Connection* connection = impl_->find(peer);
  return connection ? connection->queued() : 0;
}

size_t UvTransport::peers() const {
  const auto open = [](const auto& entry) { return entry.second->state() == Connection::State::open; };
  return static_cast<size_t>(std::count_if(impl_->connections.begin(), impl_->connections.end(), open));
}

const std::string& UvTransport::loss_detail() const { return impl_->loss_detail; }

Json UvTransport::counters() const {
  const TransportCounters& c = impl_->shared->counters;
  Json json = Json::object();
  const auto put = [&json](const char* name, uint64_t value) { json.set(name, static_cast<int64_t>(value)); };
  put("peers", peers()), put("pending", impl_->strangers.size());
  put("accepted", c.accepted), put("connected", c.connected), put("lost", c.lost);
  put("frames_in", c.frames_in), put("frames_out", c.frames_out), put("bytes_in", c.bytes_in), put("bytes_out", c.bytes_out);
  put("queue_full", c.queue_full), put("key_updates", c.key_updates);
  put("unauthenticated", c.unauthenticated), put("handshake_timeouts", c.handshake_timeouts), put("pending_dropped", c.pending_dropped);
  put("shut_out", c.shut_out), put("accept_errors", c.accept_errors);
  put("bad_frames", c.bad_frames), put("bad_records", c.bad_records), put("other_protocol", c.other_protocol),
      put("shared_memory", c.shared_memory);
  return json;
}

}  // namespace perigee
