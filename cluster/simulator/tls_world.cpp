#include "cluster/simulator/tls_world.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/launch/secret.h"
#include "cluster/protocol/message.h"
#include "cluster/simulator/network/network.h"
#include "cluster/uv/frame_reader.h"
#include "src/net/tls.h"

namespace perigee::sim {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint64_t kHelloNs = 5000 * kMs;  // until a connection must be open
constexpr uint64_t kTalkNs = 3000 * kMs;   // until both have said what they have to say
constexpr size_t kRecordHead = 5;
constexpr std::byte kApplicationData{23};

enum class Mischief { none, flip, drop, repeat, swap, add, cut, swallow, count };
constexpr const char* kMischiefs[] = {"none", "flip", "drop", "repeat", "swap", "add", "cut", "swallow"};

Secret secret_of(SeededRng& rng) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(64, '0');
  for (char& digit : hex) digit = kDigits[rng.integer(0, 15)];
  return Secret::from_hex(hex);
}

// One side's output, record by record; one record is tampered with, or everything after some byte.
class Wire {
 public:
  using Send = std::function<void(std::span<const std::byte>)>;
  Wire(SeededRng& rng, Mischief mischief, int at, Send send, std::function<void()> reset)
      : rng_(rng), mischief_(mischief), at_(at), send_(std::move(send)), reset_(std::move(reset)) {}

  // `sealed`: these are records of a conversation that is open, of which none may be changed unnoticed.
  void put(std::span<const std::byte> bytes, bool sealed) {
    recorded.insert(recorded.end(), bytes.begin(), bytes.end());
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    while (pending_.size() >= kRecordHead) {
      const size_t size = kRecordHead + (std::to_integer<size_t>(pending_[3]) << 8) + std::to_integer<size_t>(pending_[4]);
      if (pending_.size() < size) return;
      const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(size);
      Bytes record(pending_.begin(), end);
      pending_.erase(pending_.begin(), end);
      pass(std::move(record), sealed);
    }
  }

  Bytes recorded;     // everything that was said
  bool done = false;  // the mischief took hold
  bool must_be_found = false;
  bool goodbye = false;  // the next message ends the conversation; later ones are ignored

 private:
  void pass(Bytes record, bool sealed) {
    if (gone_) return;
    if (!held_.empty()) {  // swapped with this one
      must_be_found = held_sealed_ && sealed;
      send_(record);
      send_(std::exchange(held_, {}));
      return;
    }
    if (dropped_) must_be_found = sealed, dropped_ = false;
    if (number_++ != at_ || mischief_ == Mischief::none) return send_(record);
    done = true;
    const bool application = sealed && record[0] == kApplicationData;
    const auto any = [&](size_t from, size_t to) {
      return static_cast<size_t>(rng_.integer(static_cast<int64_t>(from), static_cast<int64_t>(to)));
    };
    switch (mischief_) {
      case Mischief::flip: {
        const size_t where = any(0, record.size() - 1);
        record[where] ^= static_cast<std::byte>(1 << rng_.integer(0, 7));
        must_be_found = application && where >= kRecordHead;
        return send_(record);
      }
      case Mischief::drop: dropped_ = application; return;
      case Mischief::repeat:
        must_be_found = application && !goodbye;
        send_(record);
        return send_(record);
      case Mischief::swap: held_ = std::move(record), held_sealed_ = application; return;
      case Mischief::add: {
        Bytes other(kRecordHead + any(17, 300));
        for (std::byte& byte : other) byte = static_cast<std::byte>(rng_.next());
        other[0] = kApplicationData, other[1] = other[2] = std::byte{3};
        other[3] = static_cast<std::byte>((other.size() - kRecordHead) >> 8), other[4] = static_cast<std::byte>(other.size() - kRecordHead);
        must_be_found = application;
        send_(other);
        return send_(record);
      }
      case Mischief::cut:
      case Mischief::swallow:
        gone_ = true;
        send_(std::span(record).first(any(0, record.size() - 1)));
        if (mischief_ == Mischief::cut) reset_();
        return;
      case Mischief::none:
      case Mischief::count: break;
    }
    assert(false);
  }

  SeededRng& rng_;
  Mischief mischief_;
  int at_, number_ = 0;
  Send send_;
  std::function<void()> reset_;
  Bytes pending_, held_;
  bool held_sealed_ = false, dropped_ = false, gone_ = false;
};

// One side of one connection.
class End final : public TransportEvents, public TlsSink {
 public:
  enum Timer : uint64_t { kDeadline = 1, kSay = 2, kClose = 3 };

