#include <algorithm>
#include <cassert>
#include <cmath>

#include "cluster/membership/coordinator_impl.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr size_t kWorkersThatFail = 3;  // a range that fails so many is skipped
constexpr int kMostLeftOut = 5;         // contributions of a worker in a row, before it is to be started again
constexpr int64_t kRoundsAhead = 2;
constexpr int64_t kFirstBatches = 4;   // of a round that is measured in time, before the speed is known
constexpr int64_t kMaxBatches = 4096;  // of one worker's lease

void add(Figures& sum, const Figures& f, int64_t examples) {
  sum.loss_sum += f.loss_sum;
  sum.correct = f.correct < 0 ? sum.correct : std::max(0.0, sum.correct) + f.correct;
  if (examples > 0) sum.learning_rate = f.learning_rate;  // who trained nothing has none
  sum.load_s += f.load_s;
  sum.compute_s += f.compute_s;
  sum.encode_s += f.encode_s;
  sum.wait_s += f.wait_s;
  sum.transfer_s += f.transfer_s;
  sum.apply_s += f.apply_s;
  sum.bytes_up += f.bytes_up;
  sum.bytes_down += f.bytes_down;
  if (f.residual_square >= 0) sum.residual_square = std::max(0.0, sum.residual_square) + f.residual_square;
  sum.bytes_across += f.bytes_across;
}

}  // namespace

double Coordinator::Impl::progress() const {
  return options.planned > 0 ? static_cast<double>(books.examples_done()) / static_cast<double>(options.planned) : 0;
}

int64_t Coordinator::Impl::local_batch() const {
  const auto workers = std::max<int64_t>(1, static_cast<int64_t>(trainers()));
  return options.global_batch > 0 ? std::max<int64_t>(1, options.global_batch / workers) : options.batch;
}

void Coordinator::Impl::open_round() {
  assert(phase == Phase::running && open == books.round() + 1);
  begun = false;
  done_count = ready_said = 0;
  first_done_ns = first_ready_ns = quorum_ns = 0;
  opened_ns = clock.now_ns();
  participants.clear();
  round_begin = {};
  if (!standing) return;
  planned = {};
  if (options.max_rounds == 0 || open < options.max_rounds) planned = plan.at(open);
  participants = members;
}

void Coordinator::Impl::on_done(Node& node, const FrameHeader& h, Done done) {
  const bool awaited = h.round == open && !node.done && std::find(participants.begin(), participants.end(), node.id) != participants.end();
  if (!awaited || go_held || (standing && planned.examples == 0)) {
    ++dropped.unexpected;
    return;
  }
  node.round = open;
  node.hash = done.hash;
  node.done = std::move(done);
  if (first_done_ns == 0) first_done_ns = clock.now_ns();
  if (++done_count == participants.size()) close_round();
}

// Every participant holds the result: if it is the same one, the round is committed.
void Coordinator::Impl::close_round() {
  const uint64_t hash = nodes.at(participants.front()).hash;
  for (const WorkerId id : participants)
    if (nodes.at(id).hash != hash && !planted(Bug::commit_ignores_hash)) return form();  // who is right is found out there

  std::vector<Share> shares;
  bool workers_wait = false;
  if (standing) {
    const int size = static_cast<int>(members.size());
    for (int rank = 0; rank < size; ++rank) {
      const auto [first, last] = leaves_of(rank, size, plan.leaves);
      Share share{.id = members[static_cast<size_t>(rank)]};
      share.ranges = joined({planned.ranges.begin() + first, planned.ranges.begin() + last});
      share.examples = examples_of(share.ranges);
      shares.push_back(std::move(share));
    }
    workers_wait = planned.ends_epoch || planned.last;
  } else {
    shares = round_begin.shares;
    workers_wait = round_begin.evaluate || round_begin.last;
  }
  int64_t examples = 0;
  for (const Share& share : shares) examples += share.examples;
  Figures figures;
  for (const Share& share : shares) {
    Node& node = nodes.at(share.id);
    add(figures, node.done->figures, share.examples);
    node.share = examples > 0 ? static_cast<double>(share.examples) / static_cast<double>(examples) : 0;
    if (!planted(Bug::leases_kept_after_commit)) node.leased = without(node.leased, share.ranges);
  }
  adapt(shares);
  for (const Share& share : shares) {
    Node& node = nodes.at(share.id);
    node.ready.reset();
    node.done.reset();
  }
  for (const Share& share : shares) forget_failures(share.ranges);
  if (options.trace) tell_round(figures, examples, shares);
  if (!(planted(Bug::record_before_commit) && !standing)) books.commit(generation, open, hash, std::move(shares));
  skipped_in_a_row = 0;
  target_round = open;
  target_hash = hash;
  last = {.examples = examples, .figures = figures};
  const size_t workers = participants.size();
  ++open;
  events.on_round(books.round(), generation, books.examples_done(), static_cast<int>(workers), figures, examples);
  if (phase != Phase::running || diverged(figures, examples, static_cast<int>(workers))) return;
  after_commit(workers_wait);
}

