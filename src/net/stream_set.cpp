#include "src/net/stream_set.h"

#include <sys/socket.h>
#include <uv.h>

#include <algorithm>
#include <cassert>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/core/error.h"
#include "src/net/address.h"
#include "src/net/admission.h"
#include "src/net/deadlines.h"
#include "src/net/listener.h"
#include "src/net/timer.h"

namespace perigee {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kFailedSendNs = 500 * kMs;  // what came before the other side went may still be read
constexpr size_t kMaxCandidates = 8;           // addresses of one name

}  // namespace

struct StreamSet::Impl final : StreamKeeper, std::enable_shared_from_this<StreamSet::Impl> {
  Impl(UvLoop& used_loop, StreamLimits given, StreamUser& its_user)
      : loop(used_loop), limits(given), user(its_user), admission(limits.failures_per_address, limits.forgiven_per_s), tick(loop, [this] {
          on_tick();
        }) {}

  UvLoop& loop;
  const StreamLimits limits;
  StreamUser& user;
  Admission admission;
  StreamCounters counters;
  std::unordered_map<uint64_t, std::unique_ptr<Stream>> streams;
  std::set<uint64_t> strangers;  // incoming and not proved, oldest first
  std::set<uint64_t> parting;    // strangers that linger: an answer to them is under way
  std::vector<std::unique_ptr<Listener>> listeners;
  UvTimer tick;
  Deadlines timers;     // of the user
  Deadlines deadlines;  // of streams
  std::vector<uint64_t> to_start, starting;
  uint64_t last_id = 0;
  uint64_t armed_for = Deadlines::kNever;
  bool ticking = false;

