#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/votes.h"
#include "cluster/membership/worker_impl.h"
#include "cluster/planted.h"
#include "cluster/rounds/inner_plan.h"

namespace perigee {
namespace {

double worked_s(const Figures& figures) { return figures.load_s + figures.compute_s + figures.encode_s; }

}  // namespace

void Worker::Impl::on_go(const FrameHeader&, Go message) {
  const bool holds = message.base == held_round && message.hash == held_hash;
  if (state != State::forming || healing || loading || applying || work.taking || (!holds && (work.server == 0 || is_server()))) {
    ++dropped.unexpected;
    return;
  }
  if (message.per_epoch <= 0 || message.batch <= 0 || message.global <= 0 || message.leaves <= 0 || message.position < 0 ||
      message.position > message.per_epoch)
    return lose_coordinator("its plan is not one");
  const bool takes_rate = !(planted(Bug::rate_untold) && !has_gone);
  if (message.learning_rate != learning_rate && takes_rate) learning_rate = message.learning_rate, replica.set_learning_rate(learning_rate);
  has_gone = true;
  go = std::move(message);
  state = State::running;
  Membership established{.generation = generation, .established = true};
  for (const Member& member : members) established.ids.push_back(member.id);
  remember(&memberships, established);
  mark(TracePhase::forming);
  if (staged) staged_ns = marked_ns;
  committed = go->base;
  paused = false;
  plan = {.leftovers = go->leftovers,
          .epoch = go->epoch,
          .position = go->position,
          .examples_per_epoch = go->per_epoch,
          .planned = go->planned,
          .committed = go->examples,
          .first_round = go->base + 1,
          .global = go->global,
          .leaves = go->leaves};
  examples_done = go->examples;
  exchange.expect(held_round + 1);
  expect_inner();
  if (go->standing) drop_work();  // local work has no place among gradients
  if (staged && inner.count > 0 && staged->finite) return carry_on();
  if (staged) send_ready();
  go_on();
}

void Worker::Impl::go_on() {
  if (state != State::running || paused || training || applying || healing || loading) return;
  if ((staged || exchange.active()) && !may_overlap()) return;
  if (inner_exchange.active() || inner.applying) return;
  if (work.server != 0) go_on_served();
  else if (go->standing) train_standing();
  else if (inner.count > 0) train_part();
  else train_local();
}

// ---- standing rounds ----

void Worker::Impl::train_standing() {
  const int64_t round = held_round + 1;
  planned = FixedPlan::Round{};
  if (go->last_round < 0 || round <= go->last_round) planned = plan.at(round);
  if (planned.examples == 0) {
    paused = true;
    return;
  }
  const auto [first, last] = leaves_of(rank, static_cast<int>(members.size()), go->leaves);
  bucket_staged.assign(replica.buckets().size(), false);
  buckets_staged = 0;
  trained_ns = clock.now_ns();
  TrainOrder order{.round = round,
                   .gradient = true,
                   .first_leaf = first,
                   .leaves = go->leaves,
                   .examples_before = planned.examples_before,
                   .examples_per_step = planned.examples,
                   .restart = round == go->base + 1};
  order.ranges.assign(planned.ranges.begin() + first, planned.ranges.begin() + last);
  if (go->last_round < 0 || round < go->last_round)
    if (const FixedPlan::Round after = plan.at(round + 1); after.examples > 0)
      order.next.assign(after.ranges.begin() + first, after.ranges.begin() + last);
  if (order.ranges.empty()) {  // more workers than leaves: it only receives
    staged = Contribution{.round = round};
    staged_gradient = true;
    staged_ns = trained_ns;
    prepare_standing();
    exchange.start_all();
    return after_exchange();
  }
  training = order;
  replica.train(order);
}

void Worker::Impl::prepare_standing() {
  const int size = static_cast<int>(members.size());
  Exchange::Setup setup{
      .round = held_round + 1, .rank = rank, .layout = replica.layout(), .buckets = replica.buckets(), .topology = policy.topology};
  for (int r = 0; r < size; ++r) {
    setup.ids.push_back(members[static_cast<size_t>(r)].id);
    setup.hosts.push_back(site_of(policy.inner, members, r));
  }
  size_t rows = 1;
  if (policy.shards > 0) {
    for (int r = 0; r < size; ++r) {
      const auto [first, last] = leaves_of(r, size, go->leaves);
      setup.partials.push_back(partials_of(first, last, go->leaves));
    }
    rows = std::max<size_t>(1, setup.partials[static_cast<size_t>(rank)].size());
  }
  const auto [first, last] = leaves_of(rank, size, go->leaves);
  setup.takes_part = last > first;
  for (size_t r = 0; r < rows; ++r) setup.rows.push_back(replica.exchange_row(r));
  if (coded_steps()) give_payloads(&setup);
  next_part = 1;
  exchange.prepare(std::move(setup));
  exchanged_ns = 0;
  progress_ns = clock.now_ns();
}

void Worker::Impl::start_bucket(uint32_t bucket) {
  if (!exchange.active()) prepare_standing();
  bucket_staged[bucket] = true;
  exchange.start(bucket);
}

void Worker::Impl::on_bucket(int64_t round, uint32_t bucket) {
  if (in_passes()) return on_part(round, bucket);
  if (state != State::running || !training || !training->gradient || training->round != round || bucket >= bucket_staged.size()) return;
  assert(!bucket_staged[bucket]);
  if (coded_steps()) return;  // everything goes out with the payload
  // The last one only goes out with a contribution that is finite: no other worker can then finish the round with one that is not.
  if (++buckets_staged == bucket_staged.size()) return;
  start_bucket(bucket);
}

// How long it was worked on, seconds.
double Worker::Impl::note_rate(const Contribution& contribution) {
  const double worked = worked_s(contribution.figures);
  const double seconds = worked > 0 ? worked : static_cast<double>(clock.now_ns() - trained_ns) * 1e-9;
  if (seconds <= 0 || contribution.ranges.empty()) return seconds;
  const double rate = static_cast<double>(contribution.examples) / seconds;
  examples_per_s = examples_per_s == 0 ? rate : 0.7 * examples_per_s + 0.3 * rate;
  return seconds;
}

void Worker::Impl::on_contribution(const Contribution& contribution) {
  if (!training || training->round != contribution.round) return;  // of an order that was given up
  const TrainOrder order = std::move(*training);
  training.reset();
  const double seconds = note_rate(contribution);
  if (inner.count > 0 && !order.gradient) {
    staged_ns = clock.now_ns();
    return on_part(order, contribution);
  }
  staged = contribution;
  staged_row = order.row;
  if (planted(Bug::sends_not_finite)) staged->finite = true;
  staged_gradient = order.gradient;
  staged_ns = clock.now_ns();
  if (!order.gradient) {  // what time did not suffice for comes first in the next round
    const std::vector<Range> rest = without(order.ranges, contribution.ranges);
    if (!planted(Bug::rest_lost)) queue.insert(queue.begin(), rest.begin(), rest.end());
    if (order.overlapped) staged->figures.wait_s += std::max(0.0, static_cast<double>(staged_ns - trained_ns) * 1e-9 - seconds);
    take_carried();
    if (state != State::running || healing || loading) return;
    if (!got_work()) send_ready();
    go_on();
    return;
  }
  if (state != State::running) return;
  if (!staged->finite) {
    send_ready();
    return;
  }
  progress_ns = staged_ns;
  if (coded_steps()) {
    prepare_standing();
    exchange.start_all();
    return after_exchange();
  }
  if (in_passes()) {
    start_bucket(0);
    return after_exchange();
  }
  for (uint32_t b = 0; b < bucket_staged.size(); ++b)
    if (!bucket_staged[b]) start_bucket(b);
  after_exchange();
}

// ---- announced rounds ----

void Worker::Impl::train_local() {
  assert(!go->standing && !training);
  if (carried || (queue.empty() && queue_last && policy.partial() && !staged)) return stage_only();
  if (queue.empty()) {
    if (queue_last) send_ready();
    return;
  }
  const int64_t ahead = staged ? 1 : 0;
  const int64_t all_per_step = go->batch * static_cast<int64_t>(trainers());
  TrainOrder order{.round = held_round + 1 + ahead,
                   .overlapped = staged.has_value(),
                   .row = staged ? 1 - staged_row : 0,
                   .stop_after_ms = policy.round_ms(),
                   .examples_before = examples_done + (staged ? staged->steps * all_per_step : 0),
                   .examples_per_step = all_per_step};
  const int64_t every = order_steps > 0 ? order_steps : policy.steps_of(order.round);
  const size_t steps =
      policy.every_ms > 0 ? queue.size() : std::min<size_t>(queue.size(), static_cast<size_t>(std::max<int64_t>(1, every)));
  order.ranges.assign(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(steps));
  queue.erase(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(steps));
  order.next.assign(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(std::min(queue.size(), steps)));
  local_base = held_round;
  local_before = order.examples_before, local_per_step = order.examples_per_step;
  trained_ns = clock.now_ns();
  training = order;
  replica.train(order);
}

void Worker::Impl::on_lease(Lease lease) {
  if (state != State::running || go->standing || queue.size() + lease.ranges.size() > kMaxRanges || lease.steps < 0) {
    ++dropped.unexpected;
    return;
  }
  queue.insert(queue.end(), lease.ranges.begin(), lease.ranges.end());
  queue_last = lease.last;
  order_steps = lease.steps;
  // It had said that it has no work. The coordinator takes that back when it sends some before the round has begun.
  got_work();
  if (!staged && !exchange.active()) ready_sent = false;
  if (!ready_sent || may_overlap()) go_on();
}

// Announced: the contribution is staged, or there is no work. Standing: it is not finite.
void Worker::Impl::send_ready() {
  if (ready_sent || coordinator == 0 || state != State::running) return;
  if (work.server != 0 && staged && staged->finite) {
    if (!work.exchange) push_contribution();
    return;
  }
  ready_sent = true;
  if (!staged) staged_ns = clock.now_ns();  // it waits from now on, for others that have work
  Ready ready{.base = held_round};
  if (staged) {
    ready.base = staged_gradient ? held_round : local_base;
    ready.examples = staged->examples;
    ready.steps = staged->steps;
    ready.finite = staged->finite;
    ready.ranges = staged->ranges;
    ready.figures = staged->figures;
    ready.norms = staged->norms;
  }
  tell(ready, held_round + 1);
}

void Worker::Impl::on_begin(const FrameHeader& h, Begin begin) {
  if (state != State::running || go->standing) {
    ++dropped.unexpected;
    return;
  }
  examples_done = begin.examples_after;
  const auto own = std::find_if(begin.shares.begin(), begin.shares.end(), [&](const Share& s) { return s.id == id; });
  if (own == begin.shares.end()) return;  // it goes on without this worker, which will be told to heal
  if (h.round != held_round + 1 || !ready_sent || exchange.active() || healing || loading) {
    ++dropped.unexpected;
    return;
  }
  Exchange::Setup setup{.round = h.round,
                        .rank = static_cast<int>(own - begin.shares.begin()),
                        .rows = {replica.exchange_row(staged_row)},
                        .layout = replica.layout(),
                        .buckets = replica.buckets(),
                        .takes_part = own->examples > 0,
                        .topology = policy.topology};
  const size_t coded = policy.partial() ? 0 : setup.layout.coded;
  if (policy.partial()) setup.gives.resize(begin.shares.size(), true), set_up_fragments(&setup, begin.last);
  if (coded > 0) {
    setup.buckets = {{coded, setup.layout.bytes()}};
    for (const Share& share : begin.shares) setup.gives.push_back(share.examples > 0);
    if (staged) setup.payload = staged->payload;
    if (setup.takes_part && !setup.payload) {
      ++dropped.unexpected;
      return;
    }
  }
  for (const Share& share : begin.shares) {
    const auto m = std::find_if(members.begin(), members.end(), [&](const Member& x) { return x.id == share.id; });
    if (m == members.end()) {
      ++dropped.unexpected;
      return;
    }
    setup.ids.push_back(m->id);
    setup.hosts.push_back(site_of(policy.inner, members, static_cast<int>(m - members.begin())));
  }
  if (setup.takes_part && setup.ids.size() > 1) {  // the exchange writes over it, and may break off
    kept.assign(setup.rows[0].begin() + static_cast<ptrdiff_t>(coded), setup.rows[0].end());
    kept_valid = true;
  }
  begun = std::move(begin);
  begun_ns = progress_ns = clock.now_ns();
  exchanged_ns = 0;
  exchange.prepare(std::move(setup));
  exchange.start_all();
  after_exchange();
}

// ---- both ----

bool Worker::Impl::expects_chunks(const FrameHeader& h, WorkerId from) const {
  return from != 0 && (h.generation == generation || planted(Bug::worker_fence)) && (state == State::forming || state == State::running);
}

void Worker::Impl::on_chunk(PeerId peer, const FrameHeader& h, std::span<const std::byte> payload) {
  Chunk chunk;
  std::span<const std::byte> body;
  const bool sound = decode(payload, &chunk, &body);
  on_chunk(peer, h, sound ? &chunk : nullptr, body);
}

bool Worker::Impl::send_chunk(WorkerId to, int64_t round, const Chunk& chunk, std::span<const std::byte> body) {
  const PeerId peer = links.to(to);
  if (peer == 0) return false;
  const size_t head = encode_into(chunk_head, chunk, header(round), body.size());
  if (!transport.send(peer, std::span(chunk_head).first(head), body)) return false;
  bytes_up += head + body.size();
  if (far.contains(to)) bytes_across += body.size();
  return true;
}

// The exchange that a chunk belongs to, and its number there; null: there is none such.
Exchange* Worker::Impl::exchange_of(const FrameHeader& h, const Chunk& chunk, int64_t* number) {
  constexpr int64_t kRounds = int64_t{1} << 48;  // times inner exchanges is no overflow
  *number = h.round;
  if (chunk.inner == 0) return &exchange;
  if (chunk.inner > inner.count || h.round < 0 || h.round >= kRounds) return nullptr;
  *number = h.round * inner.count + chunk.inner - 1;
  return &inner_exchange;
}

Placement Worker::Impl::place_chunk(PeerId peer, const FrameHeader& h, const Chunk& chunk) {
  const WorkerId from = links.who(peer);
  if (h.job != job || !expects_chunks(h, from)) return {};
  int64_t number = 0;
  const Exchange* of = exchange_of(h, chunk, &number);
  return of ? of->place(from, number, chunk, kHeaderBytes + h.length - kChunkHeadBytes) : Placement{};
}

// `chunk` null: it could not be read.
void Worker::Impl::on_chunk(PeerId peer, const FrameHeader& h, const Chunk* chunk, std::span<const std::byte> body) {
  if (h.job != job) {
    ++dropped.job;
    return;
  }
  const WorkerId from = links.who(peer);
  if (!expects_chunks(h, from)) {
    ++(h.generation < generation ? dropped.stale : dropped.unexpected);
    return;
  }
  bytes_down += h.length;
  int64_t number = 0;
  Exchange* of = chunk ? exchange_of(h, *chunk, &number) : nullptr;
  switch (of ? of->on_chunk(from, number, *chunk, body) : Exchange::Verdict::refused) {
    case Exchange::Verdict::taken: return of == &exchange ? after_exchange() : after_inner();
    case Exchange::Verdict::stale: ++dropped.stale; return;
    case Exchange::Verdict::refused: break;
  }
  ++(chunk ? dropped.unexpected : dropped.malformed);
  links.close(peer);
  lose_link(from, "it sent a chunk that does not belong to the exchange", true);
}

void Worker::Impl::after_exchange() {
  if (in_passes()) ask_for_part();
  if (!exchange.done() || exchanged_ns != 0) return;
  exchanged_ns = clock.now_ns();
  try_apply();
}

void Worker::Impl::try_apply() {
  if (state != State::running || applying || !exchange.done()) return;
  const int64_t round = exchange.round();
  assert(round == held_round + 1);
  if (go->standing && committed < round - 1 && !planted(Bug::applies_ahead)) return;  // at most one round is open
  applying = true;
  apply_ns = clock.now_ns();
  applying_entry = {.round = round, .generation = generation};
  if (go->standing) {
    applying_entry.ranges = joined(planned.ranges);
    ApplyOrder order{.round = round, .examples = planned.examples, .examples_after = planned.examples_before + planned.examples};
    if (coded_steps()) order.payloads = step_payloads();
    return replica.apply(order);
  }
  ApplyOrder order{
      .round = round, .row = staged_row, .examples_after = begun->examples_after, .alone = begun->shares.size() == 1, .last = begun->last};
  for (size_t r = 0; r < begun->shares.size(); ++r) {
    const Share& share = begun->shares[r];
    order.examples += share.examples;
    if (SharedBytes payload = exchange.payload(r)) order.payloads.push_back({std::move(payload), share.examples});
    applying_entry.ranges.insert(applying_entry.ranges.end(), share.ranges.begin(), share.ranges.end());
  }
  applying_entry.ranges = joined(std::move(applying_entry.ranges));
  replica.apply(order);
}

// The other participants meet the same payload: they all name who sent it.
void Worker::Impl::on_payload_refused(int64_t round, size_t payload) {
  assert(applying && round == held_round + 1);
  applying = false;
  if (state == State::running && exchange.active() && coded_steps()) return blame_step_payload(round, payload);
  if (work.server != 0) {
    work.merge_begun = false;
    const std::vector<Arrival> refused = std::exchange(work.merging, {});
    if (formed_due) return send_formed();
    return lose_link(refused.at(payload).from, "what it pushed is no payload of this job's codec", true);
  }
  if (state == State::running && exchange.active() && begun) {
    for (const Share& share : begun->shares)
      if ((share.examples > 0 || policy.partial()) && payload-- == 0 && share.id != id)
        return lose_link(share.id, "what it sent in round " + std::to_string(round) + " is no payload of this job's codec", true);
    return;
  }
  restore_contribution();  // the membership changed meanwhile
  if (training) join_staged();
  if (formed_due) send_formed();
}

void Worker::Impl::on_applied(int64_t round, uint64_t hash) {
  assert(applying && round == held_round + 1 && hash != 0);
  applying = false;
  held_round = round;
  held_hash = hash;
  applying_entry.hash = hash;
  if (!planted(Bug::no_log)) log.push_back(std::move(applying_entry));
  forget_log(-1);
  Done done{.hash = hash};
  if (staged) {
    done.examples = staged->examples;
    done.figures = staged->figures;
  } else {
    done.figures = inner.work.figures;  // it took part in others' exchanges
  }
  inner.work = {};
  if (!planted(Bug::staged_twice)) staged.reset();
  kept_valid = ready_sent = false;
  inner.touched = false;
  const bool overlapped = training && !training->gradient;
  if (overlapped) local_base = held_round;  // its work is on top of this result now
  if (formed_due) return send_formed();     // the membership changed meanwhile
  if (state != State::running || !exchange.active()) return;

  const uint64_t now = clock.now_ns();
  const auto spent = [&](TracePhase phase, uint64_t from, uint64_t to, int64_t count) {
    if (to <= from) return 0.0;
    times.add(phase, from, to, count);
    return static_cast<double>(to - from) * 1e-9;
  };
  const uint64_t exchange_began = go->standing ? staged_ns : begun_ns;
  done.figures.bytes_up += exchange.bytes_up();
  done.figures.bytes_down += exchange.bytes_down();
  done.figures.bytes_across = std::exchange(bytes_across, 0);
  times.round = round;
  const auto in_bytes = static_cast<int64_t>(done.figures.bytes_up);
  if (overlapped) {  // it cost the trainer no time
    spent(TracePhase::transfer, exchange_began, exchanged_ns, in_bytes);
  } else {
    if (!go->standing) done.figures.wait_s += spent(TracePhase::wait, staged_ns, begun_ns, 0);
    done.figures.transfer_s += spent(TracePhase::transfer, exchange_began, exchanged_ns, in_bytes);
    done.figures.wait_s += spent(TracePhase::wait, exchanged_ns, apply_ns, 0);
    done.figures.apply_s += spent(TracePhase::apply, apply_ns, now, 0);
  }
  times.round = -1;
  exchange.finish();
  expect_inner();
  tell(done, round);

  if (go->standing) {
    const int64_t after = planned.examples_before + planned.examples;
    const double progress = go->planned > 0 ? static_cast<double>(after) / static_cast<double>(go->planned) : 0;
    paused = planned.ends_epoch || planned.last || round == go->last_round || !policy.standing(progress);
  } else {
    paused = begun->evaluate || begun->last;
    begun.reset();
  }
  go_on();
}

void Worker::Impl::on_commit(const FrameHeader& h, const Commit& commit) {
  committed = std::max(committed, h.round);
  forget_log(commit.synced);
  try_apply();
}

void Worker::Impl::on_evaluate(const Evaluate& order) {
  if (!order.part.empty()) {
    ++evaluating;
    return replica.evaluate(order);
  }
  paused = false;
  go_on();
}

void Worker::Impl::drop_work() {
  if ((!training && !staged && !carried && !inner.touched) || applying) return;  // what is being applied is part of the result already
  replica.drop();
  training.reset();
  staged.reset();
  carried.reset();
  work.pushed = false;
  inner.work = {};
  inner.touched = false;
}

void Worker::Impl::restore_contribution() {
  if (!kept_valid) return;
  assert(staged && !staged_gradient);
  const std::span<std::byte> row = replica.exchange_row(staged_row);
  assert(row.size() >= kept.size());
  if (!planted(Bug::forgotten_contribution)) std::memcpy(row.data() + (row.size() - kept.size()), kept.data(), kept.size());
  kept_valid = false;
}

// Ends the exchange. Local work is kept if `keep_contribution`: it is still good on a later result; a gradient is not.
void Worker::Impl::stop_work(bool keep_contribution) {
  if (opened) {
    if (!applying) restore_contribution();
    exchange.reset(members.size(), bucket_limit(), replica.layout());
    if (inner.count > 0) stop_inner();
    const bool local = (training && !training->gradient) || (staged && !staged_gradient) || carried || inner.touched;
    if (!(keep_contribution && local)) drop_work();
    // The round is void: one contribution of both. Nobody asks to have one without ranges dropped, should others refuse its payload.
    else if (policy.partial() && staged && !applying && (training || staged->ranges.empty())) join_staged();
    if (state == State::running && go) exchange.expect(held_round + 1);
  }
  stop_served();
  begun.reset();
  if (!keep_contribution || state != State::running) healing.reset(), receiver.cancel();
  queue.clear();
  order_steps = 0;
  queue_last = ready_sent = paused = false;
}

std::vector<Range> Worker::Impl::pending() const {
  if (planted(Bug::pending_untold)) return {};
  std::vector<Range> all = inner.work.ranges;
  const auto add = [&](const std::vector<Range>& ranges) { all.insert(all.end(), ranges.begin(), ranges.end()); };
  if (training && !training->gradient) add(training->ranges);
  if (staged && !staged_gradient) add(staged->ranges);
  if (carried) add(carried->ranges);
  return all;
}

}  // namespace perigee
