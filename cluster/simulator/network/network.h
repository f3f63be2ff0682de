// A network of simulated processes on simulated hosts, with one virtual clock: connections with latency, jitter, bandwidth and loss as TCP
// shows it (delay, then a broken connection), partitions in one direction or both, half-open connections, processes that die, lose
// power, are stopped and go on. Everything follows from the seed; nothing here knows Perigee's messages.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/protocol/transport.h"
#include "cluster/simulator/seeded_rng.h"

namespace perigee::sim {

inline constexpr uint64_t kMs = 1'000'000;  // nanoseconds

struct LinkQuality {
  double latency_ms = 0.2, jitter_ms = 0.05, bytes_per_s = 1e9;
  double loss = 0;        // of frames; TCP sends them again after 200 ms, 400 ms, ...
  double duplicates = 0;  // of frames: an intruder or a bug repeats what was sent before on the same connection
  int repeated = 1;       // so many frames in a row, at most, as they were sent
  bool shared = false;    // bytes_per_s is of each host, each way, for all its connections together; else of each connection
};

class Network {
 public:
  explicit Network(uint64_t seed);
  ~Network();

  uint64_t now_ns() const { return now_; }
  uint64_t events() const { return events_; }
  uint64_t bytes() const { return bytes_; }  // of frames between hosts
  uint64_t trace_hash() const { return trace_; }
  // One event; false when there is none.
  bool step();
  // Something that the world does.
  void at(uint64_t when_ns, std::function<void()> what);

  // ---- hosts and processes ----
  int add_process(int host, const std::string& address);
  void set_clock(int process, uint64_t offset_ns, double rate);
  void boot(int process, TransportEvents* handler);  // it listens at its address
  // The kernel closes its connections: the others are told. `power`: no notice is sent, and its host does not answer until boot().
  void kill(int process, bool power);
  void pause(int process);  // SIGSTOP: what happens to it waits
  void resume(int process);
  void unlisten(int process);  // nobody reaches it any more
  bool alive(int process) const;
  bool paused(int process) const;
  Clock& clock(int process);
  Transport& transport(int process);
  Rng& rng(int process);
  // Something that a process does, unless it is dead by then; later if it is stopped.
  void post(int process, uint64_t delay_ns, std::function<void()> what);

  // ---- the wires ----
  void set_quality(const LinkQuality& quality) { quality_ = quality; }
  void set_host_latency(int host, double extra_ms) { host_at(host).extra_ms = extra_ms; }
  void set_host_rate(int host, double bytes_per_s) { host_at(host).bytes_per_s = bytes_per_s; }
  void block(int from_host, int to_host);  // counted: each block needs its unblock
  void unblock(int from_host, int to_host);
  bool blocked(int from_host, int to_host) const;
  void reset_connections(int host_a, int host_b);
  // Open connections between the two carry nothing any more, and neither side is told. Returns their numbers. Later ones work.
  std::vector<uint64_t> mute_connections(int host_a, int host_b);
  // As behind a relay that forwards nothing: open connections are muted, and attempts to connect get no answer until their own deadline,
  // however soon after it works again.
  void swallow(int host_a, int host_b, uint64_t until_ns);
  std::vector<uint64_t> connections_between(int host_a, int host_b) const;
  // A side of it that lives and believes in it, though it is no stranger there.
  struct Believer {
    int process = -1;       // none
    uint64_t heard_ns = 0;  // when something came by it last
  };
  Believer believer(uint64_t connection) const;
  void set_queue_bytes(size_t bytes) { queue_bytes_ = bytes; }
  // The bodies of chunks travel as numbers of bytes and arrive as zeros: for those who ask when and how much, not what.
  void count_chunks() { counts_chunks_ = true; }

