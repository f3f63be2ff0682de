#include "cluster/replica/replay_workers.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "cluster/replica/replay_parts.h"
#include "cluster/replica/replica_trainer.h"
#include "cluster/rounds/local/fragment_exchange.h"
#include "src/core/error.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

using StepKind = TrainerStep::Kind;

// A line of a log.
struct ReplayPlace {
  size_t log = 0, step = 0;
  auto operator<=>(const ReplayPlace&) const = default;
};

// A row that a worker staged.
struct ReplayRow {
  std::unique_ptr<Storage> bytes;
  Contribution contribution;
};

struct ReplayedExchange {
  const TrainerStep* told = nullptr;
  std::vector<std::optional<ReplayPlace>> inputs;  // of each rank: where it was staged
  std::vector<std::unique_ptr<Storage>> rows;      // of each rank, once it is made
  std::vector<SharedBytes> payloads;               // of the workers that gave one
  std::vector<int64_t> payload_examples;
  bool made = false;
};
using ReplayRound = std::pair<int64_t, uint64_t>;  // its number, the hash of its result

[[noreturn]] void refuse_log(const TrainerLog& log, const std::string& what) {
  throw Error(ErrorKind::data, {.where = log.where, .what = what, .hint = "the record, or the data of its job, was changed since"});
}

// Which lines belong together, over all logs.
class ReplayPlan {
 public:
  explicit ReplayPlan(const std::vector<TrainerLog>& logs) : logs_(logs) {
    for (size_t i = 0; i < logs.size(); ++i) read(i);
    for (auto& [round, exchange] : exchanges_)
      for (size_t rank = 0; rank < exchange.inputs.size(); ++rank) {
        if (!exchange.inputs[rank]) exchange.inputs[rank] = find(exchange.told->members[rank].id, round.first, exchange.told->members);
        needed_.insert(*exchange.inputs[rank]);
      }
  }

  ReplayedExchange& of(const ReplayRound& round) { return exchanges_.at(round); }
  size_t rank_of(ReplayPlace applied) const { return ranks_.at(applied); }
  bool needs(ReplayPlace staged) const { return needed_.contains(staged); }
  bool needs(uint64_t image) const { return images_.contains(image); }

 private:
  void read(size_t number) {
    const TrainerLog& log = logs_[number];
    const TrainerStep* exchanged = nullptr;
    std::optional<ReplayPlace> staged;
    for (size_t i = 0; i < log.steps.size(); ++i) {
      const TrainerStep& step = log.steps[i];
      follow(step, {number, i}, &staged);
      if (step.kind == StepKind::loaded && step.image != 0) images_.insert(step.image);
      if (step.kind == StepKind::exchanged) exchanged = &step;
      if (step.kind != StepKind::applied) continue;
      if (!exchanged || exchanged->round != step.round)
        refuse_log(log, "applies a round that it was not in: " + std::to_string(step.round));
      const auto self = std::find_if(exchanged->members.begin(), exchanged->members.end(),
                                     [&](const TrainerStep::Member& m) { return m.id == exchanged->self; });
      if (self == exchanged->members.end() || !staged)
        refuse_log(log, "applies a round to which it gave nothing: " + std::to_string(step.round));
      ReplayedExchange& exchange = exchanges_[{step.round, step.hash}];
      if (!exchange.told) exchange.told = exchanged, exchange.inputs.resize(exchanged->members.size());
      if (exchange.told->members != exchanged->members)
        refuse_log(log, "names others in round " + std::to_string(step.round) + " than another log");
      const auto rank = static_cast<size_t>(self - exchanged->members.begin());
      exchange.inputs[rank] = staged;
      ranks_[{number, i}] = rank;
    }
  }

  static void follow(const TrainerStep& step, ReplayPlace place, std::optional<ReplayPlace>* staged) {
    if (step.kind == StepKind::staged) *staged = place;
    if (step.kind == StepKind::unstaged || step.kind == StepKind::dropped) staged->reset();
  }