// Another worker could do it.
void Coordinator::Impl::forget_failures(const std::vector<Range>& ranges) {
  std::erase_if(failures, [&](const Failure& f) {
    return !f.waiting && std::any_of(ranges.begin(), ranges.end(), [&](const Range& r) { return overlaps(r, f.range); });
  });
}

void Coordinator::Impl::after_commit(bool workers_wait) {
  deliver_image();
  if (phase != Phase::running) return;
  // Form instead of Commit: whoever is ahead does not apply the next round, and nobody has to heal.
  const bool complete = books.epoch_due() || books.all_done();
  if (!complete && ((form_wanted && !joining_timer) || (standing && !options.policy.standing(progress())))) return form();
  tell_all(Commit{.hash = target_hash, .synced = safe_round()}, target_round);
  std::vector<WorkerId> late;
  if (!standing)
    for (const WorkerId id : members)
      if (nodes.at(id).round < target_round && nodes.at(id).state == Node::State::training) late.push_back(id);
  open_round();
  for (const WorkerId id : late) heal(nodes.at(id), true);
  if (enter_border()) {
    if (form_wanted) form_if_calm();
    return;
  }
  if (workers_wait) tell_all(Evaluate{}, target_round);  // there is nothing to wait for
  replay_early();
  if (phase != Phase::running) return;
  if (!standing) top_up_all(), check_begin();
}

// What was said about this round before it was open.
void Coordinator::Impl::replay_early() {
  const uint64_t now_open = generation;
  for (const WorkerId id : std::vector<WorkerId>(members)) {
    if (phase != Phase::running || generation != now_open) return;
    Node& node = nodes.at(id);
    if (!node.early) continue;
    Ready ready = std::move(*node.early);
    node.early.reset();
    on_ready(node, header(open), std::move(ready));
  }
}

// ---- announced rounds ----

// Of the worker's own shards, which are its rank's part of all of them; who has done those, and nothing else, helps the others.
Range Coordinator::Impl::next_work(const Node& node, int64_t count, bool idle) {
  if (options.shards == 1) return books.pool().take(count);
  int64_t rank = 0;
  for (const WorkerId id : members) {
    if (id == node.id) break;
    if (!nodes.at(id).server) ++rank;
  }
  const auto workers = static_cast<int64_t>(trainers());
  const int64_t first = rank * options.shards / workers, last = std::max(first + 1, (rank + 1) * options.shards / workers);
  const Range own = books.pool().take_of(first, last, count);
  return own.count == 0 && idle ? books.pool().take(count) : own;
}