  // A name that is being looked up; the set may be gone when the answer comes.
  struct Lookup {
    uv_getaddrinfo_t request;
    std::weak_ptr<Impl> owner;
    uint64_t stream = 0;
  };

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
    const uint64_t soonest = to_start.empty() ? std::min(timers.soonest(), deadlines.soonest()) : 0;
    if (soonest == armed_for) return;
    armed_for = soonest;
    if (soonest == Deadlines::kNever) return tick.stop();
    const uint64_t now = loop.now_ns();
    const uint64_t wait_ms = soonest > now ? (soonest - now + kMs - 1) / kMs : 0;
    tick.start(std::max(wait_ms, least_ms));
  }

  void on_tick() {
    ticking = true;
    armed_for = Deadlines::kNever;
    const Rearm at_the_end{*this};
    std::swap(starting, to_start);
    for (const uint64_t id : starting) start_one(id);
    starting.clear();
    const uint64_t now = loop.now_ns();
    uint64_t id = 0;
    for (size_t left = deadlines.size(); left > 0 && deadlines.take_due(now, &id); --left)
      if (Stream* stream = find(id)) stream->give_up();
    // As many as there were: a timer that is started anew with a deadline that has passed waits for the next turn.
    for (size_t left = timers.size(); left > 0 && timers.take_due(now, &id); --left) user.on_timer(id);
  }

  void set_deadline(uint64_t id, uint64_t deadline_ns) {
    deadlines.set(id, deadline_ns);
    arm();
  }

  // ---- streams ----

  Stream* find(uint64_t id) const {
    const auto found = streams.find(id);
    return found == streams.end() ? nullptr : found->second.get();
  }

  Stream& add(std::string address) {
    const uint64_t id = ++last_id;
    return *(streams[id] = user.make_stream(this, id, std::move(address)));
  }

  void remove(uint64_t id) {
    deadlines.erase(id);
    strangers.erase(id);
    parting.erase(id);
    const auto found = streams.find(id);
    if (found == streams.end()) return;
    Stream::dispose(std::move(found->second));
    streams.erase(found);
  }

  void start_one(uint64_t id) {
    Stream* stream = find(id);
    if (!stream) return;  // closed meanwhile
    if (stream->state() == Stream::State::open) return on_ready(*stream);
    if (stream->state() != Stream::State::idle) return;
    const std::string& address = stream->address();
    const std::string scheme = kUnixScheme;
    if (address.size() > scheme.size() && address.starts_with(scheme)) return stream->connect_unix(address.substr(scheme.size()));
    HostPort target;
    try {
      target = parse_host_port(address);
    } catch (const Error& error) {
      return on_end(*stream, StreamEnd::refused, error.what());
    }
    sockaddr_storage numeric;
    if (target.host.empty()) target.host = "localhost";
    if (numeric_address(target, &numeric)) return stream->connect({numeric});
    look_up(*stream, target);
  }

  void look_up(Stream& stream, const HostPort& target) {
    auto lookup = std::make_unique<Lookup>();
    lookup->owner = weak_from_this();
    lookup->stream = stream.id();
    lookup->request.data = lookup.get();
    const addrinfo hints{.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM};
    const auto answered = [](uv_getaddrinfo_t* request, int status, addrinfo* list) {
      const std::unique_ptr<Lookup> lookup(static_cast<Lookup*>(request->data));
      const std::unique_ptr<addrinfo, decltype(&uv_freeaddrinfo)> owner(list, uv_freeaddrinfo);
      const auto impl = lookup->owner.lock();
      if (impl) impl->loop.guard([&] { impl->on_looked_up(lookup->stream, status, list); });
    };
    const int status =
        uv_getaddrinfo(loop.handle(), &lookup->request, answered, target.host.c_str(), std::to_string(target.port).c_str(), &hints);
    if (status != 0) return on_end(stream, StreamEnd::refused, uv_strerror(status));
    [[maybe_unused]] const Lookup* owned_by_libuv = lookup.release();
  }

  void on_looked_up(uint64_t id, int status, const addrinfo* list) {
    Stream* stream = find(id);
    if (!stream || stream->state() != Stream::State::idle) return;
    std::vector<sockaddr_storage> candidates;
    for (const addrinfo* entry = list; status == 0 && entry && candidates.size() < kMaxCandidates; entry = entry->ai_next) {
      sockaddr_storage one{};
      std::copy_n(reinterpret_cast<const char*>(entry->ai_addr), entry->ai_addrlen, reinterpret_cast<char*>(&one));
      candidates.push_back(one);
    }
    if (candidates.empty()) return on_end(*stream, StreamEnd::refused, "no machine of this name is known");
    stream->connect(std::move(candidates));
  }

  void on_incoming(uv_stream_t* server, int status) {
    if (status != 0) {
      ++counters.accept_errors;
      return;
    }
    Stream& stream = add("");
    const uint64_t now = loop.now_ns();
    const int accepted = stream.accept(server);
    if (accepted != 0) ++(accepted == UV_EPROTO ? counters.unauthenticated : counters.accept_errors);
    const bool welcome = accepted == 0 && !(judged(stream) && admission.shut_out(stream.remote(), now));
    if (accepted == 0 && !welcome) ++counters.shut_out;
    if (!welcome) return remove(stream.id());
    if (strangers.size() >= limits.max_pending) {
      ++counters.pending_dropped;
      remove(next_to_go());
    }
    ++counters.accepted;
    strangers.insert(stream.id());
    set_deadline(stream.id(), now + limits.handshake_ms * kMs);
  }

  // A connection that has begun a handshake may soon authenticate; one of the silent ones may be one of thousands.
  uint64_t next_to_go() const {
    const auto silent = std::find_if(strangers.begin(), strangers.end(), [this](uint64_t id) { return !find(id)->spoke(); });
    return silent == strangers.end() ? *strangers.begin() : *silent;
  }

  // All peers of a Unix socket have one address: none of them answers for another.
  static bool judged(const Stream& stream) { return stream.remote()->sa_family != AF_UNIX; }

  // ---- what streams tell ----

  void on_ready(Stream& stream) override {
    deadlines.erase(stream.id());
    if (strangers.erase(stream.id()) && judged(stream)) admission.succeeded(stream.remote(), loop.now_ns());
    ++counters.connected;
    user.on_ready(stream);
  }

  void on_send_failed(Stream& stream) override {
    if (!deadlines.contains(stream.id())) set_deadline(stream.id(), loop.now_ns() + kFailedSendNs);
  }

  void on_lingered(Stream& stream) override { remove(stream.id()); }

  void on_end(Stream& stream, StreamEnd why, std::string detail) override {
    const uint64_t id = stream.id();
    const bool stranger = strangers.erase(id) > 0;
    if (why == StreamEnd::unauthenticated) {
      ++counters.unauthenticated;
      if (stream.inbound() && judged(stream) && stream.costly()) admission.failed(stream.remote(), loop.now_ns());
    }
    if (stream.state() == Stream::State::lingering) {
      set_deadline(id, loop.now_ns() + kLingerMs * kMs);
      if (stranger && parting.insert(id).second && parting.size() > limits.max_pending) remove(*parting.begin());
    } else {
      remove(id);
    }
    if (stranger) return;  // the user never heard of it
    ++counters.lost;
    user.on_lost(id, why, detail);
  }
};