  // For a worker that did not live to apply it, or had to fetch it from others.
  ReplayPlace find(WorkerId id, int64_t round, const std::vector<TrainerStep::Member>& members) const {
    for (size_t number = 0; number < logs_.size(); ++number) {
      const TrainerLog& log = logs_[number];
      std::optional<ReplayPlace> staged;
      bool its = log.worker == id;
      for (size_t i = 0; i < log.steps.size(); ++i) {
        const TrainerStep& step = log.steps[i];
        its = its || (step.kind == StepKind::exchanged && step.self == id);
        if (step.kind == StepKind::exchanged && step.round == round && step.members == members) break;
        if ((step.kind == StepKind::applied || step.kind == StepKind::loaded) && step.round >= round) break;
        follow(step, {number, i}, &staged);
      }
      if (its && staged) return *staged;
    }
    throw Error(ErrorKind::data,
                {.where = "record", .what = "lacks what worker " + std::to_string(id) + " gave to round " + std::to_string(round)});
  }

  const std::vector<TrainerLog>& logs_;
  std::map<ReplayRound, ReplayedExchange> exchanges_;
  std::map<ReplayPlace, size_t> ranks_;
  std::set<ReplayPlace> needed_;
  std::set<uint64_t> images_;
};

// One trainer works at a time; one that waits for something of another lets it.
class ReplayBoard {
 public:
  explicit ReplayBoard(size_t players) : alive_(players) {}
  std::unique_lock<std::mutex> enter() { return std::unique_lock(mutex_); }

  void changed() {
    ++version_, idle_ = 0;
    turn_.notify_all();
  }
  void leave() {
    --alive_;
    changed();
  }
  void stop(const Error& error) {
    if (!error_) error_ = error;
    over_ = true;
    changed();
  }
  void finish() { over_ = true, changed(); }
  bool over() const { return over_; }

  // False: the replay is over.
  bool wait(std::unique_lock<std::mutex>& lock, const TrainerLog& log, const std::function<bool()>& there) {
    while (!over_ && !there()) {
      if (++idle_ >= alive_)
        stop(Error(ErrorKind::data,
                   {.where = log.where, .what = "waits for what no other worker's record has", .hint = "is a file missing?"}));
      const uint64_t seen = version_;
      turn_.wait(lock, [&] { return over_ || version_ != seen; });
    }
    return !over_;
  }

  std::map<ReplayPlace, ReplayRow> staged;
  std::map<uint64_t, SharedBytes> images;
  ReplayOutcome outcome;
  std::set<int64_t> rounds;
  std::optional<Error> error() const { return error_; }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  size_t alive_, idle_ = 0;
  uint64_t version_ = 0;
  bool over_ = false;
  std::optional<Error> error_;
};

struct ReplayFlight {
  WorkerId from = 0, to = 0;
  Chunk chunk;
  std::vector<std::byte> body;
};

// The sum of the rows, as the real workers' exchange made it.
void make_sum(const Policy& policy, const ReplicaTrainer& trainer, ReplayBoard& board, ReplayedExchange* exchange) {
  const TrainerStep& told = *exchange->told;
  const ExchangeLayout layout = trainer.block().layout();
  const std::vector<FragmentPart> parts = trainer.fragments();
  std::deque<ReplayFlight> flights;
  std::vector<std::unique_ptr<Exchange>> ends;
  for (const auto& member : told.members)
    ends.push_back(
        std::make_unique<Exchange>([&flights, from = member.id](WorkerId to, int64_t, const Chunk& chunk, std::span<const std::byte> body) {
          flights.push_back({from, to, chunk, {body.begin(), body.end()}});
          return true;
        }));
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    ReplayRow row = std::move(board.staged.at(*exchange->inputs[rank]));
    board.staged.erase(*exchange->inputs[rank]);
    exchange->rows.push_back(std::move(row.bytes));
    Exchange::Setup setup{.round = told.round,
                          .rank = static_cast<int>(rank),
                          .rows = {{exchange->rows.back()->data(), layout.bytes()}},
                          .layout = layout,
                          .topology = policy.topology};
    for (const auto& member : told.members) setup.ids.push_back(member.id), setup.hosts.push_back(member.site);
    setup.gives.resize(told.members.size(), true);
    set_up_fragments(parts, told.last, &row.contribution, &setup);
    ends[rank]->reset(told.members.size(), std::max(trainer.block().buckets().size(), parts.size() + 2), layout);
    ends[rank]->expect(told.round);
    ends[rank]->prepare(std::move(setup));
  }
  for (const auto& end : ends) end->start_all();
  for (; !flights.empty(); flights.pop_front()) {
    const ReplayFlight& flight = flights.front();
    for (size_t rank = 0; rank < ends.size(); ++rank)
      if (told.members[rank].id == flight.to) ends[rank]->on_chunk(flight.from, told.round, flight.chunk, flight.body);
  }
  for (size_t rank = 0; rank < ends.size(); ++rank)
    if (SharedBytes payload = ends[0]->payload(rank))
      exchange->payloads.push_back(std::move(payload)), exchange->payload_examples.push_back(told.members[rank].examples);
  exchange->made = true;
}