// More work, so that the worker has enough for two rounds.
void Coordinator::Impl::top_up(Node& node) {
  if (!go_allowed() || standing || !node.member || node.server || border || finished) return;
  const int64_t batch = local_batch();
  int64_t batches = pace.active() ? pace.steps(node.id) : std::max<int64_t>(1, options.policy.steps_per_round());
  if (options.policy.every_ms > 0)
    batches = node.rate > 0
                  ? std::clamp<int64_t>(
                        static_cast<int64_t>(std::ceil(node.rate * options.policy.round_ms() * 1e-3 / static_cast<double>(batch))), 1,
                        kMaxBatches)
                  : kFirstBatches;
  const int64_t ahead = kRoundsAhead + (options.policy.overlap ? 1 : 0);
  const int64_t wanted = std::min(ahead * batches, kMaxBatches) * batch;
  const bool idle = node.leased.empty();
  Lease lease;
  int64_t has = examples_of(node.leased);
  for (size_t i = 0; i < failures.size(); ++i) {
    Failure& f = failures[i];
    if (!f.waiting || std::find(f.by.begin(), f.by.end(), node.id) != f.by.end()) continue;
    f.waiting = false;
    for (Range rest = f.range; rest.count > 0;) {  // what failed together is still done in batches
      const Range piece = {rest.epoch, rest.begin, std::min(batch, rest.count)};
      lease.ranges.push_back(piece);
      rest.begin += piece.count, rest.count -= piece.count;
    }
    has += f.range.count;
  }
  while (has < wanted) {
    const Range range = next_work(node, batch, idle);
    if (range.count == 0) {
      lease.last = true;
      break;
    }
    lease.ranges.push_back(range);
    has += range.count;
  }
  if (pace.active()) lease.steps = batches;
  if (lease.ranges.empty() && lease.last == node.lease_last && lease.steps == node.lease_steps) return;
  node.lease_last = lease.last;
  node.lease_steps = lease.steps;
  if (!lease.ranges.empty()) node.leased_ns = clock.now_ns();
  node.leased.insert(node.leased.end(), lease.ranges.begin(), lease.ranges.end());
  // It had said that it has no work; now it will say again when it has done this.
  if (!lease.ranges.empty() && !begun && node.ready && node.ready->ranges.empty()) node.ready.reset();
  if (!lease.ranges.empty() && node.early && node.early->finite && node.early->ranges.empty()) node.early.reset();
  tell(node, lease, open);
}

void Coordinator::Impl::top_up_all() {
  for (const WorkerId id : members) top_up(nodes.at(id));
}

void Coordinator::Impl::take_back(Node& node) {
  if (!planted(Bug::lost_leases))
    for (const Range& range : node.leased) books.pool().put_back(range);
  node.leased.clear();
  node.lease_last = false;
  node.lease_steps = 0;
  node.ready.reset();
}

// It holds the right result, but its local work is of no use any more.
void Coordinator::Impl::drop_local_work(Node& node) {
  take_back(node);
  node.state = Node::State::healing;
  node.heal_ns = clock.now_ns();
  tell(node, Heal{.donor = node.id, .round = node.round, .hash = node.hash}, node.round);
}

// A worker that missed a round has loaded what the others hold, or dropped its work.
void Coordinator::Impl::catch_up(Node& node) {
  node.ready.reset();
  if (!holds_results(node)) return top_up_all();
  if (node.round < target_round) return heal(node, !node.leased.empty());
  if (node.round == target_round && node.hash != target_hash) return form();
  top_up_all();
  check_begin();
}

void Coordinator::Impl::on_ready(Node& node, const FrameHeader& h, Ready ready) {
  if (options.policy.served) return on_unusable(node, std::move(ready));
  if (h.round == open + 1 && !planted(Bug::early_ready_lost) && (node.done || node.round == open)) {  // it does not wait for the commit
    node.early = std::move(ready);
    return;
  }
  if (go_held || h.round > open || (standing && h.round != open)) {
    ++dropped.unexpected;
    return;
  }
  if (standing) {
    if (ready.finite) ++dropped.unexpected;
    else leave_out(node, {}, "quarantined", "gave NaN or infinity");
    return;
  }
  if (h.round < open || node.state != Node::State::training) return;         // it is late; it says so again once it has healed
  if (ready.finite && ready.ranges.empty() && !node.leased.empty()) return;  // said before our lease came: it will say again
  const bool honest = disjoint(ready.ranges) && without(ready.ranges, node.leased).empty() &&
                      (!ready.finite || examples_of(ready.ranges) == ready.examples) && ready.base < open;
  if (!honest) return evict(node.id, "worker_lost", "it claims work that it was not given", true);
  node.staleness = ready.ranges.empty() ? 0 : open - 1 - ready.base;
  if (node.staleness > options.policy.max_staleness) {
    event("too_stale", &node, "its work is " + std::to_string(node.staleness) + " rounds old", "its examples go back to be done again");
    note_inexact(node, ready.ranges, "its work was too old");
    drop_local_work(node);
    return top_up_all();
  }
  if (!ready.finite && !planted(Bug::not_finite_takes_part)) {
    if (ready.examples > 0) note_inexact(node, ready.ranges, "its work became NaN or infinite");
    return leave_out(node, ready.ranges, "quarantined", "gave NaN or infinity");
  }
  pace.on_steps(node.id, ready.steps, ready.figures.load_s + ready.figures.compute_s);
  node.ready = std::move(ready);
  ++ready_said;
  if (first_ready_ns == 0) first_ready_ns = clock.now_ns();
  check_begin();
}

