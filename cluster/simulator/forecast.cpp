#include "cluster/simulator/forecast.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>

#include "cluster/codec/codec.h"
#include "cluster/codec/delta_codec.h"
#include "cluster/exchange/exchange_tail.h"
#include "cluster/exchange/fragment_payload.h"
#include "cluster/membership/coordinator.h"
#include "cluster/membership/worker.h"
#include "cluster/rounds/local/fragments.h"
#include "cluster/simulator/disk.h"

namespace perigee::sim {
namespace {

constexpr int kServerHost = 0;
constexpr uint64_t kBytesPerEvent = 16384;  // that take about as long to simulate
constexpr double kNodeRestartMs = 1000;     // of a worker that ended although its node is well
constexpr double kMostServedBytes = 8e9;    // of pushes and answers under way, which are held in memory
const char* const kCoordinator = "coordinator:1";

SeededRng speeds_of(const ForecastInput& input) { return SeededRng(mix(input.seed, 0x73706565)); }

double draw_slowness(const ForecastInput& input, SeededRng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));  // Box and Muller
  return std::exp(-input.speed_spread * radius * std::cos(2 * std::numbers::pi * rng.uniform()));
}

class FutureRun final : public CoordinatorEvents {
 public:
  explicit FutureRun(const ForecastInput& input);
  Forecast run();

 private:
  struct Node final : public WorkerEvents {
    Node(FutureRun& r, int n) : run(r), number(n) {}
    void on_event(const Json&) override {}
    void on_stopped(const std::string&, bool) override { run.ended(*this); }
    void on_failed(const Error& error) override { run.error_ = error.within(name()); }
    bool server() const { return number < 0; }  // beside the coordinator, as its launcher starts it
    std::string name() const { return server() ? "server" : "node" + std::to_string(number); }
    int host() const { return server() ? kServerHost : number + 1; }

    FutureRun& run;
    int number;
    int process = -1;
    uint64_t life = 0;  // counts starts and ends: what was planned for an earlier life is not done
    WorkDone work;
    std::unique_ptr<TimedReplica> replica;
    std::unique_ptr<Worker> worker;
  };

  void start_coordinator();
  void set_up_blanks(const Policy& policy);
  void start(Node& node);
  void end(Node& node, bool power, double back_after_ms);
  void ended(Node& node);
  void plan_failure(Node& node);
  Forecast result();
  void evaluate_next();
  void plan_rates();
  double passed_s() const;

  void on_round(int64_t round, uint64_t generation, int64_t examples_done, int workers, const Figures& figures, int64_t examples) override;
  void on_epoch(uint64_t epoch) override;
  void on_evaluated(const std::string& part, const std::vector<std::string>& states) override;
  void on_image(uint64_t request, int64_t round, std::vector<std::byte> image) override;
  void on_event(const Json& event) override;
  void on_finished(int64_t) override { finished_ = true; }
  void on_reopened() override { finished_ = false, parts_.clear(); }
  void on_failed(const Error& error) override { error_ = error; }

  uint64_t in(double ms) const { return network_.now_ns() + static_cast<uint64_t>(ms * 1e6); }
  // The coordinator must not be called from its events.
  void at_coordinator(std::function<void(Coordinator&)> what) {
    network_.post(coordinator_process_, 0, [this, what = std::move(what)] { what(*coordinator_); });
  }

  const ForecastInput& input_;
  LinkQuality quality_;
  Network network_;
  SeededRng failures_;
  Disk disk_;
  BlankModel model_;
  int coordinator_process_ = -1;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<Node> server_;  // of a served policy
  std::optional<Error> error_;
  bool finished_ = false;
  double committed_s_ = 0;  // when the last round was
  int64_t done_ = 0, voided_ = 0, rounds_ = 0, failed_nodes_ = 0, lost_workers_ = 0;
  uint64_t evaluating_since_ns_ = 0, evaluated_ns_ = 0;  // evaluation takes no time in a forecast
  std::deque<std::string> parts_;                        // to be evaluated now
  Forecast forecast_;
};