class WorkerPlayer final : private OrderWatch {
 public:
  WorkerPlayer(const TrainerLog& log, size_t number, ReplayPlan& plan, ReplayBoard& board, const std::map<int64_t, uint64_t>& booked)
      : log_(log),
        number_(number),
        plan_(plan),
        board_(board),
        booked_(booked),
        policy_(read_policy(log.job.find("averaging"), "record")) {}

  void run() {
    lock_ = board_.enter();
    try {
      play();
    } catch (const Error& error) {
      board_.stop(error);
    } catch (const std::exception& error) {
      board_.stop(Error(ErrorKind::resources, {.where = log_.where, .what = error.what()}));
    }
    trainer_.reset();
    board_.leave();
    lock_.unlock();
  }

 private:
  void play() {
    Welcome welcome{.id = log_.worker,
                    .job = with_local_data(log_.job).dump(),
                    .folder = log_.folder,
                    .tuning = log_.tuning,
                    .threads = static_cast<int>(log_.threads)};
    trainer_ = std::make_unique<ReplicaTrainer>(welcome, ReplicaTrainerOptions{});
    for (auto& row : rows_) {
      row = std::make_unique<Storage>(trainer_->block().layout().bytes());
      std::fill_n(row->data(), row->bytes(), std::byte{0});
    }
    while (next_ < log_.steps.size() && !board_.over()) {
      if (log_.steps[next_].kind == StepKind::train) train();
      else take(log_.steps[next_]);
    }
  }

  // The order as it was carried out: an order that time ended has only the ranges that were trained.
  void train() {
    TrainOrder order = log_.steps[next_].order;
    size_t end = ++next_;
    const auto nested = [&](const TrainerStep& step) {
      return step.kind != StepKind::staged && step.kind != StepKind::given_up && step.kind != StepKind::train;
    };
    while (end < log_.steps.size() && nested(log_.steps[end])) ++end;
    end_ = end;
    const bool staged = end < log_.steps.size() && log_.steps[end].kind == StepKind::staged;
    if (staged && log_.steps[end].finite) order.ranges.resize(std::min(order.ranges.size(), static_cast<size_t>(log_.steps[end].at)));
    gives_up_ = !staged;
    steps_ = 0;
    Contribution made;
    std::byte* rows[] = {rows_[order.row]->data()};
    const bool done = trainer_->train(order, rows, cancel_, *this, &made);
    if (board_.over()) return;
    while (next_ < end_) take(log_.steps[next_]);
    if (!staged) {
      if (end < log_.steps.size() && log_.steps[end].kind == StepKind::given_up) ++next_;
      return;
    }
    const TrainerStep& told = log_.steps[next_];
    if (!done || made.finite != told.finite || made.examples != told.examples) refuse_log(log_, "an order cannot be trained again");
    if (plan_.needs(ReplayPlace{number_, next_})) {
      ReplayRow row{.bytes = std::make_unique<Storage>(rows_[order.row]->bytes()), .contribution = std::move(made)};
      std::copy_n(rows_[order.row]->data(), row.bytes->bytes(), row.bytes->data());
      board_.staged[{number_, next_}] = std::move(row);
      board_.changed();
    }
    staged_row_ = rows_[order.row]->data();
    ++next_;
  }

  // Everything that is no order, in an order or between two.
  void take(const TrainerStep& step) {
    const ReplayPlace here{number_, next_++};
    switch (step.kind) {
      case StepKind::loaded: return load(step);
      case StepKind::imaged: return make_image(step);
      case StepKind::applied: return apply(step, here);
      case StepKind::unstaged: return trainer_->unstage();
      case StepKind::dropped: return staged_row_ = nullptr, trainer_->drop();
      default: return;
    }
  }

  void load(const TrainerStep& step) {
    SharedBytes image;
    if (step.image != 0) {
      if (!board_.wait(lock_, log_, [&] { return board_.images.contains(step.image); })) return;
      image = board_.images.at(step.image);
    }
    if (!step.keep_local) staged_row_ = nullptr, trainer_->drop();
    trainer_->load(step.round, image.get(), step.keep_local, staged_row_);
    if (trainer_->hash() != step.hash) differ(step);
  }