  End(Network& network, SeededRng& rng, int process, const TlsContext& context, Tls::Role role, Mischief mischief, int at)
      : network_(network),
        rng_(rng),
        process_(process),
        role_(role),
        tls(context, role, *this),
        wire(
            rng, mischief, at, [this](std::span<const std::byte> bytes) { cut(bytes); }, [this] { reset_due_ = true; }) {
    for (int64_t i = rng_.integer(0, 5); i > 0; --i)
      to_say_.push_back(static_cast<size_t>(rng_.chance(0.1) ? 40'000 : rng_.integer(0, 3000)));
  }

  void connect(const std::string& address) { peer_ = transport().connect(address, clock_ns() + kHelloNs); }
  // A connection that replays another side's bytes.
  void repeat(Bytes words) { words_ = std::move(words); }

  void on_connected(PeerId peer, const std::string&) override {
    peer_ = peer;
    transport().start_timer(kDeadline, clock_ns() + kHelloNs);
    if (!words_.empty()) return cut(words_);
    if (role_ == Tls::Role::client) tls.start();
    after();
  }
  void on_frame(PeerId peer, std::span<const std::byte> bytes) override {
    if (peer != peer_ || over || !words_.empty()) return;
    tls.feed(bytes);
    while (const size_t count = tls.read(reader_.space())) {
      reader_.filled(count);
      std::span<const std::byte> frame;
      while (reader_.next(&frame) == FrameReader::Next::frame) heard.insert(heard.end(), frame.begin(), frame.end()), ++frames;
    }
    after();
  }
  void on_lost(PeerId, PeerLoss) override { end(); }
  void on_timer(uint64_t timer) override {
    if (over) return;
    if (timer == kDeadline && tls.state() == Tls::State::handshake) refused = true, end();
    if (timer == kSay) say();
    if (timer == kClose && tls.state() == Tls::State::open) wire.goodbye = true, tls.close(), end();
  }
  void on_writable(PeerId) override {}
  void put(std::span<const std::byte> bytes) override { wire.put(bytes, tls.state() == Tls::State::open && opened); }

  bool opened = false, refused = false, over = false;
  Bytes said, heard;
  int64_t frames = 0;

 private:
  Transport& transport() { return network_.transport(process_); }
  uint64_t clock_ns() { return network_.clock(process_).now_ns(); }

  // Segments of any size.
  void cut(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto size = static_cast<size_t>(rng_.chance(0.4) ? rng_.integer(1, 4) : rng_.integer(1, 1500));
      const auto segment = bytes.first(std::min(bytes.size(), size));
      transport().send(peer_, segment);
      bytes = bytes.subspan(segment.size());
    }
  }
  void after() {
    if (over) return;
    if (std::exchange(reset_due_, false)) return end();
    if (tls.state() == Tls::State::failed) {
      refused = true;
      return end();
    }
    if (tls.state() == Tls::State::closed) return end();
    if (tls.state() != Tls::State::open || opened) return;
    opened = true;
    transport().start_timer(kSay, clock_ns());
    if (role_ == Tls::Role::client) transport().start_timer(kClose, clock_ns() + kTalkNs);
  }
  void say() {
    if (to_say_.empty() || tls.state() != Tls::State::open) return;
    Bytes frame(kHeaderBytes + to_say_.back());
    to_say_.pop_back();
    for (std::byte& byte : frame) byte = static_cast<std::byte>(rng_.next());
    write_header({.type = MessageType::image, .length = static_cast<uint32_t>(frame.size() - kHeaderBytes)},
                 std::span(frame).first<kHeaderBytes>());
    said.insert(said.end(), frame.begin(), frame.end());
    tls.write(frame);
    transport().start_timer(kSay, clock_ns() + static_cast<uint64_t>(rng_.between(0, 200)) * kMs);
    after();
  }
  void end() {
    over = true;
    transport().close(peer_);
    for (const Timer timer : {kDeadline, kSay, kClose}) transport().stop_timer(timer);
  }

  Network& network_;
  SeededRng& rng_;
  int process_;
  Tls::Role role_;
  PeerId peer_ = 0;
  FrameReader reader_;
  std::vector<size_t> to_say_;
  Bytes words_;
  bool reset_due_ = false;

 public:
  Tls tls;
  Wire wire;
};

struct Line {
  bool right_key = true;
  Mischief mischief = Mischief::none;
  bool at_client = false;  // who is wronged
  std::unique_ptr<End> client, server;
};

class TlsWorld {
 public:
  explicit TlsWorld(uint64_t seed)
      : rng_(mix(seed, 0x746c73)),
        network_(seed),
        cluster_(secret_of(rng_)),
        rekey_(rng_.chance(0.3) ? 3000 : uint64_t{64} << 30),
        server_context_(credentials_of(cluster_, {cluster_.for_job(7)}), rekey_) {
    network_.set_quality({.latency_ms = rng_.between(0.05, 20), .jitter_ms = rng_.between(0, 20), .bytes_per_s = 1e7});
    // Who comes with the cluster's key or with this job's is let in; another job's worker and a stranger are not.
    contexts_.push_back(std::make_unique<TlsContext>(credentials_of(cluster_), rekey_));
    contexts_.push_back(std::make_unique<TlsContext>(credentials_of(cluster_.for_job(7)), rekey_));
    contexts_.push_back(std::make_unique<TlsContext>(credentials_of(cluster_.for_job(8)), rekey_));
    contexts_.push_back(std::make_unique<TlsContext>(credentials_of(secret_of(rng_)), rekey_));
    for (int64_t i = rng_.integer(2, 6); i > 0; --i) add_line();
  }

