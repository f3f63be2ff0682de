#include "cluster/exchange/exchange.h"

#include <algorithm>
#include <cassert>

#include "cluster/exchange/payload_pool.h"
#include "cluster/exchange/topology/chunk_pool.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr size_t kEntryBytes = 64;  // what keeping a chunk costs besides its bytes
constexpr size_t kMaxSpare = 1024;
constexpr size_t kCodedBuckets = 2;  // what is added up, and the payloads

}  // namespace

Exchange::Exchange(ExchangeSender send)
    : send_(std::move(send)), pool_(std::make_shared<ChunkPool>()), payloads_(std::make_shared<PayloadPool>()) {}

void Exchange::reset(size_t members, size_t buckets, const ExchangeLayout& layout, size_t ahead) {
  active_ = false;
  round_ = -1;
  forget_collectives();
  bucket_count_ = layout.coded > 0 ? std::max(buckets, kCodedBuckets) : buckets;
  for (Kept& kept : kept_) forget(kept);
  kept_.resize(ahead + 1);
  // Room for two rounds, or for what all other members send while they wait for this one: each sends at most a few times the exchange
  // (partial sums of its leaves, then the result), or every member's payload.
  const size_t bytes = layout.bytes() + layout.payload_bound;
  kept_limit_ = 2 * members * 8 * (bytes + kEntryBytes * (bucket_count_ + bytes / 1024 + 16));
}

void Exchange::forget_collectives() {
  gather_ = nullptr;
  collectives_.clear();
  started_ = done_ = 0;
}

void Exchange::expect(int64_t round) {
  assert(round >= 0 && !active_);
  round_ = round;
  for (Kept& kept : kept_)
    if (kept.round < round || ahead(kept.round)) forget(kept);
}

void Exchange::prepare(Setup setup) {
  assert(setup.round == round_ && !active_);
  assert(setup.ids.size() == setup.hosts.size() && setup.rank < static_cast<int>(setup.ids.size()));
  setup_ = std::move(setup);
  assert(setup_.gives.empty() || setup_.gives.size() == setup_.ids.size());
  const size_t count = setup_.buckets.size() + (setup_.gives.empty() ? 0 : 1);
  assert(count <= bucket_count_);
  active_ = true;
  ++ticket_;
  forget_collectives();
  collectives_.resize(count);
  bucket_done_.assign(count, false);
  bytes_up_ = bytes_down_ = 0;
  while (senders_.size() < count) senders_.push_back(sender(static_cast<uint32_t>(senders_.size())));
}

ChunkSender Exchange::sender(uint32_t bucket) {
  return [this, bucket](int to, const Chunk& chunk, std::span<const std::byte> body) {
    Chunk full = chunk;
    full.from = setup_.ids[static_cast<size_t>(setup_.rank)];
    full.bucket = bucket;
    if (!send_(setup_.ids[static_cast<size_t>(to)], round_, full, body)) return false;
    bytes_up_ += body.size();
    return true;
  };
}

void Exchange::start(uint32_t bucket) {
  assert(active_ && bucket < collectives_.size() && started_ < collectives_.size());
  ++started_;
  if (setup_.ids.size() == 1) {  // the sum of one is itself
    bucket_done_[bucket] = true;
    ++done_;
    return;
  }
  assert(!collectives_[bucket]);
  collectives_[bucket] = make_collective(bucket);
  collectives_[bucket]->start(senders_[bucket]);

  Kept& kept = kept_of(round_);
  if (kept.round == round_ && bucket < kept.buckets.size()) {
    for (Early& early : kept.buckets[bucket]) {
      // A chunk that does not belong is left out: the exchange then waits for the right one, and its deadline names who has not sent it.
      const int rank = rank_of(early.from);
      if (rank >= 0 && collectives_[bucket]->on_chunk(rank, early.chunk, early.body, senders_[bucket])) bytes_down_ += early.body.size();
      kept_bytes_ -= early.body.size() + kEntryBytes;
      if (spare_.size() < kMaxSpare) spare_.push_back(std::move(early.body));
    }
    kept.buckets[bucket].clear();
  }
  note_done(bucket);
}

// Those of the first numbers have been started.
void Exchange::close() {
  assert(active_ && started_ > 0);
  collectives_.resize(started_);
  bucket_done_.resize(started_);
}

void Exchange::start_all() {
  for (uint32_t bucket = 0; bucket < collectives_.size(); ++bucket) start(bucket);
}

