#include "cluster/data/example_server.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace perigee {
namespace {

constexpr size_t kSpareBytes = size_t{1} << 20;  // a larger buffer is given back to the system
constexpr size_t kSparePieces = 64;
constexpr int64_t kAhead = 6;  // see Loader

// Consecutive records of one request.
struct Piece {
  PeerId peer = 0;
  uint64_t turn = 0;  // of the worker's pieces: they are sent in this order
  FrameHeader header;
  uint64_t request = 0;
  size_t offset = 0;  // of its first byte in the whole answer
  size_t source = 0;
  uint64_t epoch = 0, seed = 0;
  std::vector<int64_t> ids;
  std::vector<std::byte> bytes;
  struct Failure {
    size_t offset = 0;
    ErrorKind kind = ErrorKind::data;
    std::string text;
  };
  std::vector<Failure> failures;
  size_t sent = 0, failures_sent = 0;
};
using PiecePtr = std::unique_ptr<Piece>;

struct Request {
  FrameHeader header;
  Read read;
  size_t taken = 0;  // ids that are in pieces
};

struct Customer {
  std::deque<Request> requests;
  size_t ids = 0;                     // in them and not yet sent
  bool queued = false;                // has a turn coming
  size_t pieces = 0;                  // being read or to be sent
  uint64_t next_turn = 0;             // of the next piece
  uint64_t sending = 0;               // turn of the piece to be sent next
  std::map<uint64_t, PiecePtr> read;  // to be sent
};

}  // namespace

