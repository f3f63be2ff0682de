#include "cluster/launch/agent_main.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>

#include "cluster/membership/agent.h"
#include "cluster/uv/process.h"
#include "cluster/uv/uv_transport.h"
#include "src/core/error.h"
#include "src/net/address.h"
#include "src/net/loop.h"
#include "src/net/timer.h"

namespace perigee {
namespace {

constexpr uint64_t kDrainedMs = 50;  // between looks at whether an agent that is to end has ended its workers

// Starts and ends of the agent's processes, for its log.
class LoggedProcesses final : public Processes {
 public:
  LoggedProcesses(UvProcesses& processes, std::function<void(const Json&)> log) : processes_(processes), log_(std::move(log)) {}
  uint32_t start(const WorkerProcess& process, std::string* error) override {
    const uint32_t pid = processes_.start(process, error);
    if (pid != 0) names_[pid] = process.name;
    Json event = Json(Json::Object{{"event", pid != 0 ? "worker_started" : "worker_not_started"}, {"worker", process.name}});
    if (pid != 0) event.set("pid", static_cast<int64_t>(pid));
    else event.set("cause", *error);
    event.set("coordinator", process.coordinator);
    log_(event);
    return pid;
  }
  void stop(uint32_t process, bool now) override { processes_.stop(process, now); }
  void ended(uint32_t process, int code, int signal, const std::string& tail) {
    Json event = Json(Json::Object{{"event", "worker_ended"}, {"worker", names_[process]}, {"pid", static_cast<int64_t>(process)}});
    if (signal != 0) event.set("signal", signal);
    else event.set("code", code);
    if (!tail.empty() && code != 0) event.set("said", tail);
    names_.erase(process);
    log_(event);
  }

 private:
  UvProcesses& processes_;
  std::function<void(const Json&)> log_;
  std::map<uint32_t, std::string> names_;
};

class Question final : public TransportEvents {
 public:
  Question(const std::string& address, const Secret& secret, double seconds, bool drains = false)
      : address_(address), drains_(drains), with_secret_(!secret.empty()), transport_(loop_, {.key = secret}) {
    transport_.set_events(this);
    const uint64_t deadline = loop_.now_ns() + static_cast<uint64_t>(seconds * 1e9);
    transport_.start_timer(1, deadline);
    transport_.connect(address, deadline);
  }
  Json answer() {
    loop_.run();
    if (error_) throw *error_;
    return answer_;
  }
  void on_connected(PeerId peer, const std::string&) override {
    transport_.send(peer, encode(Status{.version = PERIGEE_VERSION}, FrameHeader{.type = MessageType::status}));
  }
  void on_frame(PeerId peer, std::span<const std::byte> frame) override {
    FrameHeader header;
    Report report;
    if (!read_header(frame, &header) || header.type != MessageType::report) return;
    if (!decode(frame.subspan(kHeaderBytes), &report))
      return end(Error(ErrorKind::cluster,
                       {address_, "its answer makes no sense", "", "", "another version may run there: install the same on both"}));
    try {
      answer_ = Json::parse(report.json, address_);
      if (!drains_) return loop_.stop();
      const Json* role = answer_.find("role");
      if (!role || *role != Json("agent"))
        return end(Error(ErrorKind::usage, {.where = address_,
                                            .what = "is no agent, and has no workers to end",
                                            .got = role && role->is_string() ? role->as_string() : "the coordinator of a run",
                                            .expected = "the address of a `perigee agent`"}));
      asked_ = true;
      transport_.send(peer, encode(Stop{.why = "drained", .finished = true}, FrameHeader{.type = MessageType::stop}));
    } catch (const Error& error) {
      end(error);
    }
  }
  void on_lost(PeerId, PeerLoss why) override {
    if (asked_) return loop_.stop();  // it has ended
    if (why == PeerLoss::unauthenticated)
      return end(
          Error(ErrorKind::authentication,
                {.where = address_, .what = "it does not accept this secret", .hint = "use the --secret file that it was started with"}));
    end(Error(ErrorKind::cluster,
              {.where = address_,
               .what = "no agent or coordinator answers there",
               .got = std::string(to_string(why)) + (transport_.loss_detail().empty() ? "" : ": " + transport_.loss_detail()),
               .hint = why == PeerLoss::closed && !with_secret_ ? "was it started with a secret? Then give the same file with --secret"
                       : why == PeerLoss::refused               ? "is the address right, and does an agent or a run with --listen have it?"
                                                                : ""}));
  }
  void on_timer(uint64_t) override {
    end(Error(ErrorKind::cluster,
              {address_, "it does not answer", "", "", "is the address right, and does no firewall hold the connection back?"}));
  }
  void on_writable(PeerId) override {}