// What a worker made of `announced` is of no use: somebody else tries, and when enough have, the examples are given up.
void Coordinator::Impl::leave_out(Node& node, const std::vector<Range>& announced, const char* as, const std::string& what) {
  std::vector<Range> ranges = announced;
  if (standing) {
    const auto rank = std::find(members.begin(), members.end(), node.id) - members.begin();
    const auto [first, last] = leaves_of(static_cast<int>(rank), static_cast<int>(members.size()), plan.leaves);
    ranges.assign(planned.ranges.begin() + first, planned.ranges.begin() + last);
  }
  const size_t enough = std::min(kWorkersThatFail, trainers());
  bool skipped = false;
  for (const Range& range : joined(ranges)) {
    auto f = std::find_if(failures.begin(), failures.end(), [&](const Failure& x) { return overlaps(x.range, range); });
    if (f == failures.end()) f = failures.insert(failures.end(), Failure{.range = range});
    const int64_t begin = std::max(f->range.begin, range.begin), end = std::min(f->range.begin + f->range.count, range.begin + range.count);
    if (standing) f->range = {range.epoch, begin, end - begin};  // what all of them had in common
    if (std::find(f->by.begin(), f->by.end(), node.id) == f->by.end()) f->by.push_back(node.id);
    const bool give_up = f->by.size() >= enough;
    const Range tried = standing ? f->range : range;
    const std::string text =
        std::to_string(tried.count) + " examples of epoch " + std::to_string(tried.epoch) + " from position " + std::to_string(tried.begin);
    if (!standing) node.leased = without(node.leased, {range});
    if (give_up) {
      if (!planted(Bug::skip_not_booked))
        books.skip(generation, tried, node.id, what + "; so on " + std::to_string(f->by.size()) + " workers");
      failures.erase(f);
      ++skipped_in_a_row;
      skipped = true;
      event("skipped", &node, text + " " + what + ", the last of " + std::to_string(enough) + " workers that tried",
            "they are left out of the epoch");
    } else {
      if (!standing) f->range = range, f->waiting = true;
      event(as, &node, text + " " + what, "left out of the round; another worker tries them");
    }
  }
  if (skipped_in_a_row >= static_cast<int64_t>(std::max<size_t>(8, 3 * members.size())))
    return fail(Error(ErrorKind::model, {.what = "no worker gets a result of any use any more",
                                         .got = what + ", all since round " + std::to_string(books.round()),
                                         .hint = "lower the learning rate, or continue from an earlier checkpoint"}));
  if (standing) {
    rotate = 1;
    return form();
  }
  // Others can do what this one cannot, and wait for it.
  if (!skipped && !options.policy.served && ++node.left_out == kMostLeftOut)
    return evict(node.id, "worker_lost", std::to_string(kMostLeftOut) + " of its contributions in a row were of no use", false);
  drop_local_work(node);
  if (enter_border()) return;
  top_up_all();
  check_begin();
}