struct ExampleServer::Impl {
  Impl(std::vector<ServedSource> given, Transport& network, std::function<void()> call, ExampleServerOptions chosen)
      : sources(std::move(given)), transport(network), wake(std::move(call)), options(chosen) {
    assert(options.threads >= 0 && options.pieces > 0 && options.frame_bytes > 0 && wake);
    for (int i = 0; i < options.threads; ++i) threads.emplace_back([this] { read_pieces(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  // ---- with the lock held ----

  void give_turn(PeerId peer, Customer& customer) {
    if (customer.queued || customer.requests.empty() || customer.pieces >= options.pieces) return;
    customer.queued = true;
    turns.push_back(peer);
    work.notify_one();
  }

  PiecePtr new_piece() {
    if (spares.empty()) return std::make_unique<Piece>();
    PiecePtr piece = std::move(spares.back());
    spares.pop_back();
    piece->failures.clear();
    piece->sent = piece->failures_sent = 0;
    return piece;
  }

  void give_back(PiecePtr piece) {
    --counters.buffered;
    if (spares.size() < kSparePieces && piece->bytes.capacity() <= kSpareBytes) spares.push_back(std::move(piece));
  }

  // The next piece for the worker whose turn it is. Null: the worker is gone, or wants nothing any more.
  PiecePtr next_piece() {
    const PeerId peer = turns.front();
    turns.pop_front();
    const auto found = customers.find(peer);
    if (found == customers.end()) return nullptr;
    Customer& customer = found->second;
    customer.queued = false;
    if (customer.requests.empty() || customer.pieces >= options.pieces) return nullptr;
    Request& request = customer.requests.front();
    const size_t record = sources[request.read.source].layout.bytes();
    const size_t left = request.read.ids.size() - request.taken;
    const size_t count = std::min(left, std::max<size_t>(1, options.piece_bytes / std::max<size_t>(1, record)));
    assert(count > 0);
    PiecePtr piece = new_piece();
    piece->peer = peer;
    piece->turn = customer.next_turn++;
    piece->header = request.header;
    piece->request = request.read.request;
    piece->offset = request.taken * record;
    piece->source = request.read.source;
    piece->epoch = request.read.epoch;
    piece->seed = request.read.seed;
    const auto first = request.read.ids.begin() + static_cast<ptrdiff_t>(request.taken);
    piece->ids.assign(first, first + static_cast<ptrdiff_t>(count));
    request.taken += count;
    if (request.taken == request.read.ids.size()) customer.requests.pop_front();
    ++customer.pieces;
    ++counters.buffered;
    give_turn(peer, customer);
    return piece;
  }

  // ---- reading threads ----

  void read_pieces() {
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [&] { return stopping || !turns.empty(); });
      if (stopping) return;
      if (!read_piece(lock)) continue;
      lock.unlock();
      wake();
      lock.lock();
    }
  }

  // Without threads: all that there is room for.
  void read_here() {
    std::unique_lock lock(mutex);
    while (!turns.empty()) read_piece(lock);
  }

  // False: there is nothing to deliver().
  bool read_piece(std::unique_lock<std::mutex>& lock) {
    PiecePtr piece = next_piece();
    if (!piece) return false;
    lock.unlock();
    try {
      read(*piece);
    } catch (const std::exception& error) {  // no memory for them
      piece->bytes.clear();
      piece->failures.assign(1, {piece->offset, ErrorKind::resources, error.what()});
    }
    lock.lock();
    const auto customer = customers.find(piece->peer);
    if (customer == customers.end()) {
      give_back(std::move(piece));
      return false;
    }
    counters.examples += piece->ids.size();
    counters.errors += piece->failures.size();
    const PeerId peer = piece->peer;
    customer->second.read[piece->turn] = std::move(piece);
    done.push_back(peer);
    return true;
  }

  void read(Piece& piece) const {
    const ServedSource& served = sources[piece.source];
    const size_t record = served.layout.bytes();
    const auto count = static_cast<int64_t>(piece.ids.size());
    piece.bytes.resize(piece.ids.size() * record);
    std::vector<std::byte*> slots(served.layout.fields());
    const auto key = [&](int64_t i) {
      return ReadKey{.index = piece.ids[static_cast<size_t>(i)], .epoch = piece.epoch, .seed = piece.seed};
    };
    const auto touch = [&](int64_t i) {
      const ReadKey soon = key(i);
      if (served.touches) served.source->expect({&soon, 1});
    };
    for (int64_t i = 0; i < std::min(kAhead, count); ++i) touch(i);
    for (int64_t i = 0; i < count; ++i) {
      if (i + kAhead < count) touch(i + kAhead);
      const size_t at = static_cast<size_t>(i) * record;
      served.layout.slots(piece.bytes.data() + at, slots);
      const auto failed = [&](ErrorKind kind, const char* text) { piece.failures.push_back({piece.offset + at, kind, text}); };
      try {
        served.source->read(key(i), slots);
      } catch (const Error& error) {
        failed(error.kind(), error.what());
      } catch (const std::exception& error) {
        failed(ErrorKind::resources, error.what());
      }
    }
  }

  // ---- loop thread ----

  // False: the connection takes no more for now.
  bool send(Piece& piece) {
    for (; piece.failures_sent < piece.failures.size(); ++piece.failures_sent) {
      const Piece::Failure& failure = piece.failures[piece.failures_sent];
      const Examples message{
          .request = piece.request, .offset = failure.offset, .kind = static_cast<uint16_t>(failure.kind), .error = failure.text};
      if (!transport.send(piece.peer, encode(message, piece.header))) return false;
    }
    while (piece.sent < piece.bytes.size()) {
      const auto body = std::span(piece.bytes).subspan(piece.sent, std::min(options.frame_bytes, piece.bytes.size() - piece.sent));
      const size_t head =
          encode_into(head_room, Examples{.request = piece.request, .offset = piece.offset + piece.sent}, piece.header, body.size());
      if (!transport.send(piece.peer, std::span(head_room).first(head), body)) return false;
      piece.sent += body.size();
    }
    return true;
  }

  void send_to(PeerId peer) {
    for (;;) {
      PiecePtr piece;
      {
        const std::lock_guard lock(mutex);
        const auto found = customers.find(peer);
        if (found == customers.end()) return;
        auto& read = found->second.read;
        if (read.empty() || read.begin()->first != found->second.sending) return;  // that one is still being read
        piece = std::move(read.begin()->second);
        read.erase(read.begin());
      }
      const bool sent = send(*piece);  // no other thread has it now
      const std::lock_guard lock(mutex);
      Customer& customer = customers.at(peer);  // only this thread removes them
      if (!sent) {
        customer.read[piece->turn] = std::move(piece);
        return;
      }
      ++customer.sending;
      --customer.pieces;
      customer.ids -= piece->ids.size();
      counters.bytes += piece->bytes.size();
      give_back(std::move(piece));
      give_turn(peer, customer);
    }
  }

  bool in_order(const Read& read, const Customer* customer) const {
    if (read.source >= sources.size() || read.ids.empty() || read.ids.size() > options.max_ids) return false;
    const int64_t size = sources[read.source].source->size();
    if (std::any_of(read.ids.begin(), read.ids.end(), [size](int64_t id) { return id < 0 || id >= size; })) return false;
    if (!customer) return true;
    return customer->requests.size() < options.max_requests && customer->ids + read.ids.size() <= options.max_ids;
  }

  const std::vector<ServedSource> sources;
  Transport& transport;
  const std::function<void()> wake;
  const ExampleServerOptions options;
  std::array<std::byte, kHeaderBytes + 64> head_room{};  // loop thread

  std::mutex mutex;  // of all below
  std::condition_variable work;
  bool stopping = false;
  std::unordered_map<PeerId, Customer> customers;  // those with an open request; added and removed on the loop thread
  std::deque<PeerId> turns;
  std::vector<PeerId> done;  // workers for whom something was read
  std::vector<PiecePtr> spares;
  Counters counters;
  std::vector<std::thread> threads;
};

ExampleServer::ExampleServer(std::vector<ServedSource> sources, Transport& transport, std::function<void()> wake,
                             ExampleServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(sources), transport, std::move(wake), options)) {}
ExampleServer::~ExampleServer() = default;

bool ExampleServer::on_read(PeerId peer, const FrameHeader& header, Read read) {
  const std::lock_guard lock(impl_->mutex);
  const auto known = impl_->customers.find(peer);
  if (!impl_->in_order(read, known == impl_->customers.end() ? nullptr : &known->second)) {
    ++impl_->counters.refused;
    return false;
  }
  ++impl_->counters.requests;
  Customer& customer = impl_->customers[peer];
  customer.ids += read.ids.size();
  customer.requests.push_back({header, std::move(read)});
  impl_->give_turn(peer, customer);
  if (impl_->threads.empty()) impl_->wake();
  return true;
}

void ExampleServer::on_writable(PeerId peer) {
  impl_->send_to(peer);
  if (impl_->threads.empty()) deliver();
}

void ExampleServer::on_lost(PeerId peer) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->customers.find(peer);
  if (found == impl_->customers.end()) return;
  for (auto& [turn, piece] : found->second.read) impl_->give_back(std::move(piece));
  impl_->customers.erase(found);
}

void ExampleServer::deliver() {
  std::vector<PeerId> peers;
  do {
    if (impl_->threads.empty()) impl_->read_here();
    {
      const std::lock_guard lock(impl_->mutex);
      peers.clear();
      peers.swap(impl_->done);
    }
    for (const PeerId peer : peers) impl_->send_to(peer);
  } while (impl_->threads.empty() && !peers.empty());  // what was sent made room
}

ExampleServer::Counters ExampleServer::counters() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counters;
}

}  // namespace perigee
