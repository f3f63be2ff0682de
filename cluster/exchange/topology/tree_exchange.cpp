// One exchange along the trees of its topology. For each piece: inputs arrive (own rows at start(), others' in chunks), are added as
// soon as both sides of an addition are here, and go on to the next rank or, at the owner, become the result, which spreads.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "cluster/exchange/topology/chunk_pool.h"
#include "cluster/exchange/topology/exchange_plan.h"
#include "cluster/exchange/topology/merge.h"
#include "cluster/exchange/topology/trees.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

enum Phase : uint16_t { kReduce = 0, kResult = 1 };

// Where a value is. `data` null: its contributors had nothing to give.
struct Value {
  const std::byte* data = nullptr;
  int buffer = -1;         // of the pool
  int row = -1;            // of this rank's own
  bool transient = false;  // in the frame being received: valid during the call only
};

struct Outgoing {
  const std::byte* data = nullptr;
  int buffer = -1;
  uint32_t piece = 0;
  uint16_t phase = kReduce, row = 0;
};

// The queue of chunks to one rank, in order. Its room is reserved once.
struct Outbox {
  std::vector<Outgoing> entries;
  size_t next = 0;
  bool blocked = false;  // until on_writable
  bool empty() const { return next == entries.size(); }
};

class TreeExchange final : public Collective {
 public:
  TreeExchange(const TreeShape& shape, CollectiveSetup setup) : setup_(std::move(setup)), plan_(make_exchange_plan(shape, setup_)) {
    if (!setup_.pool) setup_.pool = std::make_shared<ChunkPool>();
    if (setup_.result.empty()) setup_.result = setup_.rows.front();
    assert(setup_.result.size() >= setup_.bucket.end);
    slots_.resize(plan_.slots, kAbsent);
    pieces_.resize(plan_.pieces.size());
    segments_.resize(plan_.segments.size());
    outboxes_.resize(setup_.hosts.size());
    coming_.resize(setup_.hosts.size());
    for (size_t rank = 0; rank < outboxes_.size(); ++rank) outboxes_[rank].entries.reserve(plan_.sends[rank]);
    missing_ = plan_.pieces.size();
  }

  ~TreeExchange() override {
    for (const int slot : slots_)
      if (slot >= 0) setup_.pool->release(slot);
    for (const Coming& coming : coming_)
      if (coming.buffer >= 0) setup_.pool->release(coming.buffer);
    for (const Outbox& outbox : outboxes_)
      for (size_t i = outbox.next; i < outbox.entries.size(); ++i)
        if (outbox.entries[i].buffer >= 0) setup_.pool->release(outbox.entries[i].buffer);
  }

  void start(const ChunkSender& send) override {
    assert(!started_);
    started_ = true;
    // The own segment comes last, so that no two ranks begin with the same receiver.
    const size_t n = plan_.segments.size();
    for (size_t i = 1; i <= n; ++i) feed(static_cast<uint32_t>((static_cast<size_t>(setup_.rank) + i) % n));
    pump(send);
  }

  bool on_chunk(int from, const Chunk& chunk, std::span<const std::byte> body, const ChunkSender& send) override {
    const int64_t found = find_piece(chunk.offset);
    if (found < 0) return false;
    const auto piece = static_cast<uint32_t>(found);
    const bool ok = chunk.phase == kReduce   ? on_contribution(from, piece, chunk.row, body)
                    : chunk.phase == kResult ? chunk.row == 0 && on_result(from, piece, body)
                                             : false;
    if (ok) pump(send);
    return ok;
  }

  std::byte* place(int from, const Chunk& chunk, size_t bytes) override {
    const int64_t found = find_piece(chunk.offset);
    if (found < 0) return nullptr;
    const auto piece = static_cast<uint32_t>(found);
    if (chunk.phase == kReduce) return place_contribution(from, piece, chunk.row, bytes);
    const bool wanted = chunk.phase == kResult && chunk.row == 0 && expects_result(from, piece, bytes) && !pieces_[piece].result;
    return wanted ? result_of(piece) : nullptr;
  }

  void on_writable(int to, const ChunkSender& send) override {
    if (to < 0 || static_cast<size_t>(to) >= outboxes_.size()) return;
    outboxes_[static_cast<size_t>(to)].blocked = false;
    pump(send);
  }

  bool done() const override { return started_ && missing_ == 0 && queued_ == 0; }

