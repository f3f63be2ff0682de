#include "cluster/rounds/coordinator_rounds.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/coordinator.h"
#include "cluster/rounds/server/coordinator.h"
#include "cluster/rounds/steps/coordinator.h"

namespace perigee {
namespace {

constexpr size_t kWorkersThatFail = 3;  // a range that fails so many is skipped

void add(Figures& sum, const Figures& f, int64_t examples) {
  sum.loss_sum += f.loss_sum;
  sum.correct = f.correct < 0 ? sum.correct : std::max(0.0, sum.correct) + f.correct;
  if (examples > 0) sum.learning_rate = f.learning_rate;  // a worker that trained nothing has none
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

std::string coordinator_rounds_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

std::string CoordinatorRounds::why_not(const Join& join) const { return join.server ? "the policy needs no server" : ""; }

int64_t CoordinatorRounds::image_round() const { return c_.target_round; }

bool CoordinatorRounds::start_allowed() const { return c_.phase == CoordinatorCore::Phase::running && !c_.start_held; }

void CoordinatorRounds::replay_early() {
  const uint64_t now_open = c_.generation;
  for (const WorkerId id : std::vector<WorkerId>(c_.members)) {
    if (c_.phase != CoordinatorCore::Phase::running || c_.generation != now_open) return;
    Node& node = c_.nodes.at(id);
    if (!node.early) continue;
    Ready ready = std::move(*node.early);
    node.early.reset();
    on_ready(node, c_.header(c_.open), std::move(ready));
  }
}

bool CoordinatorRounds::try_elsewhere(Node& node, const std::vector<Range>& ranges, const char* as, const std::string& what, bool exact) {
  using Failure = CoordinatorCore::Failure;
  const size_t enough = std::min(kWorkersThatFail, c_.trainers());
  bool skipped = false;
  for (const Range& range : joined(ranges)) {
    auto f = std::find_if(c_.failures.begin(), c_.failures.end(), [&](const Failure& x) { return overlaps(x.range, range); });
    if (f == c_.failures.end()) f = c_.failures.insert(c_.failures.end(), Failure{.range = range});
    const int64_t begin = std::max(f->range.begin, range.begin), end = std::min(f->range.begin + f->range.count, range.begin + range.count);
    if (!exact) f->range = {range.epoch, begin, end - begin};  // what all of them had in common
    if (std::find(f->by.begin(), f->by.end(), node.id) == f->by.end()) f->by.push_back(node.id);
    const bool give_up = f->by.size() >= enough;
    const Range tried = exact ? range : f->range;
    const std::string text =
        std::to_string(tried.count) + " examples of epoch " + std::to_string(tried.epoch) + " from position " + std::to_string(tried.begin);
    if (exact) node.leased = without(node.leased, {range});
    if (give_up) {
      if (!planted(Bug::skip_not_booked))
        c_.books.skip(c_.generation, tried, node.id, what + "; so on " + std::to_string(f->by.size()) + " workers");
      c_.failures.erase(f);
      ++c_.skipped_in_a_row;
      skipped = true;
      c_.event("skipped", &node, text + " " + what + ", the last of " + std::to_string(enough) + " workers that tried",
               "they are left out of the epoch");
    } else {
      if (exact) f->range = range, f->waiting = true;
      c_.event(as, &node, text + " " + what, "left out of the round; another worker tries them");
    }
  }
  return skipped;
}

bool CoordinatorRounds::none_usable(const std::string& what) {
  if (c_.skipped_in_a_row < static_cast<int64_t>(std::max<size_t>(8, 3 * c_.members.size()))) return false;
  c_.fail(Error(ErrorKind::model, {.what = "no worker gets a result of any use any more",
                                   .got = what + ", all since round " + std::to_string(c_.books.round()),
                                   .hint = "lower the learning rate, or continue from an earlier checkpoint"}));
  return true;
}

// Another worker could do it.
void CoordinatorRounds::forget_failures(const std::vector<Range>& ranges) {
  std::erase_if(c_.failures, [&](const CoordinatorCore::Failure& f) {
    return !f.waiting && std::any_of(ranges.begin(), ranges.end(), [&](const Range& r) { return overlaps(r, f.range); });
  });
}

bool CoordinatorRounds::diverged(const Figures& figures, int64_t examples, int workers) {
  const Policy& policy = c_.options.policy;
  if (examples == 0 || synchronous() || !policy.guard.divergence) return false;
  RoundControl& control = c_.control;
  if (std::exchange(control.gain_workers, workers) != workers) control.gain = policy.gain(workers);
  const int64_t turns = policy.served ? (workers + policy.merge_every - 1) / policy.merge_every : 1;
  const std::string why = control.guard.on_round({.round = c_.books.round(),
                                                  .loss = figures.loss_sum / static_cast<double>(examples),
                                                  .progress = c_.progress(),
                                                  .workers = workers,
                                                  .gain = control.gain,
                                                  .turns = static_cast<int>(turns)});
  if (why.empty()) return false;
  std::string hint = "lower the learning rate";
  if (control.gain > 1.5) hint = "lower the outer momentum or rate";
  if (policy.coded()) hint += ", or send more: a codec of more bits, or feedback that decays";
  c_.fail(Error(ErrorKind::model,
                {.where = "averaging",
                 .what = "the run diverges",
                 .got = why + "; outer gain " + coordinator_rounds_number(control.gain) + " with " + std::to_string(workers) + " workers",
                 .hint = hint + "; guard = false lets it go on"}));
  return true;
}

// ---- rounds with an exchange ----

void ExchangedCommits::on_propose() { participants_.clear(); }

void ExchangedCommits::open_round() {
  assert(c_.phase == CoordinatorCore::Phase::running && c_.open == c_.books.round() + 1);
  done_count_ = 0;
  first_done_ns_ = 0;
  c_.opened_ns = c_.clock.now_ns();
  participants_.clear();
}

void ExchangedCommits::on_done(Node& node, const FrameHeader& h, Done done) {
  const bool takes_part = std::find(participants_.begin(), participants_.end(), node.id) != participants_.end();
  if (h.round != c_.open || node.done || !takes_part || c_.start_held || !expects_done()) {
    ++c_.dropped.unexpected;
    return;
  }
  node.round = c_.open;
  node.hash = done.hash;
  if (done.examples == 0) node.stepped_ns = c_.clock.now_ns();  // a worker without work makes no step
  node.done = std::move(done);
  if (first_done_ns_ == 0) first_done_ns_ = c_.clock.now_ns();
  if (++done_count_ == participants_.size()) close_round();
}

// Every participant holds the result: if it is the same one, the round is committed.
void ExchangedCommits::close_round() {
  if (!c_.may_commit()) return;  // check() comes back to it
  const uint64_t hash = c_.nodes.at(participants_.front()).hash;
  for (const WorkerId id : participants_)
    if (c_.nodes.at(id).hash != hash && !planted(Bug::commit_ignores_hash)) return c_.form();  // which is right is found out there
  const bool wait = workers_wait();
  Figures figures;
  int64_t examples = 0;
  std::vector<Share> all = book(&figures, &examples);
  if (!is_booked()) c_.books.commit(c_.generation, c_.open, hash, std::move(all));
  c_.skipped_in_a_row = 0;
  c_.target_round = c_.open;
  c_.target_hash = hash;
  c_.last = {.examples = examples, .figures = figures};
  const int workers = static_cast<int>(participants_.size());
  ++c_.open;
  c_.events.on_round(c_.books.round(), c_.generation, c_.books.examples_done(), workers, figures, examples);
  if (c_.phase != CoordinatorCore::Phase::running || diverged(figures, examples, workers)) return;
  after_commit(wait);
}

// Each participant's progress in the round.
std::vector<Share> ExchangedCommits::book(Figures* figures, int64_t* examples) {
  std::vector<Share> all = shares();
  for (const Share& share : all) *examples += share.examples;
  for (const Share& share : all) {
    Node& node = c_.nodes.at(share.id);
    add(*figures, node.done->figures, share.examples);
    node.share = *examples > 0 ? static_cast<double>(share.examples) / static_cast<double>(*examples) : 0;
    if (!planted(Bug::leases_kept_after_commit)) node.leased = without(node.leased, share.ranges);
  }
  on_closing(all);
  for (const Share& share : all) {
    Node& node = c_.nodes.at(share.id);
    node.ready.reset();
    node.done.reset();
  }
  for (const Share& share : all) forget_failures(share.ranges);
  if (c_.options.trace) c_.tell_round(*figures, *examples, all);
  return all;
}

void ExchangedCommits::after_commit(bool wait) {
  c_.deliver_image();
  if (c_.phase != CoordinatorCore::Phase::running) return;
  // Propose instead of Commit: a worker that is ahead does not apply the next round, and no worker has to catch up.
  const bool complete = c_.books.epoch_due() || c_.books.all_done();
  if (!complete && ((c_.form_wanted && !c_.joining_timer) || ends())) return c_.form();
  c_.tell_all(Commit{.hash = c_.target_hash, .synced = c_.safe_round()}, c_.target_round);
  std::vector<WorkerId> late;
  for (const WorkerId id : c_.members)
    if (c_.nodes.at(id).round < c_.target_round && c_.nodes.at(id).state == Node::State::training) late.push_back(id);
  open_round();
  for (const WorkerId id : late) c_.heal(c_.nodes.at(id), true);
  if (c_.enter_border()) {
    if (c_.form_wanted) c_.form_if_calm();
    return;
  }
  if (wait) c_.tell_all(Evaluate{}, c_.target_round);  // there is nothing to wait for
  replay_early();
  if (c_.phase == CoordinatorCore::Phase::running) advance();
}

bool ExchangedCommits::passed(uint64_t since, uint64_t now) const {
  return since != 0 && now > since && now - since > c_.ns(c_.options.policy.deadline_ms);
}

// Who of those that are late keeps the others waiting: one that says nothing any more, or else one that waits for nobody.
WorkerId ExchangedCommits::most_to_blame(const std::vector<WorkerId>& late, uint64_t now) const {
  const auto quiet = [&](WorkerId id) {
    const Node& node = c_.nodes.at(id);
    return now > node.heard_ns && now - node.heard_ns > c_.ns(1.5 * c_.options.beat_ms);
  };
  if (const auto found = std::find_if(late.begin(), late.end(), quiet); found != late.end()) return *found;
  const auto found = std::find_if(late.begin(), late.end(), [&](WorkerId id) { return c_.nodes.at(id).waits_for.empty(); });
  return found == late.end() ? late.front() : *found;
}

// No worker may keep the others waiting for longer than the policy allows.
void ExchangedCommits::check(uint64_t now) {
  if (c_.start_held && !planted(Bug::pause_evicts)) return;  // nothing is asked of any worker
  if (!c_.may_commit()) return;
  if (in_exchange() && !participants_.empty() && done_count_ == participants_.size()) return close_round();
  std::vector<WorkerId> late;
  std::string why;
  if (in_exchange() && passed(first_done_ns_, now)) {
    why = "it has not finished round " + std::to_string(c_.open) + " long after the others";
    for (const WorkerId id : participants_)
      if (!c_.nodes.at(id).done) late.push_back(id);
  } else if (!in_exchange()) {
    why = "it has not come to round " + std::to_string(c_.open) + " long after the others";
    late = late_to_begin(now);
  }
  if (c_.options.policy.inner.active() && !in_exchange())  // a worker that waits for its group is not late, but one in the group
    std::erase_if(late, [&](WorkerId id) { return !c_.nodes.at(id).waits_for.empty(); });
  std::erase_if(late, [&](WorkerId id) { return !c_.nodes.contains(id); });
  // Another one holds the examples: to send this one away would bring them no sooner. Its reader has a deadline of its own.
  std::erase_if(late, [&](WorkerId id) { return c_.nodes.at(id).waits_for == "examples"; });
  if (late.empty() || c_.phase != CoordinatorCore::Phase::running) return;
  // A worker that computes for so long without a step will not get further by joining again: it is to be restarted.
  const Node& node = c_.nodes.at(most_to_blame(late, now));
  const bool stuck = node.waits_for.empty() && passed(node.stepped_ns, now);
  c_.evict(node.id, stuck ? CoordinatorCore::Eviction::stuck : CoordinatorCore::Eviction::to_join_again, why);
}

// ---- the protocols ----

CoordinatorProtocols::CoordinatorProtocols(CoordinatorCore& core) : core_(core) {
  all_.resize(kKinds);
  all_[kSteps] = std::make_unique<StepsCoordinator>(core);
  all_[kLocal] = std::make_unique<LocalCoordinator>(core);
  all_[kServer] = std::make_unique<ServerCoordinator>(core);
}
CoordinatorProtocols::~CoordinatorProtocols() = default;

CoordinatorRounds& CoordinatorProtocols::first() const { return *all_[core_.options.policy.served ? kServer : kSteps]; }

CoordinatorRounds& CoordinatorProtocols::at(double progress) const {
  const Policy& policy = core_.options.policy;
  return *all_[policy.served ? kServer : policy.synchronous(progress) ? kSteps : kLocal];
}

}  // namespace perigee