// The size of a contribution under the policy's codec, on average. Where the job's block is not known, all sums are.
SharedBytes expected_payload(const Policy& policy, const Json& described, const ForecastInput& input, ExchangeLayout* layout) {
  if (described.is_null()) {
    layout->coded = layout->payload_bound = 0;
    return nullptr;
  }
  const std::unique_ptr<Codec> codec = make_codec(&described, "averaging");
  if (policy.coded_steps() && codec->passes() > 0) return nullptr;  // linear: the job's layout is that of its sums
  if (layout->coded == 0) layout->coded = static_cast<size_t>(layout->sums - kExchangeTail) * layout->width();
  if (codec->passes() > 1 && input.windows.empty())
    throw Error(ErrorKind::model, {"averaging: codec", "works on matrices, which are not known", std::string(codec->def().name), "",
                                   "leave out --parameters: the matrices are then those of the job's network"});
  const std::vector<CodecSegment> tensors = codec_tensors(input.windows);
  const CodecSegment segment{
      .count = static_cast<int64_t>(layout->coded / layout->width()), .tensors = tensors.data(), .tensor_count = tensors.size()};
  layout->payload_bound = codec->bound(segment);
  const double bits = codec->bits_per_element(segment) * static_cast<double>(segment.count);
  const size_t bytes = kPayloadHeader + static_cast<size_t>(bits / 8);
  return std::make_shared<const std::vector<std::byte>>(std::min(bytes, layout->payload_bound));
}

// The same of each fragment, and where they lie in a row.
void set_up_forecast_fragments(const Policy& policy, const ForecastInput& input, BlankModel* model) {
  ExchangeLayout& layout = model->layout;
  if ((!policy.layers.empty() || (policy.fragments > 1 && policy.cut != "even")) && input.windows.empty())
    throw Error(ErrorKind::model, {"averaging", "is by layers, which are not known", "", "",
                                   "leave out --parameters: the layers are then those of the job's network"});
  const int64_t elements = input.block_elements > 0 ? input.block_elements : layout.sums - kExchangeTail;
  const FragmentPlan plan(policy, input.windows, elements, "averaging");
  model->fragments = plan.parts(layout.width());
  layout.sums = std::max(layout.sums, elements) + static_cast<int64_t>(plan.fragments().size() + 1) * kExchangeTail;
  layout.sums += layout.sums % 2;
  layout.coded = layout.payload_bound = 0;
  for (const Fragment& f : plan.fragments()) {
    model->fragment_payloads.push_back(0);
    if (f.codec.is_null()) continue;
    const std::unique_ptr<Codec> codec = make_codec(&f.codec, "averaging");
    const CodecSegment segment = f.segment();
    const double bits = codec->bits_per_element(segment) * static_cast<double>(f.elements);
    model->fragment_payloads.back() = std::min(codec->bound(segment), kPayloadHeader + static_cast<size_t>(bits / 8));
    layout.payload_bound += kFragmentPayloadHead + kFragmentChangeHead + codec->bound(segment);
  }
}

FutureRun::FutureRun(const ForecastInput& input) : input_(input), network_(input.seed), failures_(mix(input.seed, 0x6661696c)) {
  assert(input.nodes >= 1 && input.examples > 0 && input.planned > 0 && input.times.batch > 0 && !input.buckets.empty());
  quality_ = {.latency_ms = input.latency_ms, .jitter_ms = 0, .bytes_per_s = input.bytes_per_s, .shared = true};
  network_.set_quality(quality_);
  const Policy policy = read_policy(&input.averaging, "");
  if (policy.inner.active() && policy.inner.groups == Policy::Inner::Groups::site)
    throw Error(ErrorKind::model, {"simulate", "each node is a host of its own here, so that no group has two workers", "group = \"host\"",
                                   "a number of workers", "say how many are near each other, as in --set averaging.group=8"});
  if (!input.numbers) set_up_blanks(policy);
  start_coordinator();
  if (policy.served) {
    server_ = std::make_unique<Node>(*this, -1);
    server_->process = network_.add_process(server_->host(), server_->name() + ":1");
    start(*server_);
  }
  SeededRng speeds = speeds_of(input);
  for (int i = 0; i < input.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>(*this, i));
    Node& node = *nodes_.back();
    node.process = network_.add_process(node.host(), node.name() + ":1");
    node.work.slowness = draw_slowness(input, speeds);
    node.work.lossy = input.lose;
    if (const auto own = input.speeds.find(i); own != input.speeds.end()) node.work.slowness /= own->second;
    start(node);
  }
}

