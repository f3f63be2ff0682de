#include "cluster/membership/agent_client.h"

#include <algorithm>

#include "cluster/membership/coordinator.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr uint64_t kBeatTimer = 1;
uint64_t beat_ns(double ms) { return static_cast<uint64_t>(ms * 1e6); }

}  // namespace

AgentClient::AgentClient(AgentClientOptions options, Clock& clock, Rng& rng, Transport& transport, AgentClientEvents& events)
    : options_(std::move(options)), clock_(clock), rng_(rng), transport_(transport), events_(events) {
  for (const std::string& address : options_.agents) nodes_.push_back({.address = address, .name = address});
  if (options_.standby.empty()) return;
  const auto same = [&](const Node& node) { return node.address == options_.standby; };
  auto host = std::find_if(nodes_.begin(), nodes_.end(), same);
  if (host == nodes_.end()) host = nodes_.insert(host, {.address = options_.standby, .name = options_.standby, .works = false});
  host->stands_by = true;
}

template <class M>
void AgentClient::send(const Node& node, const M& message) {
  transport_.send(node.peer, encode(message, FrameHeader{.type = M::kType, .job = options_.job_id}));
}

AgentClient::Node* AgentClient::node_of(PeerId peer) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [peer](const Node& node) { return node.peer == peer; });
  return peer != 0 && found != nodes_.end() ? &*found : nullptr;
}

void AgentClient::start() {
  begun_ns_ = clock_.now_ns();
  for (Node& node : nodes_) connect(node);
  transport_.start_timer(kBeatTimer, clock_.now_ns() + beat_ns(options_.beat_ms / 4));
}

void AgentClient::stop(bool finished) {
  if (stopped_) return;
  stopped_ = true;
  transport_.stop_timer(kBeatTimer);
  for (const Node& node : nodes_)
    if (node.connected) send(node, Stop{.why = finished ? "finished" : "stopped", .finished = finished});
}

void AgentClient::abandon() {
  if (stopped_) return;
  stopped_ = true;
  transport_.stop_timer(kBeatTimer);
  for (const Node& node : nodes_)
    if (node.peer != 0) transport_.close(node.peer);
}

void AgentClient::connect(Node& node) {
  node.retry_ns = 0;
  node.peer = transport_.connect(node.address, clock_.now_ns() + beat_ns(options_.connect_ms));
  if (node.peer == 0) lose(node, "it cannot be reached", false);
}

void AgentClient::on_connected(PeerId peer, const std::string&) {
  Node* node = node_of(peer);
  if (!node) return transport_.close(peer);
  node->connected = true;
  node->answered = false;
  node->heard_ns = clock_.now_ns();
  node->backoff_ms = 0;
  Start start = options_.start;
  start.works = node->works;
  start.stands_by = node->stands_by;
  send(*node, start);
}

void AgentClient::fail(const Node& node, ErrorKind kind, const std::string& what, const std::string& hint) {
  stopped_ = true;
  transport_.stop_timer(kBeatTimer);
  events_.on_agents_failed(Error(kind, {.where = "agent " + node.address, .what = what, .hint = hint}));
}

void AgentClient::lose(Node& node, const std::string& why, bool final) {
  node.peer = 0;
  node.connected = false;
  if (stopped_) return;
  if (final) return fail(node, ErrorKind::authentication, why, "start the agent and the launcher with the same --secret file");
  if (!node.started && clock_.now_ns() - begun_ns_ >= beat_ns(options_.give_up_ms))
    return fail(node, ErrorKind::cluster, why, "is `perigee agent --listen " + node.address + "` running there?");
  if (!node.lost_told) {
    node.lost_told = true;
    events_.on_agent_event(Json(
        Json::Object{{"event", "agent_lost"},
                     {"agent", node.address},
                     {"cause", why},
                     {"done", node.started ? "those of its workers that are still there go on; it is tried again" : "it is tried again"}}));
  }
  node.backoff_ms = node.backoff_ms == 0 ? options_.retry_ms : std::min(2 * node.backoff_ms, options_.retry_max_ms);
  const double jitter = 0.75 + 0.5 * static_cast<double>(rng_.next() >> 11) * 0x1p-53;
  node.retry_ns = clock_.now_ns() + beat_ns(node.backoff_ms * jitter);
}