std::unique_ptr<Collective> Exchange::make_collective(uint32_t bucket) {
  if (bucket < setup_.buckets.size()) {
    CollectiveSetup setup{.rank = setup_.rank,
                          .hosts = setup_.hosts,
                          .layout = setup_.layout,
                          .bucket = setup_.buckets[bucket],
                          .rows = setup_.rows,
                          .partials = setup_.partials,
                          .takes_part = setup_.takes_part,
                          .pool = pool_};
    const TopologyDef& topology = find_topology(setup_.topology, setup);
    return topology.make(std::move(setup));
  }
  GatherSetup setup{.rank = setup_.rank,
                    .hosts = setup_.hosts,
                    .gives = setup_.gives,
                    .payload = setup_.payload,
                    .bound = setup_.layout.payload_bound,
                    .payloads = payloads_};
  const TopologyDef& topology = find_gather_topology(setup_.topology, setup);
  std::unique_ptr<Gather> gather = topology.gather(std::move(setup));
  gather_ = gather.get();
  return gather;
}

void Exchange::note_done(size_t bucket) {
  if (bucket_done_[bucket] || !collectives_[bucket]->done()) return;
  bucket_done_[bucket] = true;
  ++done_;
}

int Exchange::rank_of(WorkerId id) const {
  const auto it = std::find(setup_.ids.begin(), setup_.ids.end(), id);
  return it == setup_.ids.end() ? -1 : static_cast<int>(it - setup_.ids.begin());
}

Exchange::Verdict Exchange::on_chunk(WorkerId from, int64_t round, const Chunk& chunk, std::span<const std::byte> body) {
  if (chunk.from != from || chunk.bucket >= bucket_count_ || round < 0) return Verdict::refused;
  if (round_ < 0) return keep(from, round, chunk, body);
  if (round < round_) return Verdict::stale;
  if (ahead(round)) return Verdict::refused;
  if (round > round_ || !active_) return keep(from, round, chunk, body);
  if (chunk.bucket >= collectives_.size()) return Verdict::refused;
  if (!collectives_[chunk.bucket] && !bucket_done_[chunk.bucket]) return keep(from, round, chunk, body);
  const int rank = rank_of(from);
  if (rank < 0 || !collectives_[chunk.bucket]) return Verdict::refused;
  if (!collectives_[chunk.bucket]->on_chunk(rank, chunk, body, senders_[chunk.bucket])) return Verdict::refused;
  bytes_down_ += body.size();
  note_done(chunk.bucket);
  return Verdict::taken;
}

Placement Exchange::place(WorkerId from, int64_t round, const Chunk& chunk, size_t bytes) const {
  if (!active_ || round != round_ || chunk.from != from || chunk.bucket >= collectives_.size() || !collectives_[chunk.bucket]) return {};
  const int rank = rank_of(from);
  std::byte* memory = rank < 0 ? nullptr : collectives_[chunk.bucket]->place(rank, chunk, bytes);
  return {.memory = memory, .ticket = ticket_};
}

Exchange::Verdict Exchange::keep(WorkerId from, int64_t round, const Chunk& chunk, std::span<const std::byte> body) {
  if (planted(Bug::early_chunk_lost)) return Verdict::taken;
  if (kept_bytes_ + body.size() + kEntryBytes > kept_limit_) return Verdict::refused;
  Kept& kept = kept_of(round);
  if (kept.round != round) {
    if (kept.round > round) return Verdict::stale;
    forget(kept);
    kept.round = round;
  }
  if (kept.buckets.size() < bucket_count_) kept.buckets.resize(bucket_count_);
  Early early{from, chunk, {}};
  if (!spare_.empty()) {
    early.body = std::move(spare_.back());
    spare_.pop_back();
  }
  early.body.assign(body.begin(), body.end());
  kept.buckets[chunk.bucket].push_back(std::move(early));
  kept_bytes_ += body.size() + kEntryBytes;
  return Verdict::taken;
}

void Exchange::forget(Kept& kept) {
  for (auto& bucket : kept.buckets) {
    for (Early& early : bucket) {
      kept_bytes_ -= early.body.size() + kEntryBytes;
      if (spare_.size() < kMaxSpare) spare_.push_back(std::move(early.body));
    }
    bucket.clear();
  }
  kept.round = -1;
}

void Exchange::on_writable(WorkerId to) {
  if (!active_) return;
  const int rank = rank_of(to);
  if (rank < 0) return;
  for (size_t b = 0; b < collectives_.size(); ++b) {
    if (!collectives_[b]) continue;
    collectives_[b]->on_writable(rank, senders_[b]);
    note_done(b);
  }
}

void Exchange::finish() {
  assert(done());
  active_ = false;
  forget_collectives();  // and with them the payloads
  forget(kept_of(round_));
  expect(round_ + 1);
}

std::vector<WorkerId> Exchange::waits_for() const {
  std::vector<WorkerId> ids;
  for (size_t b = 0; active_ && b < collectives_.size(); ++b) {
    if (!collectives_[b] || bucket_done_[b]) continue;
    for (const int rank : collectives_[b]->waits_for()) {
      const WorkerId id = setup_.ids[static_cast<size_t>(rank)];
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace perigee
