#include "cluster/replica/replay.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <map>
#include <memory>
#include <set>

#include "cluster/ledger/ranges.h"
#include "cluster/replica/replay_parts.h"
#include "cluster/replica/replica_trainer.h"
#include "src/core/config.h"
#include "src/core/error.h"
#include "src/graph/plan.h"
#include "src/tensor/tensor.h"

namespace perigee {
namespace {

class Patient final : public OrderWatch {
 public:
  bool given_up() override { return false; }
  void on_step() override {}
  void on_bucket(size_t) override {}
};

struct Player {
  std::unique_ptr<ReplicaTrainer> replica;
  std::unique_ptr<Storage> row;
  int64_t holds = -2;  // the round of its parameters; -2: none
};

class Replay {
 public:
  explicit Replay(const RunRecord& record) : record_(record) {
    check_machine();
    welcome_.job = with_local_data(record.job).dump();
    welcome_.folder = record.folder;
    welcome_.tuning = record.tuning;
    policy_ = read_policy(record.job.find("averaging"), "record");
    if (!policy_.served)
      throw Error(ErrorKind::data, {.where = "record",
                                    .what = "is not of an asynchronous policy",
                                    .got = policy_.name,
                                    .expected = "one with a server, such as async_local"});
    for (const RecordedRound& round : record.rounds)
      for (const RecordedShare& share : round.shares) {
        last_use_[share.worker] = round.round;
        base_use_[share.base] = round.round;
      }
    server_ = player(0, static_cast<int>(record.threads));
    keep_values(-1);
  }

  ReplayOutcome run() {
    ReplayOutcome outcome{.hash = server_.replica->hash()};
    for (const RecordedRound& round : record_.rounds) {
      play(round);
      ++outcome.rounds;
      outcome.hash = server_.replica->hash();
      if (outcome.hash != round.hash) {
        outcome.differs = round.round;
        break;
      }
    }
    outcome.model = server_.replica->snapshot(false);
    return outcome;
  }

 private:
  [[noreturn]] static void fail(const RecordedRound& round, const std::string& what) {
    throw Error(ErrorKind::data, {.where = "record: round " + std::to_string(round.round),
                                  .what = what,
                                  .hint = "the record, or the data of its job, was changed since"});
  }

  void check_machine() const {
    check_recorded_isa(record_.isa);
    for (const RecordedRound& round : record_.rounds)
      for (const RecordedShare& share : round.shares) check_recorded_isa(share.isa);
  }

  Player player(WorkerId id, int threads) {
    welcome_.id = id;
    welcome_.threads = threads;
    Player made;
    made.replica = std::make_unique<ReplicaTrainer>(welcome_, ReplicaTrainerOptions{});
    made.row = std::make_unique<Storage>(made.replica->block().layout().bytes());
    std::fill_n(made.row->data(), made.row->bytes(), std::byte{0});
    return made;
  }

  void keep_values(int64_t round) {
    if (!base_use_.contains(round)) return;
    bool change = false;
    server_.replica->serve({.round = round, .examples_after = 0}, server_.row->data(), &values_[round], &change);
  }

  void check_ranges(const RecordedShare& share, const RecordedRound& round) {
    Trainer& trainer = server_.replica->trainer();
    const Config data = Config(trainer.job().json(), "record").object("data");
    const int64_t examples = trainer.train_source().size();
    const int64_t batch = std::max(trainer.batch(), data.integer_in("global_batch", 0, int64_t{1} << 24, 0) * accumulate_of(trainer.job()));
    for (const Range& range : share.ranges)
      if (range.begin > examples - range.count || range.count > batch) fail(round, "names examples that the job has not got");
  }

  // The worker's parameters as they were when it began.
  Player& worker_at(const RecordedShare& share) {
    auto found = workers_.find(share.worker);
    if (share.counted == 0 && found != workers_.end()) workers_.erase(found), found = workers_.end();  // it began afresh
    if (found == workers_.end()) found = workers_.emplace(share.worker, player(share.worker, static_cast<int>(share.threads))).first;
    Player& worker = found->second;
    if (worker.holds == share.base) return worker;
    const auto base = values_.find(share.base);
    assert(base != values_.end());
    worker.replica->take({.round = share.base, .examples_after = share.examples_before, .bytes = base->second});
    worker.holds = share.base;
    return worker;
  }

  void play(const RecordedRound& round) {
    ApplyOrder order{.round = round.round, .examples_after = round.examples_after, .workers = round.workers};
    const ExchangeLayout layout = server_.replica->block().layout();
    const std::span<std::byte> row(server_.row->data(), layout.bytes());
    for (const RecordedShare& share : round.shares) {
      check_ranges(share, round);
      Player& worker = worker_at(share);
      const TrainOrder train{.round = share.base + 1,
                             .ranges = share.ranges,
                             .examples_before = share.examples_before,
                             .examples_per_step = share.examples_per_step};
      Contribution made;
      std::byte* rows[] = {worker.row->data()};
      const bool done = worker.replica->train(train, rows, cancel_, watch_, &made);
      if (!done || !made.finite || !made.payload || examples_of(made.ranges) != examples_of(share.ranges))
        fail(round, "cannot be trained again");
      const std::span<const std::byte> beside(worker.row->data() + layout.coded, layout.bytes() - layout.coded);
      add_beside(layout, row, beside, &share == round.shares.data());
      order.examples += made.examples;
      order.staleness += static_cast<double>((round.round - 1 - share.base) * made.examples);
      order.payloads.push_back({made.payload, made.examples});
    }
    order.staleness /= static_cast<double>(order.examples);
    SharedBytes reply;
    bool change = false;
    if (server_.replica->serve(order, server_.row->data(), &reply, &change)) fail(round, "cannot be trained again");
    for (const RecordedShare& share : round.shares) {
      Player& worker = workers_.at(share.worker);
      worker.replica->take(
          {.round = round.round, .examples_after = round.examples_after, .counted = true, .change = change, .bytes = reply});
      worker.holds = round.round;
      if (last_use_.at(share.worker) <= round.round) workers_.erase(share.worker);
    }
    if (change) keep_values(round.round);
    else if (base_use_.contains(round.round)) values_[round.round] = reply;
    std::erase_if(values_, [&](const auto& v) { return base_use_.at(v.first) <= round.round; });
  }

  const RunRecord& record_;
  Welcome welcome_;
  Policy policy_;
  std::map<WorkerId, int64_t> last_use_;  // the round that it contributes to last
  std::map<int64_t, int64_t> base_use_;   // of parameters: the round up to which a worker begins from them
  std::map<int64_t, SharedBytes> values_;
  std::map<WorkerId, Player> workers_;
  Player server_;
  Patient watch_;
  std::atomic<bool> cancel_{false};
};

}  // namespace

Json with_local_data(Json job) {
  const Json* data = job.find("data");
  if (!data || !data->is_object()) return job;
  Json local = *data;
  local.erase("at");
  job.set("data", std::move(local));
  return job;
}

void check_recorded_isa(const std::string& recorded) {
  const char* isa = isa_name(host_isa());
  if (recorded == isa) return;
  throw Error(ErrorKind::usage, {.where = "record",
                                 .what = "was made with other instructions than this machine has",
                                 .got = isa,
                                 .expected = recorded,
                                 .hint = "PERIGEE_ISA=" + recorded + " makes a machine use these that has them"});
}

ReplayOutcome replay(const RunRecord& record) { return Replay(record).run(); }

}  // namespace perigee
