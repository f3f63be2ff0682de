#include "cluster/launch/standby_main.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>

#include "cluster/data/rooted_opener.h"
#include "cluster/launch/launcher.h"
#include "cluster/membership/standby.h"
#include "cluster/uv/process.h"
#include "src/net/address.h"

namespace perigee {
namespace {

constexpr double kGiveUpSeconds = 120;

// Asks the coordinator what the run is. Tries again for a while: it may be busy.
class Introduction final : public TransportEvents {
 public:
  Introduction(UvLoop& loop, const StandbyMainOptions& options)
      : loop_(loop), options_(options), transport_(loop, {.key = options.key}), begun_ns_(loop.now_ns()) {
    transport_.set_events(this);
  }
  Inherit ask(uint64_t* job) {
    connect();
    loop_.run();
    if (error_) throw *error_;
    *job = job_;
    return answer_;
  }

  void on_connected(PeerId peer, const std::string&) override {
    transport_.send(peer, encode(Follow{.version = PERIGEE_VERSION, .name = options_.name, .host = host_name()}, FrameHeader{}));
    transport_.start_timer(kTimer, loop_.now_ns() + 3'000'000'000);
  }
  void on_frame(PeerId, std::span<const std::byte> frame) override {
    FrameHeader header;
    if (!read_header(frame, &header) || job_ != 0) return;
    const auto payload = frame.subspan(kHeaderBytes);
    if (Refuse refuse; header.type == MessageType::refuse && decode(payload, &refuse))
      return end(Error(ErrorKind::cluster, {options_.coordinator, refuse.what, refuse.got, refuse.expected, refuse.hint}));
    if (header.type != MessageType::inherit || !decode(payload, &answer_)) return;
    job_ = header.job;
    loop_.stop();
  }
  void on_lost(PeerId, PeerLoss why) override {
    if (job_ != 0 || error_) return;
    if (why == PeerLoss::unauthenticated)
      return end(Error(ErrorKind::authentication, {.where = options_.coordinator,
                                                   .what = "the coordinator does not accept this key",
                                                   .hint = "start its agent with the --secret file of the run"}));
    transport_.start_timer(kTimer, loop_.now_ns() + 300'000'000);
  }
  void on_timer(uint64_t) override {
    if (peer_ != 0) transport_.close(peer_);
    connect();
  }
  void on_writable(PeerId) override {}

 private:
  static constexpr uint64_t kTimer = 1;
  void connect() {
    const uint64_t now = loop_.now_ns();
    if (static_cast<double>(now - begun_ns_) * 1e-9 > kGiveUpSeconds)
      return end(Error(ErrorKind::cluster, {.where = options_.coordinator, .what = "no coordinator answers the standby"}));
    peer_ = transport_.connect(options_.coordinator, now + 5'000'000'000);
  }
  void end(const Error& error) {
    error_ = error;
    loop_.stop();
  }

  UvLoop& loop_;
  const StandbyMainOptions& options_;
  UvTransport transport_;
  uint64_t begun_ns_ = 0, job_ = 0;
  PeerId peer_ = 0;
  Inherit answer_;
  std::optional<Error> error_;
};

// The standby on its loop, until something ends it: then the host looks at what that was.
class Following final : public StandbyEvents {
 public:
  Following(UvLoop& loop, const std::function<void(const Json&)>& show) : loop_(loop), show_(show) {}
  void on_event(const Json& event) override { show_(event); }
  void on_take_over(const std::string& why) override {
    cause = why;
    loop_.stop();
  }
  void on_stopped(const std::string&, bool) override { loop_.stop(); }
  void on_failed(const Error& failed) override {
    error = failed;
    loop_.stop();
  }
  std::optional<std::string> cause;  // it takes over
  std::optional<Error> error;

 private:
  UvLoop& loop_;
  const std::function<void(const Json&)>& show_;
};

int64_t whole(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value && value->is_int() ? value->as_int() : 0;
}

LaunchOptions launch_options(const StandbyMainOptions& options, const Inherit& inherit, SourceOpener* opener) {
  const Json launch = Json::parse(inherit.launch, "the coordinator's launcher");
  LaunchOptions out;
  if (const Json* agents = launch.find("agents"); agents && agents->is_array())
    for (const Json& agent : agents->as_array()) out.agents.push_back(agent.as_string());
  out.workers = static_cast<int>(whole(launch, "workers"));
  out.min_workers = static_cast<int>(std::max<int64_t>(1, whole(launch, "min_workers")));
  if (const Json* lease = launch.find("lease"); lease && lease->is_string()) out.lease = lease->as_string();
  out.secret = options.secret;
  out.session.trainer.threads = static_cast<int>(whole(launch, "threads"));
  out.session.trainer.opener = opener;
  return out;
}

// Opens the data and builds the network, as the coordinator's launcher did: what fails now would fail when it is too late.
ClusterJob prepare(const StandbyMainOptions& options, const Inherit& inherit, SourceOpener* opener) {
  const Job job(Json::parse(inherit.job, "job"), "job", inherit.folder);
  TrainerOptions trainer{.threads = options.threads, .measure = false, .opener = opener};
  if (!inherit.tuning.empty()) trainer.tuning = Json::parse(inherit.tuning, "tuning");
  ClusterJob prepared(job, trainer);
  prepared.tuning = inherit.tuning;  // replicas stay equal only with the same table
  prepared.facts.data_folder = inherit.folder;
  return prepared;
}

std::string advertised(const StandbyMainOptions& options, const std::string& listening, bool loopback) {
  std::string advertise = options.advertise;
  if (!loopback && advertise.empty() && options.interface_cidr.empty()) advertise = address_towards(options.coordinator);
  return advertised_address(listening, advertise, options.interface_cidr);
}

}  // namespace

int run_standby(const StandbyMainOptions& options) {
  follow_parent(options.parent);  // two standbys would take turns at the coordinator
  signal(SIGINT, SIG_IGN);        // on a terminal it came to the agent as well, which ends this process
  std::unique_ptr<RootedOpener> opener;
  if (!options.data_root.empty()) opener = std::make_unique<RootedOpener>(std::filesystem::canonical(options.data_root).string());

  UvLoop loop;
  loop.on_signal(SIGTERM, [](int number) { _exit(128 + number); });
  uint64_t job_id = 0;
  const Inherit inherit = Introduction(loop, options).ask(&job_id);
  ClusterJob job = prepare(options, inherit, opener.get());

  UvTransportOptions transport_options{.key = options.key};
  if (!options.secret.empty()) transport_options.accepted_keys.push_back(options.secret);
  auto transport = std::make_unique<UvTransport>(loop, transport_options);
  const bool loopback = on_loopback(options.coordinator) && options.advertise.empty() && options.interface_cidr.empty();
  const std::string listening = transport->listen(loopback ? "127.0.0.1:0" : ":0");
  const std::string address = advertised(options, listening, loopback);
  SystemRng rng;
  Following following(loop, options.show);
  Standby standby({.coordinator = options.coordinator,
                   .name = options.name,
                   .host = host_name(),
                   .address = address,
                   .job_id = job_id,
                   .lease_outside = !launch_options(options, inherit, opener.get()).lease.empty()},
                  loop, rng, *transport, following);
  transport->set_events(&standby);
  standby.start();
  loop.run();
  if (following.error) throw *following.error;
  if (!following.cause) return 0;
  outlive_parent();  // it speaks for the run now, whose end is also its own

  static std::atomic<bool> stop = false;
  loop.on_signal(SIGTERM, [](int) { stop = true; });
  Launcher launcher({.loop = loop,
                     .transport = std::move(transport),
                     .listening = listening,
                     .address = address,
                     .key = options.key,
                     .job_id = job_id,
                     .job = std::move(job),
                     .inheritance = standby.take(),
                     .from = options.coordinator,
                     .cause = *following.cause},
                    launch_options(options, inherit, opener.get()), stop);
  launcher.session().add_sink(options.show);
  const Json end = launcher.run();
  const Json* stopped = end.find("stopped");
  return stopped && *stopped == Json("interrupted") ? 128 + SIGTERM : 0;
}

}  // namespace perigee