  TlsOutcome run() {
    settle();
    for (const Line& line : lines_) check(line);
    say_again();
    for (const auto& end : {&Line::client, &Line::server})
      for (const Line& line : lines_)
        if (outcome_.passed() && !((line.*end)->over)) fail("a side waits for ever");
    return outcome_;
  }

 private:
  void add_line() {
    const auto number = static_cast<int>(lines_.size());
    const auto key = static_cast<size_t>(rng_.chance(0.7) ? rng_.integer(0, 1) : rng_.integer(2, 3));
    Line line{.right_key = key < 2};
    if (line.right_key && rng_.chance(0.7)) {
      line.mischief = static_cast<Mischief>(rng_.integer(1, static_cast<int64_t>(Mischief::count) - 1));
      line.at_client = rng_.chance(0.5);
    }
    const int at = static_cast<int>(rng_.integer(0, rng_.chance(0.5) ? 3 : 10));
    const auto make = [&](int process, const TlsContext& context, Tls::Role role) {
      const bool mischievous = (role == Tls::Role::server) == line.at_client;
      auto end = std::make_unique<End>(network_, rng_, process, context, role, mischievous ? line.mischief : Mischief::none, at);
      network_.boot(process, end.get());
      return end;
    };
    const std::string address = "server" + std::to_string(number) + ":1";
    line.server = make(network_.add_process(2 * number + 1, address), server_context_, Tls::Role::server);
    line.client = make(network_.add_process(2 * number, "client" + std::to_string(number) + ":1"), *contexts_[key], Tls::Role::client);
    End* client = line.client.get();
    network_.at(network_.now_ns() + static_cast<uint64_t>(rng_.between(0, 100)) * kMs, [client, address] { client->connect(address); });
    lines_.push_back(std::move(line));
  }

  void settle() {
    bool over = false;
    network_.at(network_.now_ns() + 20'000 * kMs, [&] { over = true; });
    while (!over && network_.step()) {}
  }

  void check(const Line& line) {
    const End &client = *line.client, &server = *line.server;
    const auto begins = [](const Bytes& whole, const Bytes& part) {
      return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
    };
    if (!begins(client.said, server.heard) || !begins(server.said, client.heard)) fail("bytes were received that were not sent");
    outcome_.sites["opened"] += client.opened && server.opened;
    outcome_.sites["refused"] += client.refused + server.refused;
    outcome_.sites["frames"] += client.frames + server.frames;
    outcome_.sites["keys_renewed"] += client.tls.key_updates() + server.tls.key_updates() > 0;
    if (!line.right_key) {
      ++outcome_.sites["wrong_key"];
      if (client.opened || server.opened) fail("a wrong key opened a connection");
      if (!client.refused || !server.refused) fail("a wrong key was not refused");
      return;
    }
    const Wire& wire = line.at_client ? server.wire : client.wire;
    const End& wronged = line.at_client ? client : server;
    if (!wire.done) {
      if (!client.opened || !server.opened) fail("the right key did not open a connection: " + client.tls.problem() + server.tls.problem());
      if (server.heard != client.said || client.heard != server.said) fail("not everything that was said was heard");
      if (server.tls.state() != Tls::State::closed) fail("the end was not told");
      return;
    }
    ++outcome_.sites[kMischiefs[static_cast<size_t>(line.mischief)]];
    if (wire.must_be_found && !wronged.refused) fail(std::string("not noticed: ") + kMischiefs[static_cast<size_t>(line.mischief)]);
    if (wire.must_be_found) ++outcome_.sites["noticed"];
  }

  // Everything that an honest client said, its proof of the key included, is said to a server once more.
  void say_again() {
    for (const Line& line : lines_) {
      if (!line.right_key || line.mischief != Mischief::none || !outcome_.passed()) continue;
      const int host = 1000 + static_cast<int>(&line - lines_.data());
      const int at = network_.add_process(host, "again:1"), from = network_.add_process(host + 100, "thief:1");
      End server(network_, rng_, at, server_context_, Tls::Role::server, Mischief::none, 0);
      End thief(network_, rng_, from, *contexts_[3], Tls::Role::client, Mischief::none, 0);
      thief.repeat(line.client->wire.recorded);
      network_.boot(at, &server), network_.boot(from, &thief);
      thief.connect("again:1");
      settle();
      ++outcome_.sites["said_again"];
      if (server.opened || !server.heard.empty()) fail("recorded words opened a connection");
      if (!server.refused) fail("recorded words were not refused");
      network_.kill(at, false), network_.kill(from, false);
      return;
    }
  }

  void fail(const std::string& what) {
    if (outcome_.failure.empty()) outcome_.failure = what;
  }

  SeededRng rng_;
  Network network_;
  Secret cluster_;
  uint64_t rekey_;
  TlsContext server_context_;
  std::vector<std::unique_ptr<TlsContext>> contexts_;
  std::vector<Line> lines_;
  TlsOutcome outcome_;
};

}  // namespace

TlsOutcome simulate_tls(uint64_t seed) { return TlsWorld(seed).run(); }

}  // namespace perigee::sim
