#include "cluster/launch/worker_main.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "cluster/data/example_client.h"
#include "cluster/data/partition_exchange.h"
#include "cluster/data/rooted_opener.h"
#include "cluster/ledger/run_record.h"
#include "cluster/ledger/trainer_record.h"
#include "cluster/membership/worker.h"
#include "cluster/replica/trainer_replica.h"
#include "cluster/uv/process.h"
#include "cluster/uv/uv_transport.h"
#include "src/core/cores.h"
#include "src/core/warning.h"
#include "src/data/records/partition.h"
#include "src/graph/plan.h"
#include "src/net/address.h"
#include "src/net/loop.h"

namespace perigee {
namespace {

constexpr double kLeaveSeconds = 10;   // from SIGTERM to the end, whatever the coordinator says
constexpr double kPatientSeconds = 8;  // so long a patient worker goes on after it

// Asks the coordinator which job it has: the job's key follows from the cluster's. Tries each address in turn, with back-off. Its connection
// stays until the worker has joined, for at most 5 s: a coordinator that ends in between says so on it, and the worker need not look for it.
class JobQuestion final : public TransportEvents {
 public:
  JobQuestion(UvLoop& loop, WorkerMainOptions& options) : loop_(loop), options_(options), transport_(loop, {.key = options.secret}) {
    transport_.set_events(this);
    begun_ns_ = loop.now_ns();
  }
  // False: the run is over.
  bool ask(uint64_t* job) {
    connect();
    loop_.run();
    if (error_) throw *error_;
    *job = job_;
    return !over_;
  }
  void on_over(std::function<void()> call) { call_ = std::move(call); }
  void stop() { loop_.stop(); }

