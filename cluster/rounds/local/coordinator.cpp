#include "cluster/rounds/local/coordinator.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/inner_plan.h"

namespace perigee {
namespace {

constexpr int kMostLeftOut = 5;  // contributions of a worker in a row, before it is to be started again

}  // namespace

void LocalCoordinator::on_propose() {
  ExchangedCommits::on_propose();
  begun_ = false;
  begin_ = {};
}

void LocalCoordinator::open_round() {
  ExchangedCommits::open_round();
  begun_ = false;
  ready_said_ = 0;
  first_ready_ns_ = quorum_ns_ = 0;
  begin_ = {};
}

// A worker keeps local work of fragments that no round has merged yet. If the round that it holds has become void, others train the examples of
// that work again.
bool LocalCoordinator::may_keep_work(const Node& node) const {
  if (!c_.options.policy.partial()) return true;
  const std::optional<uint64_t> known = c_.books.hash_of(node.round);
  return node.round < 0 || (known && *known == node.hash);
}

void LocalCoordinator::forgive(const std::function<void(uint64_t&)>& later) {
  ExchangedCommits::forgive(later);
  later(first_ready_ns_);
}

void LocalCoordinator::advance() {
  leases_.top_up_all();
  check_begin();
}

Received LocalCoordinator::on_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload) {
  static constexpr std::array kRoutes = {
      route<Ready, &LocalCoordinator::on_ready, LocalCoordinator, Node&>(Fence::none),
      route<Done, &LocalCoordinator::on_done, LocalCoordinator, Node&>(Fence::none),
  };
  return dispatch<LocalCoordinator, Node&, Fence>(kRoutes, *this, node, header, payload, [](Fence) { return true; });
}

void LocalCoordinator::on_ready(Node& node, const FrameHeader& h, Ready ready) {
  if (ready.ranges.empty()) node.stepped_ns = c_.clock.now_ns();  // a worker without work makes no step
  if (h.round == c_.open + 1 && !planted(Bug::early_ready_lost) &&
      (node.done || node.round == c_.open)) {  // it does not wait for the commit
    node.early = std::move(ready);
    return;
  }
  if (c_.start_held || h.round > c_.open) {
    ++c_.dropped.unexpected;
    return;
  }
  if (h.round < c_.open || node.state != Node::State::training) return;      // it is late; it says so again once it has healed
  if (ready.finite && ready.ranges.empty() && !node.leased.empty()) return;  // said before our lease came: it will say again
  const bool honest = disjoint(ready.ranges) && without(ready.ranges, node.leased).empty() &&
                      (!ready.finite || examples_of(ready.ranges) == ready.examples) && ready.base < c_.open;
  if (!honest) return c_.evict(node.id, CoordinatorCore::Eviction::to_join_again, "it claims work that it was not given");
  if (!ready.finite && !planted(Bug::not_finite_takes_part)) {  // however old it is: others try, or it would come again and again
    if (ready.examples > 0) note_inexact(node, ready.ranges, "its work became NaN or infinite");
    return leave_out(node, ready.ranges, "quarantined", "gave NaN or infinity");
  }
  node.staleness = ready.ranges.empty() ? 0 : c_.open - 1 - ready.base;
  if (node.staleness > c_.options.policy.max_staleness) {
    c_.event("too_stale", &node, "its work is " + std::to_string(node.staleness) + " rounds old", "its examples go back to be done again");
    note_inexact(node, ready.ranges, "its work was too old");
    c_.drop_local_work(node);
    return leases_.top_up_all();
  }
  c_.control.pace.on_steps(node.id, ready.steps, ready.figures.load_s + ready.figures.compute_s);
  node.ready = std::move(ready);
  ++ready_said_;
  if (first_ready_ns_ == 0) first_ready_ns_ = c_.clock.now_ns();
  check_begin();
}

// A worker's result for `announced` is unusable: another one tries, and when enough have, the examples are given up.
void LocalCoordinator::leave_out(Node& node, const std::vector<Range>& announced, const char* as, const std::string& what) {
  const bool skipped = try_elsewhere(node, announced, as, what, true);
  if (none_usable(what)) return;
  // Others can do what this one cannot, and wait for it.
  if (!skipped && ++node.left_out == kMostLeftOut)
    return c_.evict(node.id, CoordinatorCore::Eviction::for_good,
                    std::to_string(kMostLeftOut) + " of its contributions in a row were of no use");
  c_.drop_local_work(node);
  if (!c_.enter_border()) advance();
}

size_t LocalCoordinator::quorum() const {
  const auto asked =
      static_cast<size_t>(std::max(1.0, std::ceil(c_.options.policy.quorum * static_cast<double>(c_.members.size()) - 1e-9)));
  // A standby that takes over finds at least half of the workers: one of them must hold the round.
  const bool majority = c_.lease != nullptr && !planted(Bug::minority_commits);
  return majority ? std::max(asked, c_.members.size() / 2 + 1) : asked;
}

