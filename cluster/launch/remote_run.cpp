// Another user's run: one connection, asked several times a second. The reports tell what happened in between.
#include <deque>
#include <utility>

#include "cluster/launch/steered_run.h"
#include "cluster/protocol/message.h"
#include "cluster/uv/uv_transport.h"

namespace perigee {
namespace {

constexpr uint64_t kPollNs = 250'000'000;
constexpr uint64_t kConnectNs = 3'000'000'000;
constexpr uint64_t kAwayNs = 15'000'000'000;  // without a connection for so long it is lost
constexpr uint64_t kSleptNs = 2'000'000'000;  // without a tick of ours
constexpr uint64_t kSilentNs = 5'000'000'000;
constexpr size_t kMaxQuestions = 64;

int64_t integer(const Json& json, const char* key, int64_t otherwise) {
  const Json* value = json.find(key);
  return value && value->is_int() ? value->as_int() : otherwise;
}

}  // namespace

// Owned by the loop's thread.
struct RemoteRun::Connection final : TransportEvents {
  Connection(RemoteRun& r, const std::string& a, const Secret& secret) : run(r), address(a), transport(*r.loop_, {.key = secret}) {
    transport.set_events(this);
    heard_ns = run.loop_->now_ns();
    connect();
    transport.start_timer(1, heard_ns + kPollNs);
  }

  // Where the run was, and where it goes on should that machine be lost: in turn.
  void connect() {
    connected = false;
    if (!standby.empty() && reported && loss_count++ > 0) std::swap(address, standby);
    peer = transport.connect(address, run.loop_->now_ns() + kConnectNs);
  }

  // One question at a time; polling is one as well, and the first: whoever answers may not be the run's coordinator any more.
  void ask() {
    if (!connected || asked) return;
    while (!questions.empty() && questions.front()->given_up) questions.pop_front();
    asked = true;
    asks_question = loss_count == 0 && !questions.empty();
    const Json command = asks_question ? questions.front()->command : Json();
    if (command.is_null()) transport.send(peer, encode(Status{.version = PERIGEE_VERSION}, {}));
    else transport.send(peer, encode(Steer{.version = PERIGEE_VERSION, .request = ++request, .json = command.dump()}, {}));
    steers = !command.is_null();
  }

  void answered(const std::optional<Error>& refused) {
    asked = false;
    if (asks_question && !questions.empty()) {
      run.answer(*questions.front(), refused);
      questions.pop_front();
    }
    asks_question = false;
    if (!questions.empty()) ask();
  }

  void on_connected(PeerId, const std::string&) override {
    connected = true;
    heard_ns = run.loop_->now_ns();
    asked = asks_question = false;
    ask();
  }

  void on_frame(PeerId, std::span<const std::byte> frame) override {
    FrameHeader header;
    if (!read_header(frame, &header)) return;
    const auto payload = frame.subspan(kHeaderBytes);
    heard_ns = run.loop_->now_ns();
    Report report;
    Stop stop;
    Refuse refuse;
    if (header.type == MessageType::report && decode(payload, &report)) {
      try {
        const Json told = Json::parse(report.json, address);
        if (reported && told.find("role")) return look_elsewhere();
        check_role(told);
        loss_count = 0;
        if (const Json* other = told.find("standby_address"); other && other->is_string()) standby = other->as_string();
        run.hear(told);
        if (!steers) answered(std::nullopt);
        else if (integer(told, "answers", 0) == static_cast<int64_t>(request)) answered(refusal(told));
      } catch (const Error& error) {
        give_up("failed", error.what(), error.kind());
      }
    } else if (header.type == MessageType::stop && decode(payload, &stop)) {
      if (stop.finished || stop.why == "interrupted") give_up(stop.finished ? "finished" : "stopped", "");
      else give_up("failed", stop.why);
    } else if (header.type == MessageType::refuse && decode(payload, &refuse)) {
      give_up("lost", Error(ErrorKind::cluster, {address, refuse.what, refuse.got, refuse.expected, refuse.hint}).what(),
              kind_of(refuse.kind));
    }
  }

  static ErrorKind kind_of(int64_t told) { return told >= 2 && told <= 7 ? static_cast<ErrorKind>(told) : ErrorKind::cluster; }

  static std::optional<Error> refusal(const Json& told) {
    const Json* refused = told.find("refused");
    if (!refused) return std::nullopt;
    const auto text = [&](const char* key) {
      const Json* value = refused->find(key);
      return value && value->is_string() ? value->as_string() : "";
    };
    return Error(kind_of(integer(*refused, "kind", 0)),
                 {.where = "run", .what = text("what"), .got = text("got"), .expected = text("expected"), .hint = text("hint")});
  }

  void check_role(const Json& json) const {
    if (const Json* role = json.find("role"); role && role->is_string())
      throw Error(ErrorKind::usage, {.where = address,
                                     .what = "answers as " + role->as_string() + ", which has no run",
                                     .hint = "`perigee status " + address + "` says where the coordinators of its jobs are"});
  }

  // A standby that does not coordinate yet, or never will.
  void look_elsewhere() {
    transport.close(peer);
    peer = 0;
    drop_question();
    transport.start_timer(2, run.loop_->now_ns() + kPollNs);
  }

  void drop_question() {
    connected = asked = false;
    if (std::exchange(asks_question, false)) {
      const Error unknown(ErrorKind::cluster, {.where = "run",
                                               .what = "the connection broke: whether it was heard is not known",
                                               .hint = "look at the run, and ask again where nothing changed"});
      run.answer(*questions.front(), unknown);
      questions.pop_front();
    }
  }

