#include "cluster/rounds/worker_rounds.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/worker.h"
#include "cluster/rounds/server/worker.h"
#include "cluster/rounds/steps/worker.h"

namespace perigee {

void add_work(const Contribution& part, Contribution* work) {
  work->examples += part.examples;
  work->steps += part.steps;
  work->finite = work->finite && part.finite;
  work->ranges.insert(work->ranges.end(), part.ranges.begin(), part.ranges.end());
  Figures& sum = work->figures;
  sum.loss_sum += part.figures.loss_sum;
  if (part.figures.correct >= 0) sum.correct = std::max(sum.correct, 0.0) + part.figures.correct;
  if (part.examples > 0) sum.learning_rate = part.figures.learning_rate;
  sum.load_s += part.figures.load_s;
  sum.compute_s += part.figures.compute_s;
  sum.encode_s += part.figures.encode_s;
}

WorkerRounds::WorkerRounds(WorkerCore& core) : w_(core), round_(core.round) {}

int64_t WorkerRounds::held() const { return w_.held_round; }

void WorkerRounds::go_on() {
  if (w_.state != WorkerCore::State::running || round_.paused || round_.training || round_.applying || w_.healing || w_.loading) return;
  if (may_train()) train();
}

void WorkerRounds::drop() {
  if (!has_work() || round_.applying) return;  // what is being applied is part of the result already
  w_.replica.drop();
  round_.training.reset();
  round_.staged.reset();
  forget_work();
}

void WorkerRounds::reset_exchange() {
  const size_t buckets = std::max(w_.replica.buckets().size(), w_.replica.fragments().size() + 2);
  round_.exchange.reset(w_.members.size(), buckets, w_.replica.layout());
}

Exchange* WorkerRounds::exchange_of(const FrameHeader& h, const Chunk& chunk, int64_t* number) {
  *number = h.round;
  return chunk.inner == 0 ? &round_.exchange : nullptr;
}

void WorkerRounds::begin(TrainOrder order) {
  round_.trained_ns = w_.clock.now_ns();
  round_.training = std::move(order);
  w_.replica.train(*round_.training);
}

// The contribution is staged, or it is of no use, or there is no work.
void WorkerRounds::send_ready() {
  if (round_.ready_sent || w_.coordinator == 0 || w_.state != WorkerCore::State::running) return;
  const std::optional<Contribution>& staged = round_.staged;
  round_.ready_sent = true;
  if (!staged) round_.staged_ns = w_.clock.now_ns();  // it waits from now on, for others that have work
  Ready ready{.base = held()};
  if (staged) {
    ready.base = round_.staged_gradient ? held() : round_.local_base;
    ready.examples = staged->examples;
    ready.steps = staged->steps;
    ready.finite = staged->finite;
    ready.ranges = staged->ranges;
    ready.figures = staged->figures;
    ready.norms = staged->norms;
  }
  w_.tell(ready, held() + 1);
}

std::string WorkerRounds::waits_for() const {
  if (std::string other = awaits(); !other.empty()) return other;
  const bool computing = computes() || w_.evaluating > 0;
  if (computing && w_.replica.waits_for_examples()) return "examples";
  if (computing || applies()) return "";
  const Exchange& open = open_exchange();
  if (open.active() && open.started() && !open.done()) {
    std::string names;
    const auto missing = open.waits_for();
    for (size_t i = 0; i < missing.size() && i < 3; ++i) names += (i ? ", " : "") + w_.name_of(missing[i]);
    if (missing.size() > 3) names += " and " + std::to_string(missing.size() - 3) + " more";
    return names.empty() ? "the network" : names;
  }
  if (round_.exchange.done()) return "commit";
  if (round_.paused) return "evaluation";
  return round_.staged ? "the round" : "work";
}

// ---- rounds with an exchange ----

void ExchangedRounds::on_writable(WorkerId peer) {
  if (peer == 0) return;
  round_.exchange.on_writable(peer);
  after_exchange(round_.exchange);
}

void ExchangedRounds::after_exchange(const Exchange&) {
  if (!round_.exchange.done() || round_.exchanged_ns != 0) return;
  round_.exchanged_ns = w_.clock.now_ns();
  try_apply();
}

void ExchangedRounds::try_apply() {
  if (w_.state != WorkerCore::State::running || round_.applying || !round_.exchange.done()) return;
  assert(round_.exchange.round() == held() + 1);
  if (!may_apply()) return;
  round_.applying = true;
  round_.apply_ns = w_.clock.now_ns();
  round_.applying_entry = {.round = round_.exchange.round(), .generation = w_.generation};
  w_.replica.apply(result());
}

void ExchangedRounds::on_applied(int64_t round, uint64_t hash) {
  assert(round_.applying && round == held() + 1 && hash != 0);
  round_.applying = false;
  round_.applying_entry.hash = hash;
  w_.hold(std::move(round_.applying_entry));
  Done done{.hash = hash};
  if (round_.staged) done.examples = round_.staged->examples, done.figures = round_.staged->figures;
  on_held(&done);
  if (!planted(Bug::staged_twice)) round_.staged.reset();
  round_.ready_sent = false;
  if (w_.formed_due) return w_.send_formed();  // the membership changed meanwhile
  if (w_.state != WorkerCore::State::running || !round_.exchange.active()) return;
  done.figures.bytes_up += round_.exchange.bytes_up();
  done.figures.bytes_down += round_.exchange.bytes_down();
  done.figures.bytes_across = std::exchange(w_.bytes_across, 0);
  w_.times.round = round;
  add_times(&done.figures, w_.clock.now_ns());
  w_.times.round = -1;
  round_.exchange.finish();
  expect();
  w_.tell(done, round);
  round_.paused = waits_after(round);
  go_on();
}

double ExchangedRounds::spent(TracePhase phase, uint64_t from, uint64_t to, int64_t count) {
  if (to <= from) return 0;
  w_.times.add(phase, from, to, count);
  return static_cast<double>(to - from) * 1e-9;
}

std::string ExchangedRounds::open_name() const { return "round " + std::to_string(held() + 1); }

// A member that keeps this worker waiting for too long is named to the coordinator.
void ExchangedRounds::check_deadlines(uint64_t now) {
  const Exchange& open = open_exchange();
  if (!open.active() || !open.started() || open.done()) return;
  const uint64_t bytes = open.bytes_up() + open.bytes_down();
  if (bytes != round_.progress_bytes || (round_.training && round_.training->gradient)) {
    round_.progress_bytes = bytes;
    round_.progress_ns = now;
  }
  std::vector<WorkerId> missing = open.waits_for();
  for (const WorkerId peer : missing)
    if (peer != w_.id) w_.links.to(peer);  // a link that the other side should have made is made from here
  std::erase_if(missing, [&](WorkerId id) { return still_trains(id, now); });
  if (now - round_.progress_ns <= w_.ns(w_.policy.deadline_ms) || missing.empty()) return;
  round_.progress_ns = now;
  w_.lose_link(missing.front(),
               "nothing of " + open_name() + " came from it for " + std::to_string(static_cast<int64_t>(w_.policy.deadline_ms)) + " ms");
}

// ---- the protocols ----

WorkerProtocols::WorkerProtocols(WorkerCore& core) : core_(core) {
  all_.resize(kKinds);
  all_[kSteps] = std::make_unique<SynchronousSteps>(core);
  all_[kLocal] = std::make_unique<LocalRounds>(core);
  all_[kServer] = std::make_unique<ServerRounds>(core);
}
WorkerProtocols::~WorkerProtocols() = default;

WorkerRounds& WorkerProtocols::first() const {
  return *all_[core_.policy.served ? kServer : core_.policy.synchronous(0) ? kSteps : kLocal];
}

WorkerRounds& WorkerProtocols::of(const StartEpoch& start) const {
  return *all_[core_.policy.served ? kServer : start.synchronous ? kSteps : kLocal];
}

}  // namespace perigee