// Does the round begin, and with whom?
void LocalCoordinator::check_begin() {
  if (!start_allowed() || begun_ || c_.border || c_.finished || c_.members.empty()) return;
  const size_t enough = quorum();
  if (ready_said_ < enough) return;
  std::vector<WorkerId> who;
  for (const WorkerId id : c_.members) {
    const Node& node = c_.nodes.at(id);
    if (node.ready && node.state == Node::State::training && node.round == c_.target_round) who.push_back(id);
  }
  if (who.empty()) return;
  if (who.size() < c_.members.size()) {
    if (who.size() < enough) return;
    const uint64_t now = c_.clock.now_ns();
    if (quorum_ns_ == 0) quorum_ns_ = now;
    // In the run's last round all fragments are due: a worker that is left out of it has kept its work on some of them for nothing.
    const Policy& policy = c_.options.policy;
    const uint64_t until = quorum_ns_ + c_.ns(policy.partial() && is_last(after_round(who)) ? policy.deadline_ms : policy.grace_ms);
    if (now < until) return c_.transport.start_timer(CoordinatorCore::kGrace, until);
  }
  if (leave_out_outlying(who)) return;
  begin(who);
}

// The examples that are left when the contributions of `who` count.
LeasePool LocalCoordinator::after_round(const std::vector<WorkerId>& who) const {
  LeasePool after = c_.books.pool();
  for (const WorkerId id : who)
    for (const Range& range : c_.nodes.at(id).ready->ranges) after.mark_done(range);
  return after;
}

bool LocalCoordinator::is_last(const LeasePool& after) const { return after.all_done() || c_.open == c_.options.max_rounds - 1; }

void LocalCoordinator::begin(const std::vector<WorkerId>& who) {
  Begin message;
  int64_t examples = 0;
  for (const WorkerId id : who) {
    const Ready& ready = *c_.nodes.at(id).ready;
    Share share{.id = id, .examples = ready.examples, .ranges = joined(ready.ranges)};
    examples += share.examples;
    message.shares.push_back(std::move(share));
  }
  if (examples == 0) return;  // none of them has work; others have all of it
  c_.transport.stop_timer(CoordinatorCore::kGrace);
  const LeasePool after = after_round(who);
  message.examples_after = c_.books.examples_done() + examples;
  message.last = is_last(after);
  message.evaluate = after.epoch_done(c_.books.first_unevaluated());
  note_sizes(who);
  begun_ = true;
  participants_ = who;
  done_count_ = 0;
  for (const WorkerId id : who) c_.nodes.at(id).done.reset();
  begin_ = std::move(message);
  if (planted(Bug::record_before_commit)) c_.books.commit(c_.generation, c_.open, 0, begin_.shares);
  c_.tell_all(begin_, c_.open);
}

bool LocalCoordinator::is_booked() const { return planted(Bug::record_before_commit); }

// A worker that makes step after step is slow, and the others wait for it; so is one that was given work just now.
std::vector<WorkerId> LocalCoordinator::late_to_begin(uint64_t now) const {
  std::vector<WorkerId> late;
  if (c_.options.policy.quorum < 1 || !passed(first_ready_ns_, now) || c_.border || c_.finished) return late;
  for (const WorkerId id : c_.members) {
    const Node& node = c_.nodes.at(id);
    const bool has_had_time = node.leased_ns == 0 || passed(node.leased_ns, now);
    if (!node.ready && has_had_time && (!node.waits_for.empty() || passed(node.stepped_ns, now))) late.push_back(id);
  }
  return late;
}

// ---- policies with groups ----

// Accounting is `bounded`: what a group has averaged is in all of its members' parameters; when one of them is lost, its examples are
// trained anew although the others hold part of what it had made of them, and when a change of membership breaks an exchange off, some
// members may hold the mean and others not.
void LocalCoordinator::note_inexact(const Node& node, std::vector<Range> ranges, const std::string& why) {
  if (inner_exchanges(c_.options.policy) == 0 || c_.members.size() < 2 || ranges.empty()) return;
  const int64_t examples = examples_of(ranges);
  c_.control.inexact += examples;
  c_.books.inexact(c_.generation, joined(std::move(ranges)), node.id, why);
  c_.event("inexact", &node, why, "up to " + std::to_string(examples) + " examples count for more or less than the others");
}

// The most it can have trained of the open round: at most as many steps as a round has.
void LocalCoordinator::on_losing(const Node& node) {
  if (c_.phase == CoordinatorCore::Phase::forming)
    return note_inexact(node, node.formed ? node.pending : std::vector<Range>{}, "it was lost");
  if (c_.phase != CoordinatorCore::Phase::running) return;
  if (node.ready) return note_inexact(node, node.ready->ranges, "it was lost");
  std::vector<Range> trained;
  int64_t left = c_.options.policy.every * c_.local_batch();
  for (Range range : node.leased) {
    range.count = std::min(range.count, left);
    if (range.count > 0) trained.push_back(range);
    left -= range.count;
  }
  note_inexact(node, std::move(trained), "it was lost");
}

void LocalCoordinator::on_all_formed() {
  for (const WorkerId id : c_.members)
    if (c_.broken_groups.contains(id))
      note_inexact(c_.nodes.at(id), c_.nodes.at(id).pending, "the exchange inside its group was broken off");
}

}  // namespace perigee