// Payloads of replicas without numbers.
void FutureRun::set_up_blanks(const Policy& policy) {
  network_.count_chunks();
  model_.layout = input_.layout, model_.buckets = input_.buckets;
  model_.image = std::make_shared<const std::vector<std::byte>>(std::max<size_t>(1, input_.image_bytes));
  model_.inner_layout = model_.layout;
  model_.inner_payload = expected_payload(policy, policy.inner.codec, input_, &model_.inner_layout);
  if (policy.partial()) set_up_forecast_fragments(policy, input_, &model_);
  else model_.payload = expected_payload(policy, policy.codec, input_, &model_.layout);
  if (!policy.served) return;
  ExchangeLayout& layout = model_.layout;
  if (layout.values == 0) layout.values = layout.coded;
  const double held = static_cast<double>(layout.bytes() + 2 * layout.values) * input_.nodes;
  if (held > kMostServedBytes)
    throw Error(ErrorKind::resources, {"simulate", "pushes and answers of so many parameters and nodes do not fit into memory",
                                       std::to_string(static_cast<int64_t>(held / 1e9)) + " GB", "at most 8 GB", "give fewer --nodes"});
  model_.elastic = policy.elastic;
  model_.change = std::make_shared<const std::vector<std::byte>>(layout.coded);
  model_.values = std::make_shared<const std::vector<std::byte>>(layout.values);
}

void FutureRun::start_coordinator() {
  coordinator_process_ = network_.add_process(kServerHost, kCoordinator);
  CoordinatorOptions o;
  o.job_id = 1;
  Json job = input_.job.is_object() ? input_.job : Json::object();
  job.set("averaging", input_.averaging);
  o.job = job.dump();
  o.folder = input_.folder, o.tuning = input_.tuning, o.threads = input_.threads;
  o.policy = read_policy(&input_.averaging, "averaging");
  o.examples = input_.examples;
  o.planned = input_.planned;
  o.batch = input_.times.batch;
  o.global_batch = input_.global_batch;
  o.shards = input_.shards;
  o.fingerprint = 1;
  o.expected_workers = input_.nodes;
  const int p = coordinator_process_;
  coordinator_ = std::make_unique<Coordinator>(std::move(o), network_.clock(p), network_.rng(p), network_.transport(p), disk_, *this);
  network_.boot(p, coordinator_.get());
  coordinator_->start();
}

void FutureRun::start(Node& node) {
  ++node.life;
  std::unique_ptr<ReplicaNumbers> numbers = input_.numbers ? input_.numbers() : std::make_unique<BlankNumbers>(model_);
  node.replica = std::make_unique<TimedReplica>(input_.times, std::move(numbers), node.work, network_, node.process);
  WorkerOptions o;
  o.coordinators = {kCoordinator};
  o.name = o.host = node.name();
  o.address = o.name + ":1";
  o.server = node.server();
  o.silent_ms = 1e9;  // the network here delivers whole frames: a slow link is silent meanwhile
  const int p = node.process;
  node.worker = std::make_unique<Worker>(std::move(o), network_.clock(p), network_.rng(p), network_.transport(p), *node.replica, node);
  node.replica->set_events(node.worker.get());
  network_.boot(p, node.worker.get());
  node.worker->start();
  plan_failure(node);
}

void FutureRun::end(Node& node, bool power, double back_after_ms) {
  node.work.lose();
  network_.kill(node.process, power);
  node.worker.reset();
  node.replica.reset();
  const uint64_t life = ++node.life;
  network_.at(in(back_after_ms), [this, &node, life] {
    if (node.life == life) start(node);
  });
}

