#include "cluster/data/partition_exchange.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/planted.h"
#include "cluster/protocol/message.h"

namespace perigee {
namespace {

constexpr uint64_t kPartitionTick = 1;
constexpr uint64_t kPartitionConnectNs = 5'000'000'000;
constexpr size_t kLeastWindow = size_t{512} << 10;

uint64_t in_ns(double ms) { return static_cast<uint64_t>(ms * 1e6); }

}  // namespace

struct PartitionExchange::Away {
  Away(size_t number, std::string its_name, std::function<void()> wake, const ExampleClientOptions& options)
      : leaf(number), name(std::move(its_name)), client(std::move(wake), options) {}

  const size_t leaf;
  const std::string name;
  ExampleClient client;
  std::atomic<bool> woken{false};
  std::string address;    // of the connection
  PeerId peer = 0;        // 0: none
  bool up = false;        // it is made
  uint64_t heard_ns = 0;  // or connected, or asked when nothing was due
  uint64_t again_ns = 0;  // no new attempt before
  Read read;
};

PartitionExchange::PartitionExchange(Held held, Clock& clock, Transport& transport, std::function<void(std::function<void()>)> post,
                                     PartitionExchangeOptions options)
    : held_(std::move(held)), clock_(clock), transport_(transport), post_(std::move(post)), options_(options) {}

PartitionExchange::~PartitionExchange() {
  *alive_ = false;
  stop();
  transport_.stop_timer(kPartitionTick);
}

void PartitionExchange::on_welcome(const Welcome& welcome, uint64_t job) {
  if (job_ != 0 || welcome.sources.empty()) return;
  const Manifest manifest = read_manifest(welcome.sources);
  const auto others = static_cast<size_t>(std::ranges::count_if(
      manifest.sources, [&](const Manifest::Source& s) { return !s.partition.empty() && !held_.contains(s.partition); }));
  ExampleClientOptions client;
  client.window_bytes = std::max(kLeastWindow, options_.window_bytes / std::max<size_t>(1, others));
  client.block_bytes = std::min(client.block_bytes, client.window_bytes / 2);
  client.deadline_ms = options_.deadline_ms;
  client.lost_is_silent = true;
  client.where = "data.at = \"partitions\"";
  client.sender = "data of another worker";
  client.silence = "no worker sends the examples of a partition";
  client.hint = "`perigee status` names the partitions that no worker holds; start a worker with each of them";
  std::vector<ServedSource> sources(manifest.sources.size());
  bool any = false;
  for (size_t leaf = 0; leaf < manifest.sources.size(); ++leaf) {
    const std::string& name = manifest.sources[leaf].partition;
    const auto own = name.empty() ? held_.end() : held_.find(name);
    serves_.push_back(own != held_.end());
    if (own != held_.end())
      sources[leaf] = {own->second, RecordLayout(own->second->fields()), own->second->traits().touches, name}, any = true;
    else if (!name.empty())
      away_[leaf] = std::make_unique<Away>(
          leaf, name, [this, leaf] { wake(leaf); }, client);
  }
  job_ = job;
  if (any)
    server_ = std::make_unique<ExampleServer>(
        std::move(sources), transport_,
        [this, alive = alive_] {
          post_([this, alive] {
            if (*alive && server_) server_->deliver();
          });
        },
        ExampleServerOptions{.threads = options_.threads});
  if (!away_.empty()) tick();
}

SourcePtr PartitionExchange::held(const std::string& partition) const {
  const auto found = held_.find(partition);
  return found == held_.end() ? nullptr : found->second;
}

ExampleClient& PartitionExchange::client_of(size_t leaf) {
  assert(away_.contains(leaf));
  return away_.at(leaf)->client;
}

bool PartitionExchange::starved() const {
  return std::ranges::any_of(away_, [](const auto& each) { return each.second->client.starved(); });
}

void PartitionExchange::stop() {
  if (stopped_.exchange(true)) return;
  for (auto& [leaf, away] : away_) away->client.stop();
}

// ---- the others' partitions ----

void PartitionExchange::on_holders(const Holders& holders) {
  for (const PartitionPlace& place : holders.places)
    if (places_.size() < kMaxPartitions || places_.contains(place.name)) places_[place.name] = place.address;
  for (auto& [leaf, away] : away_) {
    const auto place = places_.find(away->name);
    if (place == places_.end() || place->second == away->address) continue;
    drop(*away);
    away->again_ns = 0;
    connect(*away);
  }
}

void PartitionExchange::connect(Away& away) {
  const auto place = places_.find(away.name);
  if (place == places_.end() || away.peer != 0 || stopped_) return;
  away.address = place->second;
  away.peer = transport_.connect(away.address, clock_.now_ns() + kPartitionConnectNs);
  away.heard_ns = clock_.now_ns();
}

// The next connection asks again for all that had not come.
void PartitionExchange::drop(Away& away) {
  if (away.peer == 0) return;
  transport_.close(std::exchange(away.peer, 0));
  if (std::exchange(away.up, false)) away.client.on_coordinator_lost();
  away.again_ns = clock_.now_ns() + in_ns(options_.retry_ms);
}

void PartitionExchange::ask(Away& away) {
  if (!away.up) return;
  if (!away.client.asks()) away.heard_ns = clock_.now_ns();
  while (away.client.next(&away.read)) {
    if (transport_.send(away.peer, encode(away.read, FrameHeader{.job = job_}))) continue;
    away.client.not_sent(away.read);  // on_writable(), or the next connection, makes us ask again
    return;
  }
}

// From threads that read examples, too.
void PartitionExchange::wake(size_t leaf) {
  const auto found = away_.find(leaf);
  if (found == away_.end() || found->second->woken.exchange(true)) return;
  post_([this, alive = alive_, away = found->second.get()] {
    if (!*alive) return;
    away->woken = false;
    ask(*away);
  });
}

void PartitionExchange::tick() {
  const uint64_t now = clock_.now_ns();
  for (auto& [leaf, away] : away_) {
    const bool silent = now - away->heard_ns > in_ns(options_.silent_ms) && !planted(Bug::silent_holder_kept);
    if (away->up && away->client.asks() && silent) drop(*away);
    if (away->peer == 0 && now >= away->again_ns) connect(*away);
  }
  transport_.start_timer(kPartitionTick, now + in_ns(options_.retry_ms));
}

PartitionExchange::Away* PartitionExchange::by_peer(PeerId peer) {
  for (auto& [leaf, away] : away_)
    if (away->peer == peer) return away.get();
  return nullptr;
}

// ---- connections, of both kinds ----

void PartitionExchange::on_connected(PeerId peer, const std::string&) {
  Away* away = by_peer(peer);
  if (!away) return;  // a reader of what is held here
  away->up = true;
  away->heard_ns = clock_.now_ns();
  away->client.on_joined();
}

void PartitionExchange::on_frame(PeerId peer, std::span<const std::byte> frame) {
  FrameHeader header;
  const bool sound = read_header(frame, &header) && header.protocol == kProtocol && frame.size() == kHeaderBytes + header.length;
  Away* away = by_peer(peer);
  if (!away) return sound ? serve(peer, header, frame.subspan(kHeaderBytes)) : transport_.close(peer);
  away->heard_ns = clock_.now_ns();
  Examples examples;
  std::span<const std::byte> body;
  const bool taken = sound && header.type == MessageType::examples && header.job == job_ &&
                     decode(frame.subspan(kHeaderBytes), &examples, &body) && away->client.on_examples(examples, body);
  if (!taken) drop(*away);
}

void PartitionExchange::serve(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload) {
  Read read;
  const bool fits = server_ && header.type == MessageType::read && header.job == job_ && decode(payload, &read) &&
                    read.source < serves_.size() && serves_[read.source];
  if (fits && server_->on_read(peer, header, std::move(read))) return;
  if (server_) server_->on_lost(peer);
  transport_.close(peer);
}

void PartitionExchange::on_lost(PeerId peer, PeerLoss) {
  if (Away* away = by_peer(peer)) {
    away->peer = 0;
    if (std::exchange(away->up, false)) away->client.on_coordinator_lost();
    away->again_ns = clock_.now_ns() + in_ns(options_.retry_ms);
  } else if (server_) {
    server_->on_lost(peer);
  }
}

void PartitionExchange::on_timer(uint64_t timer) {
  assert(timer == kPartitionTick);
  static_cast<void>(timer);
  if (!stopped_) tick();
}

void PartitionExchange::on_bytes(PeerId peer) {
  if (Away* away = by_peer(peer)) away->heard_ns = clock_.now_ns();
}

void PartitionExchange::on_writable(PeerId peer) {
  if (Away* away = by_peer(peer)) ask(*away);
  else if (server_) server_->on_writable(peer);
}

}  // namespace perigee