StreamSet::StreamSet(UvLoop& loop, StreamLimits limits, StreamUser& user) : impl_(std::make_shared<Impl>(loop, limits, user)) {}

StreamSet::~StreamSet() {
  for (auto& [id, stream] : impl_->streams) Stream::dispose(std::move(stream));
  impl_->streams.clear();
}

std::string StreamSet::listen(const std::string& address) {
  auto incoming = [impl = impl_.get()](uv_stream_t* server, int status) { impl->on_incoming(server, status); };
  impl_->listeners.push_back(std::make_unique<Listener>(impl_->loop, address, std::move(incoming)));
  return impl_->listeners.back()->address();
}

uint64_t StreamSet::adopt(int descriptor) {
  Stream& stream = impl_->add("inherited descriptor " + std::to_string(descriptor));
  const uint64_t id = stream.id();
  if (const int status = stream.adopt(descriptor); status != 0) {
    impl_->remove(id);
    throw Error(ErrorKind::resources, {.what = "the inherited descriptor " + std::to_string(descriptor) + " is no connected socket",
                                       .got = uv_strerror(status),
                                       .hint = "an agent gives it; start the worker by itself with an address"});
  }
  impl_->to_start.push_back(id);
  impl_->arm();
  return id;
}

uint64_t StreamSet::connect(const std::string& address, uint64_t deadline_ns) {
  const uint64_t id = impl_->add(address).id();
  impl_->to_start.push_back(id);
  impl_->set_deadline(id, deadline_ns);
  return id;
}

void StreamSet::close(uint64_t id) {
  Stream* stream = impl_->find(id);
  if (!stream || stream->state() == Stream::State::lingering) return;
  if (stream->state() != Stream::State::open) return impl_->remove(id);
  stream->linger();
  impl_->set_deadline(id, impl_->loop.now_ns() + kLingerMs * kMs);
}

void StreamSet::set_deadline(uint64_t id, uint64_t deadline_ns) {
  const Stream* stream = impl_->find(id);
  if (stream && stream->state() == Stream::State::open) impl_->set_deadline(id, deadline_ns);
}

void StreamSet::clear_deadline(uint64_t id) {
  const Stream* stream = impl_->find(id);
  if (stream && stream->state() == Stream::State::open) impl_->deadlines.erase(id);
}

void StreamSet::start_timer(uint64_t timer, uint64_t deadline_ns) {
  impl_->timers.set(timer, deadline_ns);
  impl_->arm();
}

void StreamSet::stop_timer(uint64_t timer) { impl_->timers.erase(timer); }

Stream* StreamSet::find(uint64_t id) const { return impl_->find(id); }
void StreamSet::on_send_failed(Stream& stream) { impl_->on_send_failed(stream); }
size_t StreamSet::pending() const { return impl_->strangers.size(); }
const StreamCounters& StreamSet::counters() const { return impl_->counters; }

size_t StreamSet::ready() const {
  const auto open = [](const auto& entry) { return entry.second->state() == Stream::State::open; };
  return static_cast<size_t>(std::count_if(impl_->streams.begin(), impl_->streams.end(), open));
}

}  // namespace perigee