// The process ended by itself; it is taken away once its callback has returned.
void FutureRun::ended(Node& node) {
  network_.at(network_.now_ns(), [this, &node, life = node.life] {
    if (node.life == life) end(node, false, kNodeRestartMs);
  });
}

// A node fails without a word: those it is connected to hear nothing any more.
void FutureRun::plan_failure(Node& node) {
  if (input_.mtbf_s <= 0 || node.server()) return;  // nor does the coordinator's
  const double after_s = -input_.mtbf_s * std::log(1 - failures_.uniform());
  network_.at(in(after_s * 1e3), [this, &node, life = node.life] {
    if (node.life != life) return;
    ++failed_nodes_;
    end(node, true, input_.repair_s * 1e3);
  });
}

// Since the first order, without evaluations.
double FutureRun::passed_s() const {
  uint64_t begun_ns = UINT64_MAX;
  for (const auto& node : nodes_)
    if (node->work.first_order_ns > 0) begun_ns = std::min(begun_ns, node->work.first_order_ns);
  return begun_ns == UINT64_MAX ? 0 : static_cast<double>(network_.now_ns() - evaluated_ns_ - begun_ns) * 1e-9;
}

// Now that it is known when the run began.
void FutureRun::plan_rates() {
  for (const auto& [at_s, rate] : input_.rates_later) {
    LinkQuality quality = quality_;
    quality.bytes_per_s = rate;
    network_.at(network_.now_ns() + static_cast<uint64_t>(std::max(0.0, at_s - passed_s()) * 1e9),
                [this, quality] { network_.set_quality(quality); });
  }
}

void FutureRun::on_round(int64_t, uint64_t, int64_t examples_done, int workers, const Figures& f, int64_t examples) {
  voided_ += std::max<int64_t>(0, done_ - (examples_done - examples));
  done_ = examples_done;
  ++rounds_;
  committed_s_ = passed_s();
  if (rounds_ == 1) plan_rates();
  if (forecast_.course.size() == kMostRounds) return;
  const double all_s = f.load_s + f.compute_s + f.encode_s + f.wait_s + f.transfer_s + f.apply_s;
  forecast_.course.push_back({.at_s = passed_s(),
                              .examples_done = examples_done,
                              .steps = examples / input_.times.batch,
                              .workers = workers,
                              .loss = f.loss_sum / static_cast<double>(std::max<int64_t>(1, examples)),
                              .computing = all_s > 0 ? f.compute_s / all_s : 0,
                              .view = coordinator_->round_view()});
}

void FutureRun::on_epoch(uint64_t) {
  for (const auto& [part, examples] : input_.parts) parts_.push_back(part);
  evaluating_since_ns_ = network_.now_ns();
  evaluate_next();
}

void FutureRun::evaluate_next() {
  if (parts_.empty()) {
    evaluated_ns_ += network_.now_ns() - evaluating_since_ns_;
    return at_coordinator([](Coordinator& c) {
      c.request_image("checkpoint");
      c.release();
    });
  }
  at_coordinator(
      [part = parts_.front(), examples = input_.parts.at(parts_.front())](Coordinator& c) { c.request_evaluation(part, examples); });
}

void FutureRun::on_evaluated(const std::string& part, const std::vector<std::string>& states) {
  if (parts_.empty() || part != parts_.front()) return;
  parts_.pop_front();
  const double evaluating_s = static_cast<double>(network_.now_ns() - evaluating_since_ns_) * 1e-9;
  forecast_.evaluations.push_back({.at_s = passed_s() - evaluating_s, .examples_done = done_, .part = part, .states = states});
  evaluate_next();
}

void FutureRun::on_image(uint64_t, int64_t round, std::vector<std::byte> image) {
  if (image.empty()) return;
  at_coordinator(
      [round, kept = std::make_shared<const std::vector<std::byte>>(std::move(image))](Coordinator& c) { c.set_resume(round, kept); });
}