  void on_connected(PeerId peer, const std::string&) override {
    transport_.send(peer, encode(Status{.version = PERIGEE_VERSION}, FrameHeader{.type = MessageType::status}));
    transport_.start_timer(kTimer, loop_.now_ns() + 3'000'000'000);
  }
  void on_frame(PeerId, std::span<const std::byte> frame) override {
    FrameHeader header;
    if (!read_header(frame, &header)) return;
    if (Refuse refuse; job_ == 0 && header.type == MessageType::refuse && decode(frame.subspan(kHeaderBytes), &refuse))
      return end(Error(static_cast<ErrorKind>(std::clamp<int>(refuse.kind, 2, 7)),
                       {options_.coordinators[0], refuse.what, refuse.got, refuse.expected, refuse.hint}));
    if (header.job == 0) return;
    over_ = header.type == MessageType::stop;
    if (std::exchange(job_, header.job) == 0) loop_.stop();
    else if (over_ && call_) call_();
  }
  void on_lost(PeerId, PeerLoss why) override {
    if (job_ != 0) return;  // answered
    if (why == PeerLoss::unauthenticated)
      return end(Error(ErrorKind::authentication, {.where = options_.coordinators[attempt_ % options_.coordinators.size()],
                                                   .what = "the coordinator does not accept this secret",
                                                   .hint = "use the --secret file that `perigee train` was started with"}));
    ++attempt_;
    transport_.start_timer(kTimer, loop_.now_ns() + 500'000'000);
  }
  void on_timer(uint64_t) override {
    if (job_ != 0) return;
    if (peer_ != 0) transport_.close(peer_);
    connect();
  }
  void on_writable(PeerId) override {}

 private:
  static constexpr uint64_t kTimer = 1;
  void connect() {
    const uint64_t now = loop_.now_ns();
    if (static_cast<double>(now - begun_ns_) * 1e-6 >= options_.give_up_ms)
      return end(Error(ErrorKind::cluster, {.where = options_.coordinators[0],
                                            .what = "no coordinator was found",
                                            .hint = "is `perigee train --listen ...` running there?"}));
    if (attempt_ > 0 && options_.look_up) try {  // who was there may be gone, and another in its place
        options_.coordinators = {options_.look_up()};
      } catch (const Error&) {
        // There is none, or etcd does not answer: the next attempt asks again.
      }
    peer_ = transport_.connect(options_.coordinators[attempt_ % options_.coordinators.size()], now + 5'000'000'000);
  }
  void end(const Error& error) {
    error_ = error;
    loop_.stop();
  }

  UvLoop& loop_;
  WorkerMainOptions& options_;
  UvTransport transport_;
  uint64_t begun_ns_ = 0, job_ = 0;
  bool over_ = false;
  std::function<void()> call_;
  size_t attempt_ = 0;
  PeerId peer_ = 0;
  std::optional<Error> error_;
};

// Ends the process some time after it should have ended by itself: a trainer that hangs can be neither stopped nor joined, and who
// started this worker waits for its end to replace it.
class LastResort {
 public:
  ~LastResort() {
    if (!thread_.joinable()) return;
    over_.set_value();
    thread_.join();
  }
  void arm(int code) {
    thread_ = std::thread([code, over = over_.get_future()] {
      if (over.wait_for(std::chrono::duration<double>(kLeaveSeconds)) == std::future_status::timeout) _exit(code);
    });
  }

 private:
  std::promise<void> over_;
  std::thread thread_;
};

// Opens what --partition names, "NAME=SOURCE" with the source as JSON, and hashes it.
std::map<std::string, SourcePtr> open_partitions(const std::vector<std::string>& given, SourceOpener* opener,
                                                 std::vector<HeldPartition>* held) {
  std::map<std::string, SourcePtr> sources;
  for (const std::string& text : given) {
    const size_t at = text.find('=');
    const std::string name = text.substr(0, at);
    if (at == std::string::npos || name.empty() || text[at + 1] != '{')
      throw Error(ErrorKind::usage, {.where = "--partition",
                                     .what = "must say what the partition is called, and which source it is",
                                     .got = text.substr(0, 64),
                                     .expected = R"(NAME={"type": "npz", "file": "part.npz", "x": "x", "y": "y"})"});
    const Json description = Json::parse(text.substr(at + 1), "--partition " + name);
    const Config config(description, "--partition " + name, ErrorKind::data);
    const SourcePtr source = opener ? opener->open(name, config, ".") : open_source(config, ".");
    if (!sources.emplace(name, source).second || sources.size() > kMaxPartitions)
      throw Error(ErrorKind::usage, {.where = "--partition", .what = "is given twice, or too often", .got = name});
    held->push_back({.name = name, .hash = partition_hash(*source), .rows = source->size()});
  }
  return sources;
}

// Worker and replica need each other; this stands between them.
class WorkerProcessMain final : public WorkerEvents, public ReplicaEvents {
 public:
  WorkerProcessMain(UvLoop& loop, const WorkerMainOptions& options, const Secret& key)
      : loop_(loop),
        transport_(loop, {.key = key}),
        opener_(options.data_root.empty() ? nullptr : std::make_unique<RootedOpener>(options.data_root)),
        examples_([this] { wake_examples(); }),
        partition_transport_(loop, {.key = key}),
        partitions_(open_partitions(options.partitions, opener_.get(), &held_), loop, partition_transport_,
                    [this](std::function<void()> work) { loop_.post(std::move(work)); }),
        trainer_record_(options.server || options.record.empty() ? nullptr : std::make_unique<TrainerRecord>(options.record)),
        replica_(*this, [this] { wake(); },
                 {.opener = opener_.get(),
                  .examples = &examples_,
                  .partitions = &partitions_,
                  .trace = &trace_,
                  .record = trainer_record_.get(),
                  .slot = options.slot}),
        patient_(options.patient),
        started_by_us_(options.started_by_us),
        record_path_(options.record) {
    WorkerOptions worker{.coordinators = options.coordinators, .name = options.name, .host = host_identity(), .site = options.site};
    worker.pid = static_cast<uint32_t>(getpid());
    if (worker.name.empty()) worker.name = host_name() + "/" + std::to_string(worker.pid);
    const bool loopback = on_loopback(options.coordinators[0]) && options.advertise.empty() && options.interface_cidr.empty();
    const std::string listening = transport_.listen(loopback ? "127.0.0.1:0" : ":0");
    std::string advertise = options.advertise;
    if (!loopback && advertise.empty() && options.interface_cidr.empty()) advertise = address_towards(options.coordinators[0]);
    worker.address = advertised_address(listening, advertise, options.interface_cidr);
    partition_transport_.set_events(&partitions_);
    if (!held_.empty()) {
      const size_t port = advertise.find(':');  // "HOST:PORT" is the other socket's
      const std::string host = advertise.starts_with('[') ? advertise.substr(0, advertise.find(']') + 1) : advertise.substr(0, port);
      worker.serves = advertised_address(partition_transport_.listen(loopback ? "127.0.0.1:0" : ":0"), host, options.interface_cidr);
      worker.held = held_;
    }
    worker.threads = static_cast<uint32_t>(options.threads > 0 ? options.threads : available_cores());
    worker.give_up_ms = options.give_up_ms;
    worker.trace = &trace_;
    worker.server = options.server;
    worker_ = std::make_unique<Worker>(std::move(worker), loop, rng_, transport_, replica_, *this);
    transport_.set_events(worker_.get());
  }

  ~WorkerProcessMain() override {  // the trainer may be waiting for some
    examples_.stop();
    partitions_.stop();
  }

  // `question` is kept until this worker has joined; null: none was asked.
  int run(std::unique_ptr<JobQuestion> question) {
    question_ = std::move(question);
    if (question_) question_->on_over([this] { worker_->leave("the run is over"), finished_ = true; });
    worker_->start();
    loop_.run();
    const int code = error_ ? static_cast<int>(error_->kind()) : asked_to_leave_ && !finished_ ? 128 + SIGTERM : 0;
    last_resort_.arm(code);
    if (error_) throw *error_;
    return code;
  }

  void leave(int signal) {
    if (asked_to_leave_) _exit(128 + signal);
    asked_to_leave_ = true;
    // The coordinator may be gone or silent: the wait has a deadline.
    std::thread([this, signal] {
      if (patient_) std::this_thread::sleep_for(std::chrono::duration<double>(kPatientSeconds));
      if (patient_) loop_.post([this, signal] { leave_now(signal); });
      std::this_thread::sleep_for(std::chrono::duration<double>(kLeaveSeconds));
      _exit(128 + SIGTERM);
    }).detach();
    if (!patient_) leave_now(signal);
  }

 private:
  // From the trainer thread; any number of answers need one turn of the loop.
  void wake() {
    if (woken_.exchange(true)) return;
    loop_.post([this] {
      woken_ = false;
      replica_.deliver();
    });
  }

  // From threads that read examples, too.
  void wake_examples() {
    if (examples_woken_.exchange(true)) return;
    loop_.post([this] {
      examples_woken_ = false;
      ask_for_examples();
    });
  }

  void ask_for_examples() {
    while (examples_.next(&read_)) {
      if (worker_->ask(read_)) continue;
      examples_.not_sent(read_);  // the connection is full: on_writable(), or the next coordinator, makes us ask again
      return;
    }
  }

  void leave_now(int signal) { worker_->leave("asked to end by signal " + std::to_string(signal)); }

  void on_event(const Json& event) override {
    // A worker that was started by hand has no other way to say so; an agent ends its own.
    if (const Json* name = event.find("event"); !started_by_us_ && *name == Json("coordinator_missed"))
      warn(event.find("cause")->as_string() + "; this worker " + event.find("done")->as_string());
    if (trainer_record_ && event.find("exchanged")) trainer_record_->exchanged(event);
  }
  void on_opening(const Welcome& welcome) override {
    if (record_path_.empty()) return;
    record_ = std::make_unique<RecordFile>(record_path_);
    record_->append(record_begin(welcome, isa_name(host_isa())));
  }
  void on_restored(int64_t round, uint64_t hash) override {
    if (record_) record_->append(record_restored(round, hash));
  }
  void on_served(int64_t round, uint64_t hash, int64_t examples_after, int64_t workers, const std::vector<Arrival>& merged) override {
    if (record_) record_->append(record_round(round, hash, examples_after, workers, merged));
  }
  void on_welcome(const Welcome& welcome) override { partitions_.on_welcome(welcome, worker_->job()); }
  void on_holders(const Holders& holders) override { partitions_.on_holders(holders); }
  void on_joined() override {
    if (question_) loop_.post([this] { question_.reset(); });
    examples_.on_joined();
  }
  void on_coordinator_lost() override { examples_.on_coordinator_lost(); }
  void on_writable() override { ask_for_examples(); }
  bool on_examples(const Examples& examples, std::span<const std::byte> body) override { return examples_.on_examples(examples, body); }
  void on_stopped(const std::string&, bool finished) override {
    finished_ = finished;
    loop_.stop();
  }
  void on_failed(const Error& error) override {
    error_ = error;
    loop_.stop();
  }

  void on_opened(uint64_t fingerprint) override { worker_->on_opened(fingerprint); }
  void on_loaded(int64_t round, uint64_t hash) override { worker_->on_loaded(round, hash); }
  void on_parts_over(int64_t round) override { worker_->on_parts_over(round); }
  void on_bucket(int64_t round, uint32_t bucket) override { worker_->on_bucket(round, bucket); }
  void on_contribution(const Contribution& contribution) override { worker_->on_contribution(contribution); }
  void on_payload_refused(int64_t round, size_t payload) override { worker_->on_payload_refused(round, payload); }
  void on_inner_applied(int64_t round, int64_t index, int refused) override { worker_->on_inner_applied(round, index, refused); }
  void on_applied(int64_t round, uint64_t hash) override { worker_->on_applied(round, hash); }
  void on_served(int64_t round, uint64_t hash, SharedBytes reply, bool change) override {
    worker_->on_served(round, hash, std::move(reply), change);
  }
  void on_taken(int64_t round, bool ok) override { worker_->on_taken(round, ok); }
  void on_snapshot(uint64_t request, int64_t round, uint64_t hash, SharedBytes image) override {
    worker_->on_snapshot(request, round, hash, std::move(image));
  }
  void on_evaluated(uint64_t request, std::string state) override { worker_->on_evaluated(request, std::move(state)); }
  void on_failed(const Error& error, bool for_all) override { worker_->on_failed(error, for_all); }

  LastResort last_resort_;  // the last to be destroyed
  UvLoop& loop_;
  SystemRng rng_;
  UvTransport transport_;
  std::atomic<bool> woken_{false};
  std::unique_ptr<RootedOpener> opener_;  // null: data may be anywhere
  std::atomic<bool> examples_woken_{false};
  Read read_;
  ExampleClient examples_;
  UvTransport partition_transport_;
  std::vector<HeldPartition> held_;
  PartitionExchange partitions_;
  TraceRing trace_;
  std::unique_ptr<TrainerRecord> trainer_record_;  // of a worker that keeps one
  TrainerReplica replica_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<JobQuestion> question_;
  std::optional<Error> error_;
  const bool patient_, started_by_us_;
  const std::string record_path_;
  std::unique_ptr<RecordFile> record_;  // of a server that keeps one
  bool asked_to_leave_ = false, finished_ = false;
};

}  // namespace

Secret read_inherited_key(int descriptor) {
  Secret key, none;
  read_inherited_keys(descriptor, &key, &none);
  return key;
}

void read_inherited_keys(int descriptor, Secret* key, Secret* secret) {
  char text[256] = {};
  const ssize_t size = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  if (size < 0)
    throw Error(ErrorKind::authentication, {"--key-fd", "there is no key behind this descriptor", std::strerror(errno), "",
                                            "an agent gives it; a worker that is started by hand takes --secret FILE"});
  // Nothing there: workers of a run that listens on loopback without a key.
  const std::string_view both(text, static_cast<size_t>(size));
  const size_t line = both.find('\n');
  const std::string_view first = both.substr(0, line), second = line == both.npos ? std::string_view() : both.substr(line + 1);
  *key = first.empty() ? Secret() : Secret::from_hex(first, "--key-fd");
  *secret = second.empty() ? Secret() : Secret::from_hex(second, "--key-fd");
}

int run_worker(const WorkerMainOptions& options) {
  follow_parent(options.parent);
  if (options.started_by_us)  // the terminal tells the whole group; the launcher says what follows
    for (const int number : {SIGINT, SIGHUP}) signal(number, SIG_IGN);
  std::error_code status;
  WorkerMainOptions checked = options;
  if (!options.data_root.empty()) checked.data_root = std::filesystem::canonical(options.data_root, status).string();
  if (status) throw Error(ErrorKind::usage, {"--data-root", "there is no such folder", options.data_root});
  UvLoop loop;
  Secret key = options.key;
  std::unique_ptr<JobQuestion> question;
  if (!options.secret.empty()) {
    question = std::make_unique<JobQuestion>(loop, checked);
    for (const int signal : {SIGINT, SIGTERM}) loop.on_signal(signal, [](int number) { _exit(128 + number); });
    uint64_t job = 0;
    if (!question->ask(&job)) return 0;
    key = options.secret.for_job(job);
  }
  WorkerProcessMain worker(loop, checked, key);
  loop.on_signal(SIGTERM, [&](int signal) { worker.leave(signal); });
  if (!options.started_by_us) loop.on_signal(SIGINT, [&](int signal) { worker.leave(signal); });
  return worker.run(std::move(question));
}

}  // namespace perigee