 private:
  void end(const Error& error) {
    if (!error_) error_ = error;
    loop_.stop();
  }
  std::string address_;
  const bool drains_;
  bool asked_ = false, with_secret_;
  UvLoop loop_;
  UvTransport transport_;
  Json answer_;
  std::optional<Error> error_;
};

}  // namespace

int run_agent(const AgentMainOptions& options) {
  int exit_code = 0;
  UvLoop loop;
  SystemRng rng;
  UvTransport transport(loop, {.key = options.secret});
  std::optional<Agent> agent;
  std::optional<LoggedProcesses> logged;
  UvProcessOptions process_options;
  if (!options.secret.empty()) process_options.secret = options.secret.hex();
  // Workers outlive their coordinator, since another one will come. But without their agent they could not be stopped or replaced, and
  // the agent that is started in its place would start the same ones beside them.
  process_options.die_with_parent = true;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) process_options.arguments.insert(process_options.arguments.end(), {name, value});
  };
  if (!options.data_root.empty()) {
    std::error_code status;
    const auto root = std::filesystem::canonical(options.data_root, status);
    if (status) throw Error(ErrorKind::usage, {"--data-root", "there is no such folder", options.data_root});
    add("--data-root", root.string());
  }
  add("--site", options.site);
  add("--advertise", options.advertise);
  add("--interface", options.interface_cidr);
  UvProcesses processes(
      loop.handle(), process_options,
      [&](uint32_t process, int code, int signal, const std::string& tail) {
        loop.guard([&] {
          logged->ended(process, code, signal, tail);
          agent->on_exited(process, code, signal, tail);
          if (exit_code != 0 && agent->processes() == 0) loop.stop();
        });
      },
      [&](const std::string& worker, const std::string& line) {
        options.log(Json(Json::Object{{"event", "said"}, {"worker", worker}, {"line", line}}));
      });
  logged.emplace(processes, options.log);
  AgentOptions agent_options{.name = options.name.empty() ? host_name() : options.name, .slots = static_cast<uint32_t>(options.slots)};
  if (!options.restarts.empty()) read_restarts(options.restarts, "--restarts", &agent_options);
  agent.emplace(agent_options, loop, rng, transport, *logged);
  transport.set_events(&*agent);
  const std::string address = transport.listen(options.listen);
  options.log(Json(
      Json::Object{{"event", "listening"}, {"address", address}, {"pid", static_cast<int64_t>(getpid())}, {"version", PERIGEE_VERSION}}));
  for (const int signal : {SIGTERM, SIGINT})
    loop.on_signal(signal, [&](int number) {
      if (exit_code != 0) _exit(128 + number);
      exit_code = 128 + number;
      options.log(Json(Json::Object{{"event", "stopping"}, {"workers", static_cast<int64_t>(agent->processes())}}));
      agent->stop();
      if (agent->processes() == 0) loop.stop();
    });
  UvTimer drained(loop, [&] {
    if (agent->stopping() && agent->processes() == 0) loop.stop();
  });
  drained.start(kDrainedMs, kDrainedMs);
  loop.run();
  return exit_code;
}

void drain_agent(const std::string& address, const Secret& secret, double seconds) { Question(address, secret, seconds, true).answer(); }

Json ask_status(const std::string& address, const Secret& secret, double seconds) { return Question(address, secret, seconds).answer(); }

}  // namespace perigee