void FutureRun::on_event(const Json& event) {
  const std::string name = event.find("event")->as_string();
  if (name == "worker_lost") ++lost_workers_;
  if (name != "worker_joined") ++forecast_.told[name];
}

Forecast FutureRun::run() {
  const auto effort = [&] { return network_.events() + network_.bytes() / kBytesPerEvent; };
  while (!finished_ && !error_ && effort() < input_.max_effort && !(input_.stop && *input_.stop) && network_.step()) {}
  if (input_.stop && *input_.stop) return {};
  const bool broken_off = error_ && input_.numbers && done_ > 0;
  if (broken_off) forecast_.ended = error_->what();
  else if (error_) throw Error(ErrorKind::cluster, {"simulate", "the simulated run ended early", "", "", error_->what()});
  if (done_ == 0)
    throw Error(ErrorKind::cluster,
                {"simulate", "no round was committed in " + std::to_string(network_.now_ns() / 1'000'000'000) + " s of simulated time", "",
                 "", "a network that is too slow for the policy's deadline_ms, or nodes that fail too often"});
  return result();
}

Forecast FutureRun::result() {
  Forecast f = std::move(forecast_);
  f.share = finished_ ? 1 : static_cast<double>(done_) / static_cast<double>(input_.planned);
  uint64_t computing_ns = 0, lost = static_cast<uint64_t>(voided_);
  double sent = 0;
  const auto link = [&](int host, const std::string& name) {
    const Network::Traffic& traffic = network_.traffic(host);
    const auto bytes = static_cast<double>(std::max(traffic.sent, traffic.received));
    if (bytes > f.busiest_link_bytes) f.busiest_link_bytes = bytes, f.busiest_link = name;
  };
  link(kServerHost, server_ ? "server" : "coordinator");
  for (const auto& node : nodes_) {
    computing_ns += node->work.computing_ns;
    lost += static_cast<uint64_t>(node->work.lost);
    sent += static_cast<double>(network_.traffic(node->host()).sent);
    link(node->host(), "node " + std::to_string(node->number));
  }
  const double passed_s = committed_s_, whole = f.ended.empty() ? 1 / f.share : 1;
  const auto scaled = [&](int64_t count) { return std::llround(static_cast<double>(count) * whole); };
  f.wall_s = passed_s * whole;
  f.computing = std::min(1.0, static_cast<double>(computing_ns) * 1e-9 / (passed_s * input_.nodes));
  f.examples_per_s = static_cast<double>(done_) / passed_s;
  f.examples_done = done_;
  f.rounds = scaled(rounds_);
  f.sent_per_worker = sent / input_.nodes * whole;
  f.busiest_link_use = f.busiest_link_bytes / (input_.bytes_per_s * passed_s);
  f.busiest_link_bytes *= whole;
  f.failures = scaled(failed_nodes_);
  f.lost_workers = scaled(lost_workers_);
  f.lost_examples = scaled(static_cast<int64_t>(lost));
  f.hash = coordinator_->hash_of(coordinator_->round()).value_or(0);
  f.events = network_.events();
  f.trace_hash = network_.trace_hash();
  return f;
}

Forecast alone(const ForecastInput& input) {
  const Policy policy = read_policy(&input.averaging, "averaging");
  SeededRng speeds = speeds_of(input);
  const StepTimes& times = input.times;
  const double step_ms = times.step_ms + (policy.what != Policy::What::parameters ? times.apply_ms : 0);
  Forecast f;
  f.wall_s = step_ms * draw_slowness(input, speeds) / 1e3 * static_cast<double>(input.planned) / static_cast<double>(times.batch);
  f.computing = 1;
  f.examples_per_s = static_cast<double>(input.planned) / f.wall_s;
  return f;
}

}  // namespace

Forecast forecast(const ForecastInput& input) {
  const bool served = read_policy(&input.averaging, "simulate").served;
  return input.nodes == 1 && input.mtbf_s <= 0 && !input.numbers && !served ? alone(input) : FutureRun(input).run();
}

}  // namespace perigee::sim