  // ---- what must not be left behind, and what was reached ----
  size_t open_connections(int process) const;
  size_t running_timers(int process) const;
  uint64_t peak_queue_bytes() const { return peak_queue_; }
  struct Reached {
    uint64_t frames = 0, lost_frames = 0, duplicates = 0, resets = 0, timeouts = 0, refused = 0, full_queues = 0, half_open = 0;
  };
  const Reached& reached() const { return reached_; }
  struct Traffic {
    uint64_t sent = 0, received = 0;  // bytes of frames, to and from other hosts
  };
  const Traffic& traffic(int host) { return host_at(host).traffic; }
  std::function<void(int from, int to, std::span<const std::byte> frame)> watch;  // hears every frame that arrives
 private:
  enum class Kind : uint8_t { timer, frame, established, lost, writable, call, reach, check, departed };
  struct Event {
    uint64_t at, order, a, b;
    Kind kind;
    int process;  // -1: the world's
    uint64_t incarnation;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Host {
    double extra_ms = 0, bytes_per_s = 0;
    bool down = false;
    std::deque<std::pair<uint64_t, int>> turns;  // sides that have frames to send, where connections share the rate
    bool sending = false;
    uint64_t receives_until = 0;
    Traffic traffic;
  };
  // One end of a connection.
  struct Side {
    int process = -1;
    uint64_t incarnation = 0;
    bool open = false;                        // the process may send; connected or about to be
    bool established = false;                 // it has been told so
    uint64_t heard_at = 0;                    // when the last frame came; 0: none has
    std::deque<std::vector<std::byte>> sent;  // on the way to the other end, in order; an empty one is the end
    size_t scheduled = 0;                     // of those, have an arrival
    uint64_t queued = 0, free_at = 0, last_arrival = 0, unacknowledged_since = 0;
    bool refused = false, in_turn = false;
    PeerLoss end_as = PeerLoss::closed;
  };
  struct Connection {
    std::array<Side, 2> sides;
    std::string address;
    bool muted = false;
    uint64_t deadline = 0;
    std::vector<std::vector<std::byte>> remembered;  // for duplicates: frames that were sent one after the other
  };
  class Process;

  void push(uint64_t at, Kind kind, int process, uint64_t incarnation, uint64_t a, uint64_t b);
  void call(uint64_t when_ns, int process, uint64_t incarnation, std::function<void()> what);
  void run(const Event& event);
  void deliver(const Event& event);
  PeerId connect(int process, const std::string& address, uint64_t deadline_ns);
  bool send(int process, PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body);
  void close(int process, PeerId peer);
  void reach(uint64_t connection);
  void arrive(uint64_t connection, int from);
  void schedule(uint64_t connection, int from);
  void arrive_at(uint64_t connection, int from, uint64_t arrival);
  void take_turns(uint64_t connection, int from);
  void next_turn(int host);
  void depart(uint64_t connection, int from, int host);
  void await_acknowledgement(uint64_t connection, int from);
  void check(uint64_t connection, int from);
  void hand_over(TransportEvents& handler, PeerId peer, std::span<const std::byte> frame);
  void finish(Connection& connection, uint64_t number, int side, PeerLoss as);
  void lose(uint64_t connection, int side, PeerLoss why);
  void unblocked();
  bool clear(const Side& a, const Side& b) const;
  size_t size_of(std::span<const std::byte> frame) const;
  double rate_of(int host);
  double latency_ns(const Side& from, const Side& to);
  int host_of(const Side& side) const;
  Host& host_at(int host);
  Connection* find(uint64_t number) const;
  void forget_if_over(uint64_t number);
  PeerId peer_of(uint64_t connection, int side) const { return connection * 2 + static_cast<uint64_t>(side); }
  std::vector<std::byte> buffer();
  void note(uint64_t a, uint64_t b) { trace_ = mix(mix(trace_, a), b); }

  uint64_t now_ = 1'000'000'000, order_ = 0, events_ = 0, bytes_ = 0, trace_ = 0;
  SeededRng rng_;
  std::vector<Event> heap_;
  std::vector<std::function<void()>> calls_;
  std::vector<uint64_t> free_calls_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<int, Host> hosts_;
  std::map<std::string, int> addresses_;
  std::map<std::pair<int, int>, int> blocks_;
  std::map<std::pair<int, int>, uint64_t> swallowed_;  // between two hosts, the lower one first: until when
  LinkQuality quality_;
  size_t queue_bytes_ = size_t{1} << 20;
  uint64_t peak_queue_ = 0;
  std::deque<std::unique_ptr<Connection>> connections_;  // by number, from first_connection_ on
  uint64_t first_connection_ = 1;
  uint64_t chunks_ = 0;  // delivered
  bool counts_chunks_ = false;
  static constexpr size_t kCountedBody = sizeof(uint64_t);  // what is carried of a counted chunk's body: of a payload's, its length
  std::vector<std::byte> blank_;                            // a chunk that was only counted, as it is handed over
  std::vector<std::vector<std::byte>> spare_;
  Reached reached_;
};

}  // namespace perigee::sim