  void make_image(const TrainerStep& step) {
    if (!plan_.needs(step.image)) return;
    SharedBytes image = trainer_->snapshot(true);
    if (!image || image_digest(*image) != step.image)
      refuse_log(log_, "an image of round " + std::to_string(trainer_->round()) + " comes out otherwise");
    board_.images[step.image] = std::make_shared<const std::vector<std::byte>>(*image);
    board_.changed();
  }

  void apply(const TrainerStep& step, ReplayPlace here) {
    ReplayedExchange& exchange = plan_.of({step.round, step.hash});
    const auto there = [&] {
      return exchange.made ||
             std::all_of(exchange.inputs.begin(), exchange.inputs.end(), [&](const auto& input) { return board_.staged.contains(*input); });
    };
    if (!board_.wait(lock_, log_, there)) return;
    if (!exchange.made) make_sum(policy_, *trainer_, board_, &exchange);
    const TrainerStep& told = *exchange.told;
    ApplyOrder order{.round = step.round, .examples_after = told.examples, .alone = told.members.size() == 1, .last = told.last};
    for (const auto& member : told.members) order.examples += member.examples;
    for (size_t i = 0; i < exchange.payloads.size(); ++i) order.payloads.push_back({exchange.payloads[i], exchange.payload_examples[i]});
    const std::unique_ptr<Storage> row = std::move(exchange.rows[plan_.rank_of(here)]);
    if (trainer_->apply(order, row->data())) refuse_log(log_, "round " + std::to_string(step.round) + " cannot be trained again");
    staged_row_ = nullptr;
    if (trainer_->hash() != step.hash) return differ(step);
    const auto counts = booked_.find(step.round);
    if (counts != booked_.end() && counts->second == step.hash) board_.rounds.insert(step.round);
    if (counts == booked_.end() || step.round < booked_.rbegin()->first || counts->second != step.hash) return;
    board_.outcome.hash = step.hash;
    if (!board_.outcome.model)
      if (const SharedBytes model = trainer_->snapshot(false))
        board_.outcome.model = std::make_shared<const std::vector<std::byte>>(*model);
  }

  void differ(const TrainerStep& step) {
    board_.outcome.differs = step.round;
    board_.outcome.hash = trainer_->hash();
    board_.finish();
  }

  // All that was done beside the order after so many of its steps.
  bool given_up() override {
    while (next_ < end_ && log_.steps[next_].at <= steps_ && !board_.over()) take(log_.steps[next_]);
    const bool ended = end_ == log_.steps.size() ? next_ == end_ : log_.steps[end_].at <= steps_;
    return board_.over() || (gives_up_ && ended);
  }
  void on_step() override { ++steps_; }
  void on_bucket(size_t) override {}

  const TrainerLog& log_;
  const size_t number_;
  ReplayPlan& plan_;
  ReplayBoard& board_;
  const std::map<int64_t, uint64_t>& booked_;
  const Policy policy_;
  std::unique_lock<std::mutex> lock_;
  std::unique_ptr<ReplicaTrainer> trainer_;
  std::unique_ptr<Storage> rows_[2];
  std::byte* staged_row_ = nullptr;
  size_t next_ = 0, end_ = 0;  // the next line; the one that ends the order in progress
  int64_t steps_ = 0;
  bool gives_up_ = false;
  std::atomic<bool> cancel_{false};
};

}  // namespace

ReplayOutcome replay_workers(const std::vector<TrainerLog>& logs, const std::map<int64_t, uint64_t>& booked) {
  for (const TrainerLog& log : logs) check_recorded_isa(log.isa);
  ReplayPlan plan(logs);
  ReplayBoard board(logs.size());
  std::vector<std::unique_ptr<WorkerPlayer>> players;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < logs.size(); ++i) players.push_back(std::make_unique<WorkerPlayer>(logs[i], i, plan, board, booked));
  for (const auto& player : players) threads.emplace_back([&player] { player->run(); });
  for (std::thread& thread : threads) thread.join();
  if (board.error()) throw Error(*board.error());
  board.outcome.rounds = static_cast<int64_t>(board.rounds.size());
  if (!board.outcome.differs)
    for (const auto& [round, hash] : booked)
      if (!board.rounds.contains(round))
        throw Error(ErrorKind::data, {.where = "record",
                                      .what = "lacks round " + std::to_string(round) + ", which the ledger counts",
                                      .hint = "the run went on without --record"});
  return board.outcome;
}

}  // namespace perigee
