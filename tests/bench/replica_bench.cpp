// A replica's cost beside its steps, alone in the cluster:
//   replica_bench JOB.json [--batch 32] [--threads 1] [--rounds 40] [--repeats 9]
// Prints microseconds of CPU time and of wall time per step, the least of the repeats, for the trainer alone and through the replica.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>

#include "cluster/ledger/fixed_plan.h"
#include "cluster/replica/trainer_replica.h"
#include "src/core/error.h"

namespace perigee {
namespace {

double wall() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double cpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

class Loop final : public ReplicaEvents {
 public:
  explicit Loop(const Welcome& welcome)
      : replica(std::make_unique<TrainerReplica>(*this, [this] {
          const std::lock_guard lock(mutex_);
          woken_ = true;
          signal_.notify_one();
        })) {
    replica->open(welcome);
    wait();
  }
  ~Loop() override { replica.reset(); }
  void wait() {
    for (answered_ = false; !answered_; replica->deliver()) {
      std::unique_lock lock(mutex_);
      signal_.wait(lock, [&] { return woken_; });
      woken_ = false;
    }
  }
  void on_opened(uint64_t) override { answered_ = true; }
  void on_loaded(int64_t, uint64_t) override { answered_ = true; }
  void on_bucket(int64_t, uint32_t) override {}
  void on_contribution(const Contribution&) override { answered_ = true; }
  void on_applied(int64_t, uint64_t) override { answered_ = true; }
  void on_payload_refused(int64_t, size_t) override {}
  void on_inner_applied(int64_t, int64_t, int) override {}
  void on_snapshot(uint64_t, int64_t, uint64_t, SharedBytes) override {}
  void on_evaluated(uint64_t, std::string) override {}
  void on_failed(const Error& error, bool) override { throw error; }

  std::unique_ptr<TrainerReplica> replica;

 private:
  std::mutex mutex_;
  std::condition_variable signal_;
  bool woken_ = false, answered_ = false;
};

struct Cost {
  std::vector<double> cpu_us, wall_us;
  void add(int64_t steps, const std::function<void()>& work) {
    const double cpu_before = cpu(), wall_before = wall();
    work();
    cpu_us.push_back((cpu() - cpu_before) * 1e6 / static_cast<double>(steps));
    wall_us.push_back((wall() - wall_before) * 1e6 / static_cast<double>(steps));
  }
  void print(const char* what) {
    std::sort(cpu_us.begin(), cpu_us.end());
    std::sort(wall_us.begin(), wall_us.end());
    std::printf("%-34s %9.1f us CPU  %9.1f us wall\n", what, cpu_us[0], wall_us[0]);
  }
};

int64_t option(int argc, char** argv, const std::string& name, int64_t fallback) {
  for (int i = 2; i + 1 < argc; i += 2)
    if (argv[i] == "--" + name) return std::atoll(argv[i + 1]);
  return fallback;
}

void bench(int argc, char** argv) {
  Job job = Job::load(argv[1]);
  const int64_t batch = option(argc, argv, "batch", 32), rounds = option(argc, argv, "rounds", 40), every = 5;
  job.set("data.batch", std::to_string(batch));
  Welcome welcome;
  welcome.folder = job.folder();
  welcome.threads = static_cast<int32_t>(option(argc, argv, "threads", 1));
  const auto with = [&](const char* averaging) {
    job.set("averaging", averaging);
    welcome.job = job.canonical().dump();
    return welcome;
  };
  Trainer trainer(job, {.threads = welcome.threads, .measure = false});
  Loop periodic(with(R"({"type": "periodic", "every": 5})")), one(with(R"({"type": "allreduce"})")),
      four(with(R"({"type": "allreduce", "shards": 4})"));
  const int64_t size = trainer.train_source().size();
  int64_t round = 0;
  const auto local = [&] {
    for (int64_t r = 0; r < rounds; ++r) {
      TrainOrder order{.round = round, .examples_per_step = batch};
      for (int64_t i = 0; i < every; ++i) order.ranges.push_back({0, ((round * every + i) * batch) % (size - batch), batch});
      periodic.replica->train(order);
      periodic.wait();
      periodic.replica->apply({.round = round++, .examples = every * batch, .alone = true});
      periodic.wait();
    }
  };
  const auto gradient = [&](Loop& loop, int leaves) {
    for (int64_t r = 0; r < rounds * every / leaves; ++r) {
      TrainOrder order{.round = round, .gradient = true, .leaves = leaves};
      for (int64_t i = 0; i < leaves; ++i) order.ranges.push_back({0, ((round * leaves + i) * batch) % (size - batch), batch});
      loop.replica->train(order);
      loop.wait();
      loop.replica->apply({.round = round++, .examples = leaves * batch});
      loop.wait();
    }
  };
  Cost alone, steps, leaf, leaves;
  for (int64_t repeat = -1; repeat < option(argc, argv, "repeats", 9); ++repeat) {
    if (repeat == 0) alone = steps = leaf = leaves = {};  // the first only warms
    alone.add(rounds * every, [&] {
      for (int64_t i = 0; i < rounds * every; ++i) trainer.step();
    });
    steps.add(rounds * every, local);
    leaf.add(rounds * every, [&] { gradient(one, 1); });
    leaves.add(rounds * every, [&] { gradient(four, 4); });
  }
  alone.print("Trainer::step");
  steps.print("periodic, 5 local steps a round");
  leaf.print("allreduce, 1 leaf");
  leaves.print("allreduce, 4 leaves, per leaf");
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw perigee::Error(perigee::ErrorKind::usage, {.where = "replica_bench", .what = "a job file is needed"});
    perigee::bench(argc, argv);
    return 0;
  } catch (const perigee::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.kind());
  }
}
