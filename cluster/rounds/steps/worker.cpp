#include "cluster/rounds/steps/worker.h"

#include <algorithm>
#include <cassert>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/inner_plan.h"

namespace perigee {

void SynchronousSteps::on_start_epoch() {
  const StartEpoch& start = *w_.epoch_start;
  plan_ = {.leftovers = start.leftovers,
           .epoch = start.epoch,
           .position = start.position,
           .examples_per_epoch = start.per_epoch,
           .planned = start.planned,
           .committed = start.examples,
           .first_round = start.base + 1,
           .global = start.global,
           .leaves = start.leaves};
  expect();
  drop();  // local work has no place among gradients
  if (round_.staged) send_ready();
  go_on();
}

void SynchronousSteps::resume() {
  expect();
  round_.ready_sent = false;
  if (round_.staged) send_ready();
  else go_on();
}

void SynchronousSteps::stop(bool) {
  if (w_.opened) {
    reset_exchange();
    drop();  // a gradient is of no use to a later round
    if (w_.state == WorkerCore::State::running && w_.epoch_start) expect();
  }
  round_.ready_sent = round_.paused = false;
}

void SynchronousSteps::train() {
  const StartEpoch& start = *w_.epoch_start;
  const int64_t round = held() + 1;
  planned_ = FixedPlan::Round{};
  if (start.last_round < 0 || round <= start.last_round) planned_ = plan_.at(round);
  if (planned_.examples == 0) {
    round_.paused = true;
    return;
  }
  const auto [first, last] = leaves_of(w_.rank, static_cast<int>(w_.members.size()), start.leaves);
  bucket_staged_.assign(w_.replica.buckets().size(), false);
  buckets_staged_ = 0;
  round_.trained_ns = w_.clock.now_ns();
  TrainOrder order{.round = round,
                   .gradient = true,
                   .first_leaf = first,
                   .leaves = start.leaves,
                   .examples_before = planned_.examples_before,
                   .examples_per_step = planned_.examples,
                   .restart = round == start.base + 1};
  order.ranges.assign(planned_.ranges.begin() + first, planned_.ranges.begin() + last);
  if (start.last_round < 0 || round < start.last_round)
    if (const FixedPlan::Round after = plan_.at(round + 1); after.examples > 0)
      order.next.assign(after.ranges.begin() + first, after.ranges.begin() + last);
  if (order.ranges.empty() && !w_.replica.layout().repeated) {  // more workers than leaves: it only receives
    round_.staged = Contribution{.round = round};
    round_.staged_gradient = true;
    round_.staged_ns = round_.trained_ns;
    prepare();
    round_.exchange.start_all();
    return after_exchange(round_.exchange);
  }
  begin(std::move(order));
}

void SynchronousSteps::prepare() {
  const int size = static_cast<int>(w_.members.size());
  Exchange::Setup setup{
      .round = held() + 1, .rank = w_.rank, .layout = w_.replica.layout(), .buckets = w_.replica.buckets(), .topology = w_.policy.topology};
  for (int r = 0; r < size; ++r) {
    setup.ids.push_back(w_.members[static_cast<size_t>(r)].id);
    setup.hosts.push_back(site_of(w_.policy.inner, w_.members, r));
  }
  const int leaves = w_.epoch_start->leaves;
  size_t rows = 1;
  if (w_.policy.shards > 0) {
    for (int r = 0; r < size; ++r) {
      const auto [first, last] = leaves_of(r, size, leaves);
      setup.partials.push_back(partials_of(first, last, leaves));
    }
    rows = std::max<size_t>(1, setup.partials[static_cast<size_t>(w_.rank)].size());
  }
  const auto [first, last] = leaves_of(w_.rank, size, leaves);
  setup.takes_part = last > first;
  for (size_t r = 0; r < rows; ++r) setup.rows.push_back(w_.replica.exchange_row(r));
  if (coded()) give_payloads(&setup);
  next_pass_ = 1;
  makes_part_ = false;
  round_.exchange.prepare(std::move(setup));
  round_.exchanged_ns = 0;
  round_.progress_ns = w_.clock.now_ns();
}

void SynchronousSteps::start_bucket(uint32_t bucket) {
  if (!round_.exchange.active()) prepare();
  bucket_staged_[bucket] = true;
  round_.exchange.start(bucket);
}

void SynchronousSteps::on_bucket(int64_t round, uint32_t bucket) {
  if (in_passes()) return on_pass(round, bucket);
  const std::optional<TrainOrder>& training = round_.training;
  const bool awaited = training && training->gradient && training->round == round && bucket < bucket_staged_.size();
  if (w_.state != WorkerCore::State::running || !awaited) return;
  assert(!bucket_staged_[bucket]);
  if (coded()) return;  // everything goes out with the payload
  // The last one only goes out with a contribution that is finite: no other worker can then finish the round with one that is not.
  if (++buckets_staged_ == bucket_staged_.size()) return;
  start_bucket(bucket);
}

void SynchronousSteps::on_contribution(const TrainOrder&, const Contribution& contribution, double) {
  round_.staged = contribution;
  if (planted(Bug::sends_not_finite)) round_.staged->finite = true;
  round_.staged_gradient = true;
  round_.staged_ns = w_.clock.now_ns();
  if (w_.state != WorkerCore::State::running) return;
  if (!round_.staged->finite) return send_ready();
  round_.progress_ns = round_.staged_ns;
  if (coded()) {
    prepare();
    round_.exchange.start_all();
  } else if (in_passes()) {
    start_bucket(0);
  } else {
    for (uint32_t b = 0; b < bucket_staged_.size(); ++b)
      if (!bucket_staged_[b]) start_bucket(b);
  }
  after_exchange(round_.exchange);
}

void SynchronousSteps::after_exchange(const Exchange& exchange) {
  if (in_passes()) ask_for_pass();
  ExchangedRounds::after_exchange(exchange);
}

// At most one round is open.
bool SynchronousSteps::may_apply() const { return w_.committed >= round_.exchange.round() - 1 || planted(Bug::applies_ahead); }

ApplyOrder SynchronousSteps::result() {
  round_.applying_entry.ranges = joined(planned_.ranges);
  ApplyOrder order{
      .round = round_.exchange.round(), .examples = planned_.examples, .examples_after = planned_.examples_before + planned_.examples};
  if (coded()) order.payloads = payloads();
  return order;
}

void SynchronousSteps::add_times(Figures* figures, uint64_t now) {
  figures->transfer_s += spent(TracePhase::transfer, round_.staged_ns, round_.exchanged_ns, static_cast<int64_t>(figures->bytes_up));
  figures->wait_s += spent(TracePhase::wait, round_.exchanged_ns, round_.apply_ns, 0);
  figures->apply_s += spent(TracePhase::apply, round_.apply_ns, now, 0);
}

bool SynchronousSteps::waits_after(int64_t round) {
  const int64_t after = planned_.examples_before + planned_.examples;
  const double progress = w_.epoch_start->planned > 0 ? static_cast<double>(after) / static_cast<double>(w_.epoch_start->planned) : 0;
  return planned_.ends_epoch || planned_.last || round == w_.epoch_start->last_round || !w_.policy.synchronous(progress);
}

void SynchronousSteps::on_payload_refused(int64_t round, size_t payload) {
  assert(round_.applying && round == held() + 1);
  round_.applying = false;
  if (w_.state == WorkerCore::State::running && round_.exchange.active()) return blame_payload(round, payload);
  if (w_.formed_due) w_.send_formed();  // the membership changed meanwhile
}

}  // namespace perigee
