#include "cluster/rounds/local/worker.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/fragment_exchange.h"
#include "cluster/rounds/local/inner_plan.h"

namespace perigee {

LocalRounds::LocalRounds(WorkerCore& core)
    : ExchangedRounds(core), inner_exchange_([this](WorkerId to, int64_t number, Chunk chunk, std::span<const std::byte> body) {
        chunk.inner = static_cast<uint32_t>(number % inner_count()) + 1;
        return w_.send_chunk(to, number / inner_count(), chunk, body);
      }) {}

void LocalRounds::on_propose() {
  if (has_inner()) reset_inner();
}

void LocalRounds::on_start_epoch() {
  expect();
  if (round_.staged && has_inner() && round_.staged->finite) return carry_on();
  if (round_.staged) send_ready();
  go_on();
}

void LocalRounds::resume() {
  expect();
  round_.ready_sent = false;
  if (round_.staged) send_ready();
  else go_on();
}

void LocalRounds::expect() {
  ExchangedRounds::expect();
  expect_inner();
}

// Ends the exchange. A contribution that is kept is still good on a later result.
void LocalRounds::stop(bool keep) {
  if (w_.opened) {
    if (!round_.applying) restore_contribution();
    reset_exchange();
    if (has_inner()) stop_inner();
    if (!keep) drop();
    // The round is void: one contribution of both. One without ranges is never dropped, should others refuse its payload.
    else if (w_.policy.partial() && round_.staged && !round_.applying && (round_.training || round_.staged->ranges.empty())) join_staged();
    if (w_.state == WorkerCore::State::running && w_.epoch_start) round_.exchange.expect(held() + 1);
  }
  begun_.reset();
  leased_.clear();
  round_.ready_sent = round_.paused = false;
}

void LocalRounds::forget_work() {
  carried_.reset();
  inner_.work = {};
  inner_.touched = false;
}

std::vector<Range> LocalRounds::pending() const {
  std::vector<Range> all = inner_.work.ranges;
  const auto add = [&](const std::vector<Range>& ranges) { all.insert(all.end(), ranges.begin(), ranges.end()); };
  if (round_.training) add(round_.training->ranges);
  if (round_.staged) add(round_.staged->ranges);
  if (carried_) add(carried_->ranges);
  return all;
}

// ---- training ----

bool LocalRounds::may_train() const {
  return (ExchangedRounds::may_train() || may_overlap()) && !inner_exchange_.active() && !inner_.applying;
}

void LocalRounds::train() {
  if (has_inner()) train_part();
  else train_leased();
}

void LocalRounds::train_leased() {
  assert(!round_.training);
  const bool ahead = round_.staged.has_value();
  if (carried_ || (leased_.queue.empty() && leased_.last && w_.policy.partial() && !ahead)) return stage_only();
  if (leased_.queue.empty()) {
    if (leased_.last) send_ready();
    return;
  }
  TrainOrder order = leased_.next(w_, ahead, staged_row_);
  round_.local_base = held();
  begin(std::move(order));
}

void LocalRounds::on_lease(const Lease& lease) {
  if (w_.state != WorkerCore::State::running || !leased_.add(lease)) {
    ++w_.dropped.unexpected;
    return;
  }
  // It had said that it has no work. The coordinator takes that back when it sends some before the round has begun.
  got_work();
  if (!round_.staged && !round_.exchange.active()) round_.ready_sent = false;
  if (!round_.ready_sent || may_overlap()) go_on();
}

void LocalRounds::on_contribution(const TrainOrder& order, const Contribution& contribution, double worked_s) {
  round_.staged_ns = w_.clock.now_ns();
  if (has_inner()) return on_part(order, contribution);
  round_.staged = contribution;
  staged_row_ = order.row;
  if (planted(Bug::sends_not_finite)) round_.staged->finite = true;
  round_.staged_gradient = false;
  // Work that did not fit into the time comes first in the next round.
  if (!planted(Bug::rest_lost)) leased_.put_back(without(order.ranges, contribution.ranges));
  if (order.overlapped)
    round_.staged->figures.wait_s += std::max(0.0, static_cast<double>(round_.staged_ns - round_.trained_ns) * 1e-9 - worked_s);
  take_carried();
  if (w_.state != WorkerCore::State::running || w_.healing || w_.loading) return;
  join_late();
  if (round_.staged && !got_work()) send_ready();
  go_on();
}

// ---- the round ----

Received LocalRounds::on_coordinator_frame(const FrameHeader& header, std::span<const std::byte> payload) {
  static constexpr std::array kRoutes = {
      route<Lease, &LocalRounds::on_lease, LocalRounds, PeerId>(Fence::none),
      route<Begin, &LocalRounds::on_begin, LocalRounds, PeerId>(Fence::none),
  };
  return dispatch<LocalRounds, PeerId, Fence>(kRoutes, *this, w_.coordinator, header, payload, [](Fence) { return true; });
}

void LocalRounds::on_begin(const FrameHeader& h, Begin begin) {
  if (w_.state != WorkerCore::State::running) {
    ++w_.dropped.unexpected;
    return;
  }
  round_.examples_done = begin.examples_after;
  const auto own = std::find_if(begin.shares.begin(), begin.shares.end(), [&](const Share& s) { return s.id == w_.id; });
  if (own == begin.shares.end()) return;  // it goes on without this worker, which will be told to heal
  if (h.round != held() + 1 || !round_.ready_sent || round_.exchange.active() || w_.healing || w_.loading) {
    ++w_.dropped.unexpected;
    return;
  }
  Exchange::Setup setup{.round = h.round,
                        .rank = static_cast<int>(own - begin.shares.begin()),
                        .rows = {w_.replica.exchange_row(staged_row_)},
                        .layout = w_.replica.layout(),
                        .buckets = w_.replica.buckets(),
                        .takes_part = own->examples > 0,
                        .topology = w_.policy.topology};
  if (!set_up(begin, &setup)) {
    ++w_.dropped.unexpected;
    return;
  }
  if (setup.takes_part && setup.ids.size() > 1) {  // the exchange writes over it, and may break off
    const size_t coded = w_.policy.partial() ? 0 : setup.layout.coded;
    kept_.assign(setup.rows[0].begin() + static_cast<ptrdiff_t>(coded), setup.rows[0].end());
    kept_valid_ = true;
  }
  begun_ = std::move(begin);
  begun_ns_ = round_.progress_ns = w_.clock.now_ns();
  round_.exchanged_ns = 0;
  round_.exchange.prepare(std::move(setup));
  round_.exchange.start_all();
  after_exchange(round_.exchange);
}

// Who takes part, and what each sends. False: this worker cannot take part in that.
bool LocalRounds::set_up(const Begin& begin, Exchange::Setup* setup) const {
  const size_t coded = w_.policy.partial() ? 0 : setup->layout.coded;
  if (w_.policy.partial()) setup->gives.resize(begin.shares.size(), true);
  if (coded > 0) {
    setup->buckets = {{coded, setup->layout.bytes()}};
    for (const Share& share : begin.shares) setup->gives.push_back(share.examples > 0);
    if (round_.staged) setup->payload = round_.staged->payload;
    if (setup->takes_part && !setup->payload) return false;
  }
  for (const Share& share : begin.shares) {
    const auto m = std::find_if(w_.members.begin(), w_.members.end(), [&](const Member& x) { return x.id == share.id; });
    if (m == w_.members.end()) return false;
    setup->ids.push_back(m->id);
    setup->hosts.push_back(site_of(w_.policy.inner, w_.members, static_cast<int>(m - w_.members.begin())));
  }
  if (w_.policy.partial()) set_up_fragments(w_.replica.fragments(), begin.last, round_.staged ? &*round_.staged : nullptr, setup);
  return true;
}

ApplyOrder LocalRounds::result() {
  if (w_.policy.partial()) tell_exchanged();
  ApplyOrder order{.round = round_.exchange.round(),
                   .row = staged_row_,
                   .examples_after = begun_->examples_after,
                   .alone = begun_->shares.size() == 1,
                   .last = begun_->last};
  std::vector<Range> ranges;
  for (size_t r = 0; r < begun_->shares.size(); ++r) {
    const Share& share = begun_->shares[r];
    order.examples += share.examples;
    if (SharedBytes payload = round_.exchange.payload(r)) order.payloads.push_back({std::move(payload), share.examples});
    ranges.insert(ranges.end(), share.ranges.begin(), share.ranges.end());
  }
  round_.applying_entry.ranges = joined(std::move(ranges));
  return order;
}

// The other participants meet the same payload: they all name who sent it.
void LocalRounds::on_payload_refused(int64_t round, size_t payload) {
  assert(round_.applying && round == held() + 1);
  round_.applying = false;
  if (w_.state == WorkerCore::State::running && round_.exchange.active() && begun_) {
    for (const Share& share : begun_->shares)
      if ((share.examples > 0 || w_.policy.partial()) && payload-- == 0 && share.id != w_.id)
        return w_.lose_link(share.id, "what it sent in round " + std::to_string(round) + " is no payload of this job's codec", true);
    return;
  }
  restore_contribution();  // the membership changed meanwhile
  if (round_.training) join_staged();
  if (w_.formed_due) w_.send_formed();
}

void LocalRounds::restore_contribution() {
  if (!kept_valid_) return;
  assert(round_.staged && !round_.staged_gradient);
  const std::span<std::byte> row = w_.replica.exchange_row(staged_row_);
  assert(row.size() >= kept_.size());
  if (!planted(Bug::forgotten_contribution)) std::memcpy(row.data() + (row.size() - kept_.size()), kept_.data(), kept_.size());
  kept_valid_ = false;
}

void LocalRounds::on_held(Done* done) {
  if (!round_.staged) done->figures = inner_.work.figures;  // it took part in others' exchanges
  inner_.work = {};
  inner_.touched = false;
  kept_valid_ = false;
  if (round_.training) round_.local_base = held();  // its work is on top of this result now
}

void LocalRounds::add_times(Figures* figures, uint64_t now) {
  const auto in_bytes = static_cast<int64_t>(figures->bytes_up);
  if (round_.training) {  // overlapped: the round cost the trainer no time
    spent(TracePhase::transfer, begun_ns_, round_.exchanged_ns, in_bytes);
    return;
  }
  figures->wait_s += spent(TracePhase::wait, round_.staged_ns, begun_ns_, 0);
  figures->transfer_s += spent(TracePhase::transfer, begun_ns_, round_.exchanged_ns, in_bytes);
  figures->wait_s += spent(TracePhase::wait, round_.exchanged_ns, round_.apply_ns, 0);
  figures->apply_s += spent(TracePhase::apply, round_.apply_ns, now, 0);
}

bool LocalRounds::waits_after(int64_t) {
  const Begin begin = *std::exchange(begun_, std::nullopt);
  return begin.evaluate || begin.last;
}

// ---- inner exchanges, fragments, overlap ----

Exchange* LocalRounds::exchange_of(const FrameHeader& h, const Chunk& chunk, int64_t* number) {
  constexpr int64_t kRounds = int64_t{1} << 48;  // times inner exchanges is no overflow
  if (chunk.inner == 0) return ExchangedRounds::exchange_of(h, chunk, number);
  if (chunk.inner > inner_count() || h.round < 0 || h.round >= kRounds) return nullptr;
  *number = h.round * inner_count() + chunk.inner - 1;
  return &inner_exchange_;
}

void LocalRounds::after_exchange(const Exchange& exchange) {
  if (&exchange == &inner_exchange_) after_inner();
  else ExchangedRounds::after_exchange(exchange);
}

void LocalRounds::on_writable(WorkerId peer) {
  if (peer == 0) return;
  ExchangedRounds::on_writable(peer);
  inner_exchange_.on_writable(peer);
  after_inner();
}

const Exchange& LocalRounds::open_exchange() const { return inner_exchange_.active() ? inner_exchange_ : round_.exchange; }

std::string LocalRounds::open_name() const {
  return (inner_exchange_.active() ? "inner exchange " + std::to_string(inner_.index) + " of round " : "round ") +
         std::to_string(held() + 1);
}

void LocalRounds::check_deadlines(uint64_t now) {
  check_apply(now);
  if (w_.state != WorkerCore::State::stopped) ExchangedRounds::check_deadlines(now);
}

void LocalRounds::keep_work() {
  if (round_.staged && !round_.staged->finite) return;  // the coordinator has to hear of it: it is said again for the next round
  if (w_.policy.partial()) join_staged();               // of another round than that for which it was staged
}

}  // namespace perigee