// Does the round begin, and with whom?
void Coordinator::Impl::check_begin() {
  if (!go_allowed() || standing || options.policy.served || begun || border || finished || members.empty()) return;
  auto quorum = static_cast<size_t>(std::max(1.0, std::ceil(options.policy.quorum * static_cast<double>(members.size()) - 1e-9)));
  // Whoever takes over finds at least half of the workers: one of them must hold the round.
  if (lease != nullptr && !planted(Bug::minority_commits)) quorum = std::max(quorum, members.size() / 2 + 1);
  if (ready_said < quorum) return;
  std::vector<WorkerId> who;
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (node.ready && node.state == Node::State::training && node.round == target_round) who.push_back(id);
  }
  if (who.empty()) return;
  if (who.size() < members.size()) {
    if (who.size() < quorum) return;
    const uint64_t now = clock.now_ns();
    if (quorum_ns == 0) quorum_ns = now;
    const uint64_t until = quorum_ns + ns(options.policy.grace_ms);
    if (now < until) return transport.start_timer(kGrace, until);
  }
  if (leave_out(who)) return;
  begin(who);
}

void Coordinator::Impl::begin(const std::vector<WorkerId>& who) {
  Begin message;
  int64_t examples = 0;
  std::vector<Range> all;
  for (const WorkerId id : who) {
    const Ready& ready = *nodes.at(id).ready;
    Share share{.id = id, .examples = ready.examples, .ranges = joined(ready.ranges)};
    examples += share.examples;
    all.insert(all.end(), share.ranges.begin(), share.ranges.end());
    message.shares.push_back(std::move(share));
  }
  if (examples == 0) return;  // nobody of them has work; what there is, others have
  transport.stop_timer(kGrace);
  LeasePool after = books.pool();
  for (const Range& range : all) after.mark_done(range);
  message.examples_after = books.examples_done() + examples;
  message.last = after.all_done() || open == options.max_rounds - 1;
  message.evaluate = after.epoch_done(books.first_unevaluated());
  taken(who);
  begun = true;
  begun_ns = clock.now_ns();
  participants = who;
  done_count = 0;
  for (const WorkerId id : who) nodes.at(id).done.reset();
  round_begin = std::move(message);
  if (planted(Bug::record_before_commit)) books.commit(generation, open, 0, round_begin.shares);
  tell_all(round_begin, open);
}

// Nobody may keep the others waiting for longer than the policy allows.
void Coordinator::Impl::check_rounds(uint64_t now) {
  if (go_held && !planted(Bug::pause_evicts)) return;  // nobody is asked for anything
  const uint64_t deadline = ns(options.policy.deadline_ms);
  const auto passed = [&](uint64_t since) { return since != 0 && now > since && now - since > deadline; };
  std::vector<WorkerId> late;
  std::string why;
  const bool in_exchange = standing || begun;
  if (in_exchange && passed(first_done_ns)) {
    why = "it has not finished round " + std::to_string(open) + " long after the others";
    for (const WorkerId id : participants)
      if (!nodes.at(id).done) late.push_back(id);
  } else if (!standing && !begun && options.policy.quorum >= 1 && passed(first_ready_ns) && !border && !finished) {
    why = "it has not come to round " + std::to_string(open) + " long after the others";
    for (const WorkerId id : members) {  // who makes step after step is slow, and the others wait for it; so is who was given work just now
      const Node& node = nodes.at(id);
      const bool has_had_time = node.leased_ns == 0 || passed(node.leased_ns);
      if (!node.ready && has_had_time && (!node.waits_for.empty() || passed(node.stepped_ns))) late.push_back(id);
    }
  }
  if (options.policy.inner.active() && !in_exchange)  // who waits for its group is not late, but somebody in it
    std::erase_if(late, [&](WorkerId id) { return !nodes.at(id).waits_for.empty(); });
  if (late.empty() || phase != Phase::running || !nodes.contains(late.front())) return;
  // Who computes for so long without a step will not get further by joining again: it is to be restarted.
  const Node& first = nodes.at(late.front());
  const bool stuck = first.waits_for.empty() && passed(first.stepped_ns);
  evict(first.id, stuck ? "worker_stuck" : "worker_lost", why, !stuck);
}

}  // namespace perigee
