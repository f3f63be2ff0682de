// One member of an all-reduce over UvTransport, as workers do it: chunks in frames through a topology. Started once per rank by bench.py:
//
//     allreduce_bench RANK SIZE FOLDER plain|tls|shared TOPOLOGY SECONDS FLOATS…
//
// Rank 0 prints for each size "FLOATS TIMES SECONDS_EACH CPU_SECONDS_EACH": the slowest rank's wall clock and its own CPU time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cluster/exchange/collective.h"
#include "cluster/exchange/topology/chunk_pool.h"
#include "cluster/uv/loop.h"
#include "cluster/uv/uv_transport.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr uint64_t kDeadlineNs = 20'000'000'000;
constexpr int kTrial = 3;  // exchanges that find out how many fit into SECONDS

double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

class Rank final : public TransportEvents {
 public:
  Rank(int rank, int size, std::string folder, UvTransportOptions options, std::string topology, double seconds, std::vector<int64_t> sizes)
      : rank_(rank),
        size_(size),
        folder_(std::move(folder)),
        topology_(std::move(topology)),
        seconds_(seconds),
        sizes_(std::move(sizes)),
        transport_(loop_, std::move(options)),
        peers_(static_cast<size_t>(size), 0) {
    transport_.set_events(this);
    send_ = [this](int to, const Chunk& chunk, std::span<const std::byte> body) { return send_chunk(to, chunk, body); };
    block_.reset(static_cast<std::byte*>(
        std::aligned_alloc(64, (static_cast<size_t>(*std::max_element(sizes_.begin(), sizes_.end())) * 4 + 63) / 64 * 64)));
  }

  void run() {
    publish(transport_.listen("127.0.0.1:0"));
    for (int other = 0; other < rank_; ++other) outgoing_[transport_.connect(address_of(other), loop_.now_ns() + kDeadlineNs)] = other;
    if (size_ == 1) begin();
    loop_.run();
  }

  void on_connected(PeerId peer, const std::string&) override {
    const auto found = outgoing_.find(peer);
    if (found == outgoing_.end()) return;  // says who it is
    transport_.send(peer, encode(Link{.from = static_cast<WorkerId>(rank_), .to = static_cast<WorkerId>(found->second)}, {}));
    linked(found->second, peer);
  }

  void on_frame(PeerId peer, std::span<const std::byte> frame) override {
    FrameHeader header;
    if (!read_header(frame, &header)) fail("a frame without a header");
    const std::span<const std::byte> payload = frame.subspan(kHeaderBytes);
    if (header.type == MessageType::link) {
      Link link;
      if (!decode(payload, &link)) fail("a bad Link");
      return linked(static_cast<int>(link.from), peer);
    }
    const int from = rank_of_.at(peer);
    if (header.round >= first_round_ + static_cast<int64_t>(exchanges_.size()) && !extend(header.round)) {
      early_.push_back({from, {frame.begin(), frame.end()}});
      return;
    }
    deliver(from, header, payload);
  }

  Placement place(PeerId peer, std::span<const std::byte> head) override {
    FrameHeader header;
    Chunk chunk;
    if (!started_ || !read_header(head, &header) || header.round != first_round_ || !decode(head.subspan(kHeaderBytes), &chunk)) return {};
    std::byte* memory = exchanges_.front()->place(rank_of_.at(peer), chunk, kHeaderBytes + header.length - head.size());
    return {.memory = memory, .ticket = static_cast<uint64_t>(header.round)};
  }

  void on_placed(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    FrameHeader header;
    Chunk chunk;
    if (!read_header(head, &header) || !decode(head.subspan(kHeaderBytes), &chunk)) fail("a bad Chunk");
    deliver(rank_of_.at(peer), header, chunk, body);
  }

