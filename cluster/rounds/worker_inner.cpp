// Exchanges inside groups between two rounds. A round's local steps are cut into orders of inner.every steps. After each but the last one the
// worker averages its parameters with its group, weighted by the examples that each has trained since the last result, and trains on from
// the mean. The sum over the workers of weight times parameters is thereby what it was: the round's contributions add up to the same, however
// groups are made and whoever has done how much. Every worker takes part in every inner exchange of every round, with weight 0 when it has
// trained nothing, so that nobody waits for somebody who does not come; after a change of membership all begin with the first one again.
#include <algorithm>
#include <cassert>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/worker_impl.h"
#include "cluster/planted.h"
#include "cluster/rounds/inner_plan.h"

namespace perigee {
namespace {

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

}  // namespace

int64_t Worker::Impl::inner_number() const { return (held_round + 1) * inner.count + inner.index; }

// The exchange that is open is of a group that is no more. What has come of others is kept unless the generation ends.
void Worker::Impl::stop_inner() {
  if (inner.waiting && !inner.applying) inner.broken = broken_group();
  inner.waiting = false;
  if (!inner_exchange.active()) return;
  reset_inner();
  if (state == State::running && go) expect_inner();
}

void Worker::Impl::reset_inner() {
  if (!planted(Bug::inner_index_kept)) inner.index = 0;
  const size_t ahead = planted(Bug::inner_ahead_refused) ? 1 : static_cast<size_t>(inner.count) + 1;
  inner_exchange.reset(members.size(), replica.buckets().size(), replica.inner_layout(), ahead);
}

void Worker::Impl::expect_inner() {
  if (inner.count == 0) return;
  if (!planted(Bug::inner_index_kept) || inner.index >= inner.count) inner.index = 0;
  inner_exchange.expect(inner_number());
}

std::vector<int> Worker::Impl::group_now() const {
  return inner_group(policy.inner, members, rank, held_round + 1, inner.index, inner.seed);
}

// The next order of local steps of this round, or what there is to be staged without any.
void Worker::Impl::train_part() {
  assert(!go->standing && !training && !staged && !inner_exchange.active() && !inner.applying);
  while (inner.index < inner.count && group_now().size() == 1) {
    ++inner.index;
    inner_exchange.expect(inner_number());
  }
  const Contribution& work = inner.work;
  if (queue.empty() && !queue_last && work.steps == 0) return;  // a lease is on its way
  const bool last = inner.index == inner.count;
  // What is trained after the last exchange is no more than after any other, but for a worker that has nobody to exchange with.
  const int64_t until = last ? policy.every : (inner.index + 1) * policy.inner.every;
  const auto steps = static_cast<ptrdiff_t>(std::clamp<int64_t>(until - work.steps, 0, static_cast<int64_t>(queue.size())));
  if (last && steps == 0 && work.steps == 0) return send_ready();
  TrainOrder order{.round = held_round + 1,
                   .examples_before = examples_done + work.steps * go->batch * static_cast<int64_t>(members.size()),
                   .examples_per_step = go->batch * static_cast<int64_t>(members.size()),
                   .carried = work.examples,
                   .inner = !last};
  order.ranges.assign(queue.begin(), queue.begin() + steps);
  queue.erase(queue.begin(), queue.begin() + steps);
  order.next.assign(queue.begin(),
                    queue.begin() + std::min(static_cast<ptrdiff_t>(queue.size()), static_cast<ptrdiff_t>(policy.inner.every)));
  if (work.steps == 0) local_base = held_round;
  inner.touched = true;
  trained_ns = clock.now_ns();
  training = order;
  replica.train(order);
}

void Worker::Impl::on_part(const TrainOrder& order, const Contribution& part) {
  const std::vector<Range> rest = without(order.ranges, part.ranges);
  queue.insert(queue.begin(), rest.begin(), rest.end());
  add_work(part, &inner.work);
  const bool may_go_on = state == State::running && !healing && !loading;
  if (order.inner && part.finite) {
    inner.payload = part.payload;
    if (may_go_on) start_inner();
    return;
  }
  inner.work.round = part.round;
  inner.work.partials = part.partials;
  inner.work.payload = part.payload;
  staged = std::exchange(inner.work, Contribution());
  staged_gradient = false;
  staged_row = 0;
  if (!may_go_on) return;
  if (staged->finite && inner.index < inner.count) carry_on();
  else send_ready();
}

// The membership has changed since the contribution was staged: with its new groups this worker begins anew.
void Worker::Impl::carry_on() {
  assert(staged && !staged_gradient && inner.count > 0);
  inner.work = std::move(*staged);
  inner.work.payload.reset();
  staged.reset();
  go_on();
}

void Worker::Impl::start_inner() {
  // Staged for a group that is no more: it is staged again for the new one.
  if (inner_exchange.active() || inner.applying) return;
  const std::vector<int> group = group_now();
  if (group.size() == 1 || inner.index >= inner.count) return go_on();
  Exchange::Setup setup{.round = inner_number(),
                        .rows = {replica.exchange_row(0)},
                        .layout = replica.inner_layout(),
                        .buckets = replica.buckets(),
                        .takes_part = inner.work.examples > 0,
                        .topology = policy.inner.topology};
  for (size_t i = 0; i < group.size(); ++i) {
    const Member& member = members[static_cast<size_t>(group[i])];
    if (group[i] == rank) setup.rank = static_cast<int>(i);
    setup.ids.push_back(member.id);
    setup.hosts.push_back(site_of(policy.inner, members, group[i]));
  }
  if (const size_t coded = setup.layout.coded; coded > 0) {  // everybody gives one, which says for how many examples
    setup.buckets = {{coded, setup.layout.bytes()}};
    setup.gives.assign(group.size(), true);
    setup.payload = inner.payload;
    assert(setup.payload);
  }
  inner.waiting = true;
  inner.group = setup.ids;
  inner.begun_ns = progress_ns = clock.now_ns();
  inner_exchange.prepare(std::move(setup));
  inner_exchange.start_all();
  after_inner();
}

void Worker::Impl::after_inner() {
  if (!inner.waiting || inner.applying || !inner_exchange.done()) return;
  inner.applying = true;
  const uint64_t now = clock.now_ns();
  times.round = held_round + 1;
  times.add(TracePhase::transfer, inner.begun_ns, now, static_cast<int64_t>(inner_exchange.bytes_up()));
  times.round = -1;
  Figures& figures = inner.work.figures;
  figures.transfer_s += static_cast<double>(now - inner.begun_ns) * 1e-9;
  figures.bytes_up += inner_exchange.bytes_up();
  figures.bytes_down += inner_exchange.bytes_down();
  InnerApplyOrder order{.round = held_round + 1, .index = inner.index};
  for (size_t r = 0; inner.payload && r < inner.group.size(); ++r) order.payloads.push_back(inner_exchange.payload(r));
  replica.apply_inner(order);
}

void Worker::Impl::on_inner_applied(int64_t, int64_t, int refused) {
  assert(inner.applying);
  inner.applying = false;
  if (inner.waiting && refused >= 0 && static_cast<size_t>(refused) < inner.group.size()) {
    const WorkerId from = inner.group[static_cast<size_t>(refused)];  // the others meet the same payload
    if (from != id) lose_link(from, "what it sent in an inner exchange is no payload of this job's codec", true);
    return;
  }
  if (std::exchange(inner.waiting, false)) {  // else the group is no more
    inner_exchange.finish();
    ++inner.index;
    assert(inner_exchange.round() == inner_number());
  }
  go_on();
}

// The group whose exchange a change of membership breaks off: it may hold more of some of its members' work than of others'.
std::vector<WorkerId> Worker::Impl::broken_group() const {
  return inner.waiting && !inner.applying ? inner.group : std::vector<WorkerId>{};
}

}  // namespace perigee
