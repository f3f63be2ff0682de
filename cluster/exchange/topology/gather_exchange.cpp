// One gather: every payload goes along its tree in chunks, each passed on as soon as it is here. A chunk says how long its payload is, so
// that chunks may come in any order and any number of times.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "cluster/exchange/payload_pool.h"
#include "cluster/exchange/topology/gather.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

class GatherExchange final : public Gather {
 public:
  GatherExchange(GatherShape shape, GatherSetup setup) : setup_(std::move(setup)) {
    const World world(setup_.hosts);
    if (!setup_.payloads) setup_.payloads = std::make_shared<PayloadPool>();
    assert(setup_.gives.size() == setup_.hosts.size() && setup_.rank < world.size);
    sources_.resize(setup_.hosts.size());
    outboxes_.resize(setup_.hosts.size());
    for (int rank = 0; rank < world.size; ++rank) {
      Source& source = sources_[static_cast<size_t>(rank)];
      if (!setup_.gives[static_cast<size_t>(rank)]) continue;
      source.place = shape(world, rank, setup_.rank);
      ++missing_;
    }
    assert(!gives(setup_.rank) || (setup_.payload && !setup_.payload->empty() && setup_.payload->size() <= setup_.bound));
  }

  void start(const ChunkSender& send) override {
    assert(!started_);
    started_ = true;
    if (gives(setup_.rank)) {
      Source& own = sources_[static_cast<size_t>(setup_.rank)];
      own.bytes = setup_.payload;
      for (size_t offset = 0; offset < own.bytes->size(); offset += kGatherPiece) pass_on(setup_.rank, offset);
      --missing_;
    }
    pump(send);
  }

  bool on_chunk(int from, const Chunk& chunk, std::span<const std::byte> body, const ChunkSender& send) override {
    if (chunk.phase != 0 || chunk.row >= sources_.size() || chunk.row == setup_.rank || !gives(chunk.row)) return false;
    Source& source = sources_[chunk.row];
    if (from != source.place.from || body.size() <= kGatherLength) return false;
    uint64_t length;
    std::memcpy(&length, body.data(), kGatherLength);
    const std::span<const std::byte> piece = body.subspan(kGatherLength);
    if (length == 0 || length > setup_.bound || chunk.offset >= length || chunk.offset % kGatherPiece != 0) return false;
    if (piece.size() != std::min<uint64_t>(kGatherPiece, length - chunk.offset)) return false;
    if (source.bytes && source.bytes->size() != length) return false;
    if (!source.bytes) {
      source.arriving = setup_.payloads->take(length);
      source.bytes = source.arriving;
      source.here.resize((length + kGatherPiece - 1) / kGatherPiece);
      source.left = source.here.size();
    }
    const size_t number = chunk.offset / kGatherPiece;
    if (source.here[number]) return true;  // repeated
    source.here[number] = true;
    std::memcpy(source.arriving->data() + chunk.offset, piece.data(), piece.size());
    if (--source.left == 0) --missing_;
    pass_on(chunk.row, chunk.offset);
    pump(send);
    return true;
  }

  std::byte* place(int, const Chunk&, size_t) override { return nullptr; }

  void on_writable(int to, const ChunkSender& send) override {
    if (to < 0 || static_cast<size_t>(to) >= outboxes_.size()) return;
    outboxes_[static_cast<size_t>(to)].blocked = false;
    pump(send);
  }

  bool done() const override { return started_ && missing_ == 0 && queued_ == 0; }

  std::vector<int> waits_for() const override {
    std::vector<bool> wanted(sources_.size());
    for (size_t rank = 0; rank < sources_.size(); ++rank) {
      const Source& source = sources_[rank];
      if (source.place.from >= 0 && !(source.bytes && source.left == 0)) wanted[static_cast<size_t>(source.place.from)] = true;
      if (outboxes_[rank].blocked && !outboxes_[rank].empty()) wanted[rank] = true;
    }
    std::vector<int> ranks;
    for (size_t rank = 0; rank < wanted.size(); ++rank)
      if (wanted[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

  SharedBytes payload(int rank) const override {
    if (planted(Bug::payload_of_another)) rank = (rank + 1) % static_cast<int>(sources_.size());
    const Source& source = sources_[static_cast<size_t>(rank)];
    return source.left == 0 ? source.bytes : nullptr;
  }

 private:
  struct Source {
    GatherPlace place;
    SharedBytes bytes;                                 // null until its length is known
    std::shared_ptr<std::vector<std::byte>> arriving;  // the same, of another rank
    std::vector<bool> here;                            // pieces
    size_t left = 0;
  };
  struct Outgoing {
    int source = 0;
    size_t offset = 0;
  };
  struct Outbox {
    std::vector<Outgoing> entries;
    size_t next = 0;
    bool blocked = false;  // until on_writable
    bool empty() const { return next == entries.size(); }
  };

  bool gives(int rank) const { return setup_.gives[static_cast<size_t>(rank)]; }

  void pass_on(int source, size_t offset) {
    for (const int to : sources_[static_cast<size_t>(source)].place.to) {
      assert(to != setup_.rank && to != source);
      outboxes_[static_cast<size_t>(to)].entries.push_back({source, offset});
      ++queued_;
    }
  }

  // One chunk to each in turn, so that all links are busy.
  void pump(const ChunkSender& send) {
    for (bool any = true; any && queued_ > 0;) {
      any = false;
      for (size_t i = 1; i < outboxes_.size(); ++i) {
        const size_t to = (static_cast<size_t>(setup_.rank) + i) % outboxes_.size();
        Outbox& outbox = outboxes_[to];
        if (outbox.blocked || outbox.empty()) continue;
        if (!send_piece(static_cast<int>(to), outbox.entries[outbox.next], send)) {
          outbox.blocked = true;
          continue;
        }
        ++outbox.next;
        --queued_;
        any = true;
      }
    }
  }

  bool send_piece(int to, const Outgoing& entry, const ChunkSender& send) {
    const std::vector<std::byte>& bytes = *sources_[static_cast<size_t>(entry.source)].bytes;
    const uint64_t length = bytes.size();
    const size_t piece = std::min<size_t>(kGatherPiece, bytes.size() - entry.offset);
    body_.resize(kGatherLength + piece);
    std::memcpy(body_.data(), &length, kGatherLength);
    std::memcpy(body_.data() + kGatherLength, bytes.data() + entry.offset, piece);
    Chunk chunk;
    chunk.row = static_cast<uint16_t>(entry.source);
    chunk.offset = entry.offset;
    return send(to, chunk, body_);
  }

  GatherSetup setup_;
  std::vector<Source> sources_;   // by rank
  std::vector<Outbox> outboxes_;  // by rank
  std::vector<std::byte> body_;   // of the chunk that is being sent
  size_t missing_ = 0;            // payloads that are not here as a whole
  size_t queued_ = 0;             // in all outboxes
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Gather> make_gather_exchange(GatherShape shape, GatherSetup setup) {
  return std::make_unique<GatherExchange>(shape, std::move(setup));
}

double gather_bytes_sent(GatherShape shape, int rank, const std::vector<std::string>& hosts, double bytes) {
  const World world(hosts);
  double copies = 0;
  for (int source = 0; source < world.size; ++source) copies += static_cast<double>(shape(world, source, rank).to.size());
  return copies * bytes;
}

}  // namespace perigee