  void on_lost(PeerId, PeerLoss why) override {
    const bool last = at_ + 1 >= sizes_.size() && !trial_ && first_round_ >= phase_end_;  // others may be done and gone
    if (stopping_ || last) return;
    fail(std::string("a connection is lost: ") + to_string(why) + " " + transport_.loss_detail());
  }
  void on_timer(uint64_t) override {}
  void on_writable(PeerId peer) override {
    const int to = rank_of_.at(peer);
    for (size_t i = 0; i < exchanges_.size(); ++i) {
      round_being_sent_ = first_round_ + static_cast<int64_t>(i);
      exchanges_[i]->on_writable(to, send_);
    }
    advance();
  }

 private:
  struct Early {
    int from;
    std::vector<std::byte> frame;
  };

  [[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "rank %d: %s\n", rank_, what.c_str());
    std::_Exit(1);
  }

  void publish(const std::string& address) {
    const std::string path = folder_ + "/" + std::to_string(rank_);
    std::ofstream(path + ".new") << address;
    std::filesystem::rename(path + ".new", path);
  }
  std::string address_of(int rank) {
    for (int i = 0; i < 2000; ++i) {
      if (std::ifstream file(folder_ + "/" + std::to_string(rank)); file) {
        std::string address;
        file >> address;
        return address;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    fail("rank " + std::to_string(rank) + " did not come");
  }

  void linked(int rank, PeerId peer) {
    peers_[static_cast<size_t>(rank)] = peer;
    rank_of_[peer] = rank;
    if (static_cast<int>(rank_of_.size()) == size_ - 1) begin();
  }

  // ---- exchanges: `first_round_` is under way, those behind it have been heard of ----

  CollectiveSetup setup(ExchangeLayout layout, std::byte* memory) const {
    CollectiveSetup setup;
    setup.rank = rank_;
    setup.hosts.assign(static_cast<size_t>(size_), "host");
    setup.layout = layout;
    setup.bucket = {0, layout.bytes()};
    setup.rows.push_back({memory, layout.bytes()});
    setup.pool = pool_;
    return setup;
  }

  // The kind of round `round`, as far as this rank knows: the exchanges of a trial, one to agree on the time, again for the measurement.
  bool extend(int64_t round) {
    while (first_round_ + static_cast<int64_t>(exchanges_.size()) <= round) {
      const int64_t next = first_round_ + static_cast<int64_t>(exchanges_.size());
      if (next > phase_end_) return false;
      const bool agreement = next == phase_end_;
      CollectiveSetup parts =
          agreement ? setup({0, 1}, reinterpret_cast<std::byte*>(&nanoseconds_)) : setup({sizes_[at_], 0}, block_.get());
      const TopologyDef& def = find_topology(topology_, parts);
      exchanges_.push_back(def.make(std::move(parts)));
    }
    return true;
  }

  void begin() {
    fill();
    phase_end_ = kTrial;
    replay();  // others may have begun
    advance();
  }

  void fill() {
    const auto n = static_cast<size_t>(sizes_[at_]);
    const float value = 1.0f / 1024;
    for (size_t i = 0; i < n; ++i) std::memcpy(block_.get() + 4 * i, &value, 4);
  }

  bool send_chunk(int to, Chunk chunk, std::span<const std::byte> body) {
    chunk.from = static_cast<WorkerId>(rank_);
    std::array<std::byte, kChunkHeadBytes> head;
    const size_t bytes = encode_into(head, chunk, {.round = round_being_sent_}, body.size());
    return transport_.send(peers_[static_cast<size_t>(to)], std::span(head).first(bytes), body);
  }

  void deliver(int from, const FrameHeader& header, std::span<const std::byte> payload) {
    Chunk chunk;
    std::span<const std::byte> body;
    if (!decode(payload, &chunk, &body)) fail("a bad Chunk");
    deliver(from, header, chunk, body);
  }

  void deliver(int from, const FrameHeader& header, const Chunk& chunk, std::span<const std::byte> body) {
    if (header.round < first_round_) fail("a chunk of an exchange that is over");
    round_being_sent_ = header.round;
    if (!exchanges_[static_cast<size_t>(header.round - first_round_)]->on_chunk(from, chunk, body, send_)) fail("a Chunk that cannot be");
    advance();
  }

  void advance() {
    while (!stopping_) {
      if (!started_) {
        extend(first_round_);
        started_ = true;
        round_being_sent_ = first_round_;
        if (first_round_ == phase_begin_) start_ = loop_.now_ns(), cpu_ = cpu_seconds();
        exchanges_.front()->start(send_);
      }
      if (!exchanges_.front()->done()) return;
      exchanges_.pop_front();
      started_ = false;
      ++first_round_;
      if (first_round_ == phase_end_) {
        const auto times = static_cast<double>(phase_end_ - phase_begin_);
        nanoseconds_ = static_cast<int64_t>(static_cast<double>(loop_.now_ns() - start_) / times);
        cpu_ = (cpu_seconds() - cpu_) / times;
      } else if (first_round_ == phase_end_ + 1) {
        next_phase();
        replay();
      }
    }
  }

  void next_phase() {
    const double seconds = 1e-9 * static_cast<double>(nanoseconds_);
    const int64_t times = phase_end_ - phase_begin_;
    phase_begin_ = first_round_;
    if (trial_) {
      phase_end_ = phase_begin_ + std::clamp<int64_t>(static_cast<int64_t>(seconds_ / seconds), 3, 1000);
    } else {
      if (rank_ == 0)
        std::printf("%lld %lld %.9f %.9f\n", static_cast<long long>(sizes_[at_]), static_cast<long long>(times), seconds, cpu_),
            std::fflush(stdout);
      phase_end_ = phase_begin_ + kTrial;
      if (++at_ == sizes_.size()) return finish();
    }
    trial_ = !trial_;
    fill();
  }

  void replay() {
    std::deque<Early> waiting;
    std::swap(waiting, early_);
    for (const Early& early : waiting) {
      FrameHeader header;
      read_header(early.frame, &header);
      if (extend(header.round)) deliver_early(early, header);
      else early_.push_back(early);
    }
  }
  void deliver_early(const Early& early, const FrameHeader& header) {
    Chunk chunk;
    std::span<const std::byte> body;
    decode(std::span(early.frame).subspan(kHeaderBytes), &chunk, &body);
    round_being_sent_ = header.round;
    exchanges_[static_cast<size_t>(header.round - first_round_)]->on_chunk(early.from, chunk, body, send_);
  }

  void finish() {
    stopping_ = true;
    for (const PeerId peer : peers_)
      if (peer) transport_.close(peer);
    loop_.stop();
  }

  const int rank_, size_;
  const std::string folder_, topology_;
  const double seconds_;
  const std::vector<int64_t> sizes_;
  UvLoop loop_;
  UvTransport transport_;
  std::vector<PeerId> peers_;
  std::unordered_map<PeerId, int> outgoing_, rank_of_;
  ChunkSender send_;
  std::shared_ptr<ChunkPool> pool_ = std::make_shared<ChunkPool>();
  std::unique_ptr<std::byte[], Free> block_;
  std::deque<std::unique_ptr<Collective>> exchanges_;
  std::deque<Early> early_;
  size_t at_ = 0;  // in sizes_
  bool trial_ = true, started_ = false, stopping_ = false;
  int64_t first_round_ = 0, phase_begin_ = 0, round_being_sent_ = 0;
  int64_t phase_end_ = -1;  // nothing is known before begin()
  int64_t nanoseconds_ = 0;
  uint64_t start_ = 0;
  double cpu_ = 0;
};

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(stderr, "allreduce_bench RANK SIZE FOLDER plain|tls|shared TOPOLOGY SECONDS FLOATS...\n");
    return 2;
  }
  try {
    std::vector<int64_t> sizes;
    for (int i = 7; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
    perigee::UvTransportOptions options;
    if (std::strcmp(argv[4], "tls") == 0) options.key = perigee::Secret::from_hex(std::string(64, '7'));
    options.share_memory = std::strcmp(argv[4], "shared") == 0;
    perigee::Rank member(std::atoi(argv[1]), std::atoi(argv[2]), argv[3], options, argv[5], std::atof(argv[6]), sizes);
    member.run();
  } catch (const perigee::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