  std::vector<int> waits_for() const override {
    std::vector<bool> wanted(setup_.hosts.size());
    for (size_t s = 0; s < segments_.size(); ++s) want(static_cast<uint32_t>(s), wanted);
    for (size_t rank = 0; rank < outboxes_.size(); ++rank)
      if (outboxes_[rank].blocked && !outboxes_[rank].empty()) wanted[rank] = true;
    std::vector<int> ranks;
    for (size_t rank = 0; rank < wanted.size(); ++rank)
      if (wanted[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

 private:
  // States of a slot; from 0 on it is a buffer of the pool, from kOwn down a row of this rank's own.
  static constexpr int kAbsent = -1, kNothing = -2, kUsed = -3, kOwn = -4;  // kOwn - row

  // A contribution that is being received into a buffer of the pool, where it can wait for what it is added to.
  struct Coming {
    int buffer = -1;
    uint32_t piece = 0;
    int input = 0;
  };
  struct PieceState {
    uint16_t sent = 0;  // rows
    bool result = false;
  };
  struct SegmentState {
    uint32_t fed = 0;      // pieces whose own rows have been put in
    uint32_t results = 0;  // pieces whose result is here
  };

  const Segment& segment_of(uint32_t piece) const { return plan_.segments[plan_.pieces[piece].segment]; }
  const Summation& summation_of(const Segment& segment) const { return plan_.summations[segment.summation]; }
  int& slot(const Segment& segment, uint32_t piece, int node) {
    return slots_[segment.first_slot + plan_.pieces[piece].ordinal * summation_of(segment).nodes.size() + static_cast<size_t>(node)];
  }
  std::byte* result_of(uint32_t piece) const { return setup_.result.data() + setup_.bucket.begin + plan_.pieces[piece].offset; }
  const std::byte* own_row(uint32_t piece, int row) const {
    return setup_.rows[static_cast<size_t>(row)].data() + setup_.bucket.begin + plan_.pieces[piece].offset;
  }

  int64_t find_piece(uint64_t offset) const {
    const auto found = std::lower_bound(plan_.pieces.begin(), plan_.pieces.end(), offset,
                                        [](const Piece& piece, uint64_t at) { return piece.offset < at; });
    return found == plan_.pieces.end() || found->offset != offset ? -1 : found - plan_.pieces.begin();
  }

  Value own_value(uint32_t piece, int row) const { return {.data = own_row(piece, row), .row = row}; }

  // Puts own rows in, as far as the window allows. Where chunks of others are added nothing is sent before theirs are here, and their
  // windows bound it.
  void feed(uint32_t index) {
    const Segment& segment = plan_.segments[index];
    SegmentState& state = segments_[index];
    const bool leaf = segment.place.reduce_from.empty();
    while (started_ && state.fed < segment.pieces() && (!leaf || state.fed < state.results + segment.window)) {
      const uint32_t piece = segment.piece(state.fed++);
      for (int row = 0; row < plan_.own_inputs; ++row)
        arrive(piece, row, plan_.contributes || planted(Bug::zero_weight_added) ? own_value(piece, row) : Value{});
    }
  }

  // The input that a rank's row of a piece is; -1: none.
  int find_input(int from, uint32_t piece, int row) const {
    const Segment& segment = segment_of(piece);
    const auto child = std::find(segment.place.reduce_from.begin(), segment.place.reduce_from.end(), from);
    if (child == segment.place.reduce_from.end()) return -1;
    const auto index = static_cast<size_t>(child - segment.place.reduce_from.begin());
    const int input = segment.first_input[index] + row;
    return input < segment.first_input[index + 1] ? input : -1;
  }

  // One buffer for each rank: a connection has one frame under way. Another chunk of that rank, on a second connection, is received
  // elsewhere: two answers for one memory would mix them.
  std::byte* place_contribution(int from, uint32_t piece, int row, size_t bytes) {
    const int input = find_input(from, piece, row);
    if (input < 0 || bytes != plan_.pieces[piece].bytes || slot(segment_of(piece), piece, input) != kAbsent) return nullptr;
    Coming& coming = coming_[static_cast<size_t>(from)];
    if (coming.buffer >= 0 && (coming.piece != piece || coming.input != input)) return nullptr;
    if (coming.buffer < 0) coming = {.buffer = setup_.pool->try_acquire(), .piece = piece, .input = input};
    return coming.buffer < 0 ? nullptr : setup_.pool->data(coming.buffer);
  }

  bool on_contribution(int from, uint32_t piece, int row, std::span<const std::byte> body) {
    const Segment& segment = segment_of(piece);
    const int input = find_input(from, piece, row);
    if (input < 0) return false;
    if (!body.empty() && body.size() != plan_.pieces[piece].bytes) return false;
    if (slot(segment, piece, input) != kAbsent && !planted(Bug::chunk_added_twice)) return true;  // repeated
    Value value{.data = body.empty() ? nullptr : body.data(), .transient = true};
    Coming& coming = coming_[static_cast<size_t>(from)];
    if (coming.buffer >= 0 && coming.piece == piece && coming.input == input) {
      const int buffer = std::exchange(coming.buffer, -1);
      if (value.data == setup_.pool->data(buffer)) value.buffer = buffer, value.transient = false;
      else setup_.pool->release(buffer);  // the same came another way
    }
    arrive(piece, input, value);
    return true;
  }

  // Not without our contribution: its row is where the result goes.
  bool expects_result(int from, uint32_t piece, size_t bytes) const {
    const Segment& segment = segment_of(piece);
    return from >= 0 && from == segment.place.result_from && bytes == plan_.pieces[piece].bytes &&
           pieces_[piece].sent >= summation_of(segment).outputs;
  }

  bool on_result(int from, uint32_t piece, std::span<const std::byte> body) {
    if (!expects_result(from, piece, body.size())) return false;
    if (pieces_[piece].result) return true;  // repeated
    if (body.data() != result_of(piece))
      std::memcpy(result_of(piece), body.data(), body.size() - (planted(Bug::result_short) && body.size() > 8 ? 8 : 0));
    finish(piece);
    feed(plan_.pieces[piece].segment);
    return true;
  }

  // A value of a node is here: adds it to its sibling if that is here too, and so on up the tree.
  void arrive(uint32_t piece, int node, Value value) {
    const Segment& segment = segment_of(piece);
    const Summation& sum = summation_of(segment);
    for (;;) {
      const Summation::Node& at = sum.nodes[static_cast<size_t>(node)];
      int& mine = slot(segment, piece, node);
      assert(mine == kAbsent);
      if (at.parent < 0) {
        mine = kUsed;
        return at.output >= 0 ? deliver(segment, piece, at.output, value) : void(assert(false));
      }
      int& other = slot(segment, piece, at.sibling);
      if (other == kAbsent) {
        mine = keep(piece, value);
        return;
      }
      const Value sibling = kept(piece, other);
      mine = other = kUsed;
      const bool last = sum.nodes[static_cast<size_t>(at.parent)].parent < 0 && segment.place.reduce_to < 0;
      value = at.left ? add(piece, value, sibling, last) : add(piece, sibling, value, last);
      node = at.parent;
    }
  }

  int keep(uint32_t piece, Value value) {
    if (!value.data) return kNothing;
    if (value.buffer >= 0) return value.buffer;
    if (value.row >= 0) return kOwn - value.row;
    assert(value.transient);
    const int buffer = setup_.pool->acquire();
    std::memcpy(setup_.pool->data(buffer), value.data, plan_.pieces[piece].bytes);
    return buffer;
  }

  Value kept(uint32_t piece, int slot) const {
    if (slot == kNothing) return {};
    if (slot <= kOwn) return own_value(piece, kOwn - slot);
    assert(slot >= 0);
    return {.data = setup_.pool->data(slot), .buffer = slot};
  }

  // left + right. `last`: into the result; else into the buffer of either or, when none has one, a new one.
  Value add(uint32_t piece, Value left, Value right, bool last) {
    if (!left.data) return right;
    if (!right.data) return left;
    Value sum;
    if (last) {
      sum.data = result_of(piece);
    } else {
      sum.buffer = left.buffer >= 0 ? left.buffer : right.buffer >= 0 ? right.buffer : setup_.pool->acquire();
      sum.data = setup_.pool->data(sum.buffer);
    }
    std::byte* out = last ? result_of(piece) : setup_.pool->data(sum.buffer);
    const Piece& range = plan_.pieces[piece];
    (range.maxima && !planted(Bug::maxima_added) ? merge_maxima : merge_sums_)(out, left.data, right.data, range.bytes);
    for (const int buffer : {left.buffer, right.buffer})
      if (buffer >= 0 && buffer != sum.buffer) setup_.pool->release(buffer);
    return sum;
  }

  // An output of this rank's sums: the result, if it is the owner, or a row for the next rank.
  void deliver(const Segment& segment, uint32_t piece, int row, Value value) {
    if (segment.place.reduce_to < 0) {
      std::byte* result = result_of(piece);
      if (!value.data) {
        std::memset(result, 0, plan_.pieces[piece].bytes);
      } else if (value.data != result) {
        std::memcpy(result, value.data, plan_.pieces[piece].bytes);
      }
      if (value.buffer >= 0) setup_.pool->release(value.buffer);
      finish(piece);
      return;
    }
    if (value.transient && value.data) {
      value.buffer = keep(piece, value);
      value.data = setup_.pool->data(value.buffer);
    }
    post(segment.place.reduce_to,
         {.data = value.data, .buffer = value.buffer, .piece = piece, .phase = kReduce, .row = static_cast<uint16_t>(row)});
  }

  void finish(uint32_t piece) {
    assert(!pieces_[piece].result && missing_ > 0);
    pieces_[piece].result = true;
    --missing_;
    ++segments_[plan_.pieces[piece].segment].results;
    for (const int to : segment_of(piece).place.result_to) post(to, {.data = result_of(piece), .piece = piece, .phase = kResult});
  }

  void post(int to, Outgoing entry) {
    Outbox& outbox = outboxes_[static_cast<size_t>(to)];
    assert(to != setup_.rank && outbox.entries.size() < outbox.entries.capacity());
    outbox.entries.push_back(entry);
    ++queued_;
  }

  // Sends what the queues take, one chunk to each in turn, so that all links are busy.
  void pump(const ChunkSender& send) {
    for (bool any = true; any && queued_ > 0;) {
      any = false;
      for (size_t i = 1; i < outboxes_.size(); ++i) {
        const size_t to = (static_cast<size_t>(setup_.rank) + i) % outboxes_.size();
        Outbox& outbox = outboxes_[to];
        if (outbox.blocked || outbox.empty()) continue;
        const Outgoing entry = outbox.entries[outbox.next];
        const Piece& piece = plan_.pieces[entry.piece];
        Chunk chunk;
        chunk.phase = entry.phase;
        chunk.row = entry.row;
        chunk.offset = piece.offset;
        if (!send(static_cast<int>(to), chunk, {entry.data, entry.data ? piece.bytes : 0})) {
          outbox.blocked = true;
          continue;
        }
        ++outbox.next;
        --queued_;
        any = true;
        if (entry.buffer >= 0) setup_.pool->release(entry.buffer);
        if (entry.phase == kReduce) ++pieces_[entry.piece].sent;
      }
    }
  }

  // For the first piece without a result: the ranks whose contribution is missing, or the rank that owes the result.
  void want(uint32_t index, std::vector<bool>& wanted) const {
    const Segment& segment = plan_.segments[index];
    for (uint32_t ordinal = 0; ordinal < segment.pieces(); ++ordinal) {
      const uint32_t piece = segment.piece(ordinal);
      if (pieces_[piece].result) continue;
      const Summation& sum = summation_of(segment);
      const int* slots = &slots_[segment.first_slot + ordinal * sum.nodes.size()];
      bool missing = false;
      for (size_t child = 0; child < segment.place.reduce_from.size(); ++child)
        for (int input = segment.first_input[child]; input < segment.first_input[child + 1]; ++input)
          if (slots[input] == kAbsent) wanted[static_cast<size_t>(segment.place.reduce_from[child])] = missing = true;
      if (!missing && pieces_[piece].sent == sum.outputs && segment.place.result_from >= 0)
        wanted[static_cast<size_t>(segment.place.result_from)] = true;
      return;
    }
  }

  CollectiveSetup setup_;
  const Merge merge_sums_ = merge_sums(setup_.layout.dtype);
  const ExchangePlan plan_;
  std::vector<int> slots_;
  std::vector<PieceState> pieces_;
  std::vector<SegmentState> segments_;
  std::vector<Outbox> outboxes_;  // by rank
  std::vector<Coming> coming_;    // likewise
  size_t missing_ = 0;            // pieces without a result
  size_t queued_ = 0;             // in all outboxes
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Collective> make_tree_exchange(const TreeShape& shape, CollectiveSetup setup) {
  return std::make_unique<TreeExchange>(shape, std::move(setup));
}

}  // namespace perigee