  void on_lost(PeerId, PeerLoss why) override {
    drop_question();
    loss = std::string(to_string(why)) + (transport.loss_detail().empty() ? "" : ": " + transport.loss_detail());
    if (why == PeerLoss::unauthenticated) {
      give_up("lost", address + ": it does not accept this secret; use the --secret file that it was started with",
              ErrorKind::authentication);
    } else if (!reported) {
      give_up("lost", "no coordinator answers at " + address + ": " + loss);
    } else {
      transport.start_timer(2, run.loop_->now_ns() + kPollNs);
    }
  }

  void on_timer(uint64_t timer) override {
    if (gone) return;
    const uint64_t now = run.loop_->now_ns();
    if (timer == 2) return connect();
    // This process slept (Ctrl-Z, a closed lid): that is no silence of the other side's.
    if (now - std::exchange(ticked_ns, now) > kSleptNs) heard_ns = now;
    const uint64_t patience = connected || !reported ? kSilentNs : kAwayNs;
    if (now - heard_ns > patience)
      return give_up("lost", "the coordinator at " + address + (loss.empty() ? " does not answer" : " is gone: " + loss));
    ask();
    transport.start_timer(1, now + kPollNs);
  }
  void on_writable(PeerId) override {}

  void give_up(const std::string& state, const std::string& problem, ErrorKind kind = ErrorKind::cluster) {
    if (gone) return;
    gone = true;
    transport.stop_timer(1), transport.stop_timer(2);
    if (peer != 0) transport.close(peer);
    run.set_state(state, problem, kind);
  }

  RemoteRun& run;
  std::string address, loss;
  std::string standby;  // its address; empty: there is none
  int loss_count = 0;   // attempts since the run last answered
  UvTransport transport;
  PeerId peer = 0;
  std::deque<SharedQuestion> questions;  // the first is asked, if asks_question
  bool connected = false, asked = false, asks_question = false, steers = false, reported = false, gone = false;
  uint64_t request = 0;  // the last steering's number
  uint64_t heard_ns = 0, ticked_ns = 0;
};

RemoteRun::RemoteRun(const std::string& address, const Secret& secret, std::function<void()> wake)
    : SteeredRun(std::move(wake)), loop_(std::make_unique<UvLoop>()) {
  connection_ = std::make_unique<Connection>(*this, address, secret);
  thread_ = std::thread([this] {
    try {
      loop_->run();
    } catch (const std::exception& error) {
      set_state("lost", error.what());
    }
  });
  try {
    wait_until_open();
  } catch (const Error&) {
    loop_->stop();
    thread_.join();
    throw;
  }
}

RemoteRun::~RemoteRun() {
  loop_->stop();
  thread_.join();
  connection_.reset();
  loop_->poll();
}

bool RemoteRun::hand_over(const SharedQuestion& question) {
  if (over()) return false;
  return loop_->post([this, question] {
    if (!connection_) return;  // this run's end
    Connection& c = *connection_;
    if (c.gone || c.questions.size() >= kMaxQuestions)
      return answer(*question,
                    Error(ErrorKind::cluster,
                          {.where = "run", .what = "too many questions wait for an answer", .hint = "ask again when some have come"}));
    if (question->command.dump().size() > kMaxText)
      return answer(*question, Error(ErrorKind::usage, {.where = "run",
                                                        .what = "this is too long to be told",
                                                        .expected = "at most 4 KB of JSON",
                                                        .hint = "set a few options at a time"}));
    c.questions.push_back(question);
    c.ask();
  });
}

// New facts in it become events, by the names that a run of this process has for them.
void RemoteRun::hear(const Json& report) {
  const bool first = !std::exchange(connection_->reported, true);
  const int64_t round = integer(report, "round", -1);
  std::vector<Json> news;
  if (const Json* told = report.find("events"); told && told->is_array()) {
    int64_t newest = 0;
    for (const Json& event : told->as_array()) newest = std::max(newest, integer(event, "number", 0));
    if (newest < heard_event_) heard_event_ = 0;  // another coordinator, which counts from 1
    for (const Json& event : told->as_array()) {
      const int64_t number = integer(event, "number", 0);
      if (number > heard_event_ && !first && event.find("event")) news.push_back(event);
      heard_event_ = std::max(heard_event_, number);
    }
  }
  if (const Json* last = report.find("last"); last && last->is_object() && round != std::exchange(heard_round_, round)) {
    Json step = Json(Json::Object{{"event", "step"}, {"step", round + 1}});
    for (const auto& [key, value] : last->as_object()) step.set(key, value);
    double rate = 0;
    if (const Json* workers = report.find("workers"); workers && workers->is_array())
      for (const Json& worker : workers->as_array())
        if (const Json* speed = worker.find("examples_per_s"); speed && speed->is_number()) rate += speed->as_number();
    step.set("examples_per_s", rate);
    news.push_back(std::move(step));
  }
  const Json* run = report.find("run");
  if (const Json* epoch = run ? run->find("epoch") : nullptr; epoch && epoch->find("event")) {
    const int64_t number = integer(*epoch, "epoch", 0);
    if (number != std::exchange(heard_epoch_, number)) news.push_back(*epoch);
  }
  keep_report(report);
  for (const Json& event : news) keep_event(event);
}

}  // namespace perigee
