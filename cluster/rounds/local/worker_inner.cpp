// Exchanges inside groups between two rounds. A round's local steps are cut into orders of inner.every steps. After each but the last one the
// worker averages its parameters with its group, weighted by the examples that each has trained since the last result, and trains on from
// the mean. The sum over the workers of weight times parameters is thereby what it was: the round's contributions add up to the same, however
// groups are made and however much each has done. Every worker takes part in every inner exchange of every round, with weight 0 when it has
// trained nothing, so that no member waits for one that does not come; after a change of membership all begin with the first one again.
#include <algorithm>
#include <cassert>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/inner_plan.h"
#include "cluster/rounds/local/worker.h"

namespace perigee {
bool LocalRounds::has_inner() const { return w_.policy.inner.active() && inner_count() > 0; }

int64_t LocalRounds::inner_count() const { return inner_exchanges(w_.policy); }

int64_t LocalRounds::inner_number() const { return (held() + 1) * inner_count() + inner_.index; }

// The exchange that is open is of a group that is no more. What has come of others is kept unless the generation ends.
void LocalRounds::stop_inner() {
  if (inner_.waiting && !inner_.applying) inner_.broken = broken_group();
  inner_.waiting = false;
  if (!inner_exchange_.active()) return;
  reset_inner();
  if (w_.state == WorkerCore::State::running && w_.epoch_start) expect_inner();
}

void LocalRounds::reset_inner() {
  if (!planted(Bug::inner_index_kept)) inner_.index = 0;
  const size_t ahead = planted(Bug::inner_ahead_refused) ? 1 : static_cast<size_t>(inner_count()) + 1;
  inner_exchange_.reset(w_.members.size(), w_.replica.buckets().size(), w_.replica.inner_layout(), ahead);
}

void LocalRounds::expect_inner() {
  if (inner_count() == 0) return;
  if (!planted(Bug::inner_index_kept) || inner_.index >= inner_count()) inner_.index = 0;
  inner_exchange_.expect(inner_number());
}

std::vector<int> LocalRounds::group_now() const {
  return inner_group(w_.policy.inner, w_.members, w_.rank, held() + 1, inner_.index, w_.seed);
}

// The next order of local steps of this round, or what there is to be staged without any.
void LocalRounds::train_part() {
  assert(!round_.training && !round_.staged && !inner_exchange_.active() && !inner_.applying);
  while (inner_.index < inner_count() && group_now().size() == 1) {
    ++inner_.index;
    inner_exchange_.expect(inner_number());
  }
  const Contribution& work = inner_.work;
  if (leased_.queue.empty() && !leased_.last && work.steps == 0) return;  // a lease is on its way
  const bool last = inner_.index == inner_count();
  // Work after the last exchange is no more than after any other, except for a worker without a partner.
  const int64_t until = last ? w_.policy.every : (inner_.index + 1) * w_.policy.inner.every;
  const auto steps = static_cast<ptrdiff_t>(std::clamp<int64_t>(until - work.steps, 0, static_cast<int64_t>(leased_.queue.size())));
  if (last && steps == 0 && work.steps == 0) return send_ready();
  TrainOrder order{.round = held() + 1,
                   .examples_before = round_.examples_done + work.steps * w_.epoch_start->batch * static_cast<int64_t>(w_.members.size()),
                   .examples_per_step = w_.epoch_start->batch * static_cast<int64_t>(w_.members.size()),
                   .carried = work.examples,
                   .inner = !last};
  order.ranges.assign(leased_.queue.begin(), leased_.queue.begin() + steps);
  leased_.queue.erase(leased_.queue.begin(), leased_.queue.begin() + steps);
  order.next.assign(leased_.queue.begin(), leased_.queue.begin() + std::min(static_cast<ptrdiff_t>(leased_.queue.size()),
                                                                            static_cast<ptrdiff_t>(w_.policy.inner.every)));
  if (work.steps == 0) round_.local_base = held();
  inner_.touched = true;
  begin(std::move(order));
}

void LocalRounds::on_part(const TrainOrder& order, const Contribution& part) {
  const std::vector<Range> rest = without(order.ranges, part.ranges);
  leased_.put_back(rest);
  add_work(part, &inner_.work);
  const bool may_go_on = w_.state == WorkerCore::State::running && !w_.healing && !w_.loading;
  if (order.inner && part.finite) {
    inner_.payload = part.payload;
    if (may_go_on) start_inner();
    return;
  }
  inner_.work.round = part.round;
  inner_.work.staged_for = part.staged_for;
  inner_.work.partials = part.partials;
  inner_.work.payload = part.payload;
  round_.staged = std::exchange(inner_.work, Contribution());
  round_.staged_gradient = false;
  staged_row_ = 0;
  if (!may_go_on) return;
  if (round_.staged->finite && inner_.index < inner_count()) carry_on();
  else send_ready();
}

// The membership has changed since the contribution was staged: with its new groups this worker begins anew.
void LocalRounds::carry_on() {
  assert(round_.staged && inner_count() > 0);
  inner_.work = std::move(*round_.staged);
  inner_.work.payload.reset();
  round_.staged.reset();
  go_on();
}

void LocalRounds::start_inner() {
  // Staged for a group that is no more: it is staged again for the new one.
  if (inner_exchange_.active() || inner_.applying) return;
  const std::vector<int> group = group_now();
  if (group.size() == 1 || inner_.index >= inner_count()) return go_on();
  Exchange::Setup setup{.round = inner_number(),
                        .rows = {w_.replica.exchange_row(0)},
                        .layout = w_.replica.inner_layout(),
                        .buckets = w_.replica.buckets(),
                        .takes_part = inner_.work.examples > 0,
                        .topology = w_.policy.inner.topology};
  for (size_t i = 0; i < group.size(); ++i) {
    const Member& member = w_.members[static_cast<size_t>(group[i])];
    if (group[i] == w_.rank) setup.rank = static_cast<int>(i);
    setup.ids.push_back(member.id);
    setup.hosts.push_back(site_of(w_.policy.inner, w_.members, group[i]));
  }
  if (const size_t coded = setup.layout.coded; coded > 0) {  // every member gives one, which says for how many examples
    setup.buckets = {{coded, setup.layout.bytes()}};
    setup.gives.assign(group.size(), true);
    setup.payload = inner_.payload;
    assert(setup.payload);
  }
  inner_.waiting = true;
  inner_.group = setup.ids;
  inner_.steps_then.clear();
  inner_.begun_ns = round_.progress_ns = w_.clock.now_ns();
  inner_exchange_.prepare(std::move(setup));
  inner_exchange_.start_all();
  after_inner();
}

// A member may make all steps of its round first: it began them alone. It makes no more than these before it comes.
bool LocalRounds::still_trains(WorkerId id, uint64_t now) {
  const auto seen = w_.stepped.find(id);
  if (!inner_exchange_.active() || seen == w_.stepped.end()) return false;
  const int64_t then = inner_.steps_then.try_emplace(id, seen->second.step).first->second;
  return now - seen->second.since_ns <= w_.ns(w_.policy.deadline_ms) && seen->second.step - then <= w_.policy.every;
}

void LocalRounds::after_inner() {
  if (!inner_.waiting || inner_.applying || !inner_exchange_.done()) return;
  inner_.applying = true;
  const uint64_t now = w_.clock.now_ns();
  w_.times.round = held() + 1;
  w_.times.add(TracePhase::transfer, inner_.begun_ns, now, static_cast<int64_t>(inner_exchange_.bytes_up()));
  w_.times.round = -1;
  Figures& figures = inner_.work.figures;
  figures.transfer_s += static_cast<double>(now - inner_.begun_ns) * 1e-9;
  figures.bytes_up += inner_exchange_.bytes_up();
  figures.bytes_down += inner_exchange_.bytes_down();
  InnerApplyOrder order{.round = held() + 1, .index = inner_.index};
  for (size_t r = 0; inner_.payload && r < inner_.group.size(); ++r) order.payloads.push_back(inner_exchange_.payload(r));
  w_.replica.apply_inner(order);
}

void LocalRounds::on_inner_applied(int64_t, int64_t, int refused) {
  assert(inner_.applying);
  inner_.applying = false;
  if (inner_.waiting && refused >= 0 && static_cast<size_t>(refused) < inner_.group.size()) {
    const WorkerId from = inner_.group[static_cast<size_t>(refused)];  // the others meet the same payload
    if (from != w_.id) w_.lose_link(from, "what it sent in an inner exchange is no payload of this job's codec", true);
    return;
  }
  if (std::exchange(inner_.waiting, false)) {  // else the group is no more
    inner_exchange_.finish();
    ++inner_.index;
    assert(inner_exchange_.round() == inner_number());
  }
  w_.rounds->go_on();
}

std::vector<WorkerId> LocalRounds::take_broken() { return std::exchange(inner_.broken, {}); }

// The group whose exchange a change of membership breaks off: it may hold more of some of its members' work than of others'.
std::vector<WorkerId> LocalRounds::broken_group() const {
  return inner_.waiting && !inner_.applying ? inner_.group : std::vector<WorkerId>{};
}

}  // namespace perigee