void AgentClient::on_lost(PeerId peer, PeerLoss why) {
  Node* node = node_of(peer);
  if (node) lose(*node, to_string(why), why == PeerLoss::unauthenticated && !node->started);
}

void AgentClient::on_timer(uint64_t) {
  const uint64_t now = clock_.now_ns();
  for (Node& node : nodes_) {
    if (stopped_) return;
    if (node.connected && now - node.heard_ns > beat_ns(options_.silent_ms)) {
      transport_.close(node.peer);
      lose(node, "it has said nothing for " + std::to_string(static_cast<int>(options_.silent_ms / 1000)) + " s", false);
    } else if (node.connected) {
      send(node, Beat{.sent_ns = now});
    } else if (node.retry_ns != 0 && now >= node.retry_ns) {
      connect(node);
    }
  }
  if (!stopped_) check_left(now);
  if (!stopped_) transport_.start_timer(kBeatTimer, now + beat_ns(options_.beat_ms / 4));
}

// An agent that ends tells the ends of its workers first, and is gone a moment later; it may be started again.
void AgentClient::check_left(uint64_t now) {
  bool away = false, any = false;
  for (const Node& node : nodes_) {
    if (!node.works) continue;
    any = true;
    if (!node.started || (node.connected && (!node.answered || node.workers > 0))) return static_cast<void>(none_since_ns_ = 0);
    away |= !node.connected;
  }
  if (!any) return;
  if (none_since_ns_ == 0) none_since_ns_ = now;
  if (now - none_since_ns_ >= beat_ns(away ? options_.away_ms : options_.beat_ms / 2)) events_.on_none_left(last_end_);
}

void AgentClient::trained(const std::string& worker) {
  for (const Node& node : nodes_)
    if (node.connected && is_of(node, worker)) send(node, Started{.name = worker});
}

// An agent speaks of its own processes: "host/1". Those of the server's agent, "host/server/0", are not of the agent "host".
bool AgentClient::is_of(const Node& node, const std::string& process) {
  const std::string own = node.name + "/";
  return process.starts_with(own) && process.find('/', own.size()) == std::string::npos;
}

uint32_t AgentClient::workers() const {
  uint32_t count = 0;
  for (const Node& node : nodes_) count += node.workers;
  return count;
}

void AgentClient::on_frame(PeerId peer, std::span<const std::byte> frame) {
  Node* node = node_of(peer);
  FrameHeader header;
  if (!node || stopped_ || !read_header(frame, &header)) return;
  node->heard_ns = clock_.now_ns();
  const std::span<const std::byte> payload = frame.subspan(kHeaderBytes);
  if (Refuse refuse; header.type == MessageType::refuse && decode(payload, &refuse))
    return fail(*node, ErrorKind::cluster, refuse.what + " (" + refuse.got + ", expected " + refuse.expected + ")", refuse.hint);
  if (Started started; header.type == MessageType::started && decode(payload, &started)) {
    if (started.error.starts_with(kSuperseded)) {
      abandon();
      return events_.on_agents_failed(Error(ErrorKind::cluster, {.what = kSuperseded, .hint = started.error}));
    }
    if (!started.error.empty() && node->started) {  // it is ending, or still ends what it had
      transport_.close(node->peer);
      return lose(*node, started.error, false);
    }
    if (!started.error.empty()) return fail(*node, ErrorKind::cluster, started.error);
    node->name = started.name;
    if (!planted(Bug::agents_counted_once) || !node->started) node->workers = node->works ? started.workers : 0;
    node->answered = true;
    if (node->lost_told && node->started) events_.on_agent_event(Json(Json::Object{{"event", "agent_back"}, {"agent", node->address}}));
    node->lost_told = false;
    if (!std::exchange(node->started, true) && node->works) events_.on_workers_started(node->address, started.workers);
    return;
  }
  if (Exited exited; header.type == MessageType::exited && decode(payload, &exited)) {
    if (!is_of(*node, exited.name)) return;
    const ProcessEnd end{.worker = exited.name,
                         .agent = node->name,
                         .pid = exited.pid,
                         .code = exited.code,
                         .signal = exited.signal,
                         .restarted = exited.respawned,
                         .standby = exited.standby,
                         .tail = exited.tail,
                         .next = exited.next};
    if (!end.standby && !end.restarted) last_end_ = end, node->workers -= std::min(node->workers, 1u);
    events_.on_process_end(end);
  }
}

}  // namespace perigee
