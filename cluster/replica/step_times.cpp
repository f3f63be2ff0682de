#include "cluster/replica/step_times.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "cluster/replica/replica_trainer.h"
#include "cluster/rounds/server/desk.h"
#include "src/core/stopwatch.h"

namespace perigee {
namespace {

constexpr int kLeastOrders = 5, kMostOrders = 200;
constexpr double kSeconds = 3;      // then the orders that were measured must do
constexpr int64_t kOrderSteps = 8;  // local steps

class Unwatched final : public OrderWatch {
 public:
  explicit Unwatched(const std::atomic<bool>& stop) : stop_(stop) {}
  bool given_up() override { return stop_; }
  void on_step() override {}
  void on_bucket(size_t) override {}

 private:
  const std::atomic<bool>& stop_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The data in order, a batch after the other.
class Batches {
 public:
  Batches(int64_t examples, int64_t batch) : examples_(examples), batch_(std::min(batch, examples)) {}
  std::vector<Range> take(int64_t count) {
    std::vector<Range> ranges;
    for (; count > 0; --count) {
      if (begin_ + batch_ > examples_) ++epoch_, begin_ = 0;
      ranges.push_back({epoch_, begin_, batch_});
      begin_ += batch_;
    }
    return ranges;
  }

 private:
  int64_t examples_, batch_, begin_ = 0;
  uint64_t epoch_ = 0;
};

}  // namespace

namespace {

// The server beside a worker whose contributions are measured.
class MeasuredServer {
 public:
  MeasuredServer(const Welcome& welcome, const ExchangeLayout& layout) : layout_(layout), replica_(welcome, {}), row_(layout.bytes()) {
    std::fill_n(row_.data(), row_.bytes(), std::byte{0});
  }

  // How long it takes to merge, and then the worker to take the result over.
  void merge(const ApplyOrder& order, const std::byte* worker_row, ReplicaTrainer& worker, std::vector<double>* apply_s,
             std::vector<double>* take_s) {
    const std::span<const std::byte> beside(worker_row + layout_.coded, layout_.bytes() - layout_.coded);
    SharedBytes reply;
    bool change = false;
    const Stopwatch merging;
    add_beside(layout_, {row_.data(), layout_.bytes()}, beside, true);
    replica_.serve(order, row_.data(), &reply, &change);
    apply_s->push_back(merging.seconds());
    const Stopwatch taking;
    worker.take({.round = order.round, .examples_after = order.examples_after, .counted = true, .change = change, .bytes = reply});
    take_s->push_back(taking.seconds());
  }

 private:
  const ExchangeLayout layout_;
  ReplicaTrainer replica_;
  Storage row_;
};

// The job as its launcher and one of its workers see it.
struct Opened {
  Opened(const Job& given, int threads) : launched(readable(given), {.threads = threads}), replica(welcome(), {}) {
    measured.facts = launched.facts;
    measured.layout = replica.block().layout();
    measured.buckets = replica.block().buckets();
    measured.windows = replica.trainer().model().params().windows();
    measured.block_elements = replica.trainer().model().params().block_elements();
    measured.image_bytes = replica.snapshot(true)->size();
    measured.job = launched.job.canonical(), measured.tuning = launched.tuning, measured.parts = launched.parts;
  }
  static Job readable(Job job) {
    if (read_placement(Config(job.json(), job.where()).object("data")).at_coordinator) job.set("data.at", "worker");
    return job;
  }
  Welcome welcome() const {
    return {.id = 1,
            .job = launched.job.canonical().dump(),
            .folder = launched.facts.data_folder,
            .tuning = launched.tuning,
            .threads = static_cast<int32_t>(launched.facts.threads)};
  }

  ClusterJob launched;
  ReplicaTrainer replica;
  MeasuredJob measured;
};

}  // namespace

MeasuredJob inspect_job(const Job& job, int threads) { return Opened(job, threads).measured; }

MeasuredJob measure_job(const Job& job, int threads, const std::atomic<bool>& stop) {
  Opened opened(job, threads);
  MeasuredJob& measured = opened.measured;
  ReplicaTrainer& replica = opened.replica;
  const int64_t batch = measured.facts.batch;
  const bool gradient = opened.launched.policy.what != Policy::What::parameters;
  Storage memory(measured.layout.bytes());
  std::byte* const rows[] = {memory.data()};
  Batches batches(measured.facts.examples, batch);
  Unwatched watch(stop);
  TrainOrder order{.gradient = gradient, .next = batches.take(gradient ? 1 : kOrderSteps), .examples_per_step = batch};
  std::vector<double> step_s, stage_s, apply_s, take_s;
  std::unique_ptr<MeasuredServer> server;
  if (opened.launched.policy.served) server = std::make_unique<MeasuredServer>(opened.welcome(), measured.layout);
  const Stopwatch since;
  for (int i = 0; i < kLeastOrders || (i < kMostOrders && since.seconds() < kSeconds); ++i) {
    order.round = i;
    order.ranges = std::exchange(order.next, batches.take(static_cast<int64_t>(order.next.size())));
    Contribution contribution;
    if (!replica.train(order, rows, stop, watch, &contribution)) return measured;
    const Figures& figures = contribution.figures;
    const double trained_s = figures.load_s + figures.compute_s;
    const Stopwatch applying;
    ApplyOrder merged{.round = i, .examples = contribution.examples, .examples_after = order.examples_before + contribution.examples};
    if (contribution.payload) merged.payloads.push_back({contribution.payload, contribution.examples});
    for (int pass = 1; pass < measured.layout.passes; ++pass)
      if (replica.make_part({.round = i, .examples = contribution.examples, .pass = pass}, rows, stop, watch) != ReplicaTrainer::Part::made)
        break;
    if (server && contribution.payload) {
      merged.workers = 1;
      server->merge(merged, memory.data(), replica, &apply_s, &take_s);
    } else {
      replica.apply(merged, memory.data());
    }
    order.examples_before += contribution.examples;
    if (i == 0 || contribution.steps == 0) continue;  // the first is cold
    measured.steps += contribution.steps;
    step_s.push_back((trained_s + (gradient ? figures.encode_s : 0)) / static_cast<double>(contribution.steps));
    stage_s.push_back(gradient ? 0 : figures.encode_s);
    if (!server) apply_s.push_back(applying.seconds());
  }
  if (step_s.empty()) throw Error(ErrorKind::model, {job.where(), "no step could be measured: the loss is not finite"});
  measured.times = {.step_ms = median(step_s) * 1e3,
                    .stage_ms = median(stage_s) * 1e3,
                    .apply_ms = median(apply_s) * 1e3,
                    .take_ms = take_s.empty() ? 0 : median(take_s) * 1e3,
                    .batch = batch};
  return measured;
}

}  // namespace perigee
