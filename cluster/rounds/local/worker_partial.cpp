// Rounds of fragments, and training while a round is on its way. A contribution whose round comes to nothing, or goes on without it, does
// not wait for the next one as it is: other fragments are due there. It becomes part of what is staged next: `carried` has its ranges until
// then.
#include <algorithm>
#include <cassert>

#include "cluster/exchange/fragment_payload.h"
#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/fragment_exchange.h"
#include "cluster/rounds/local/inner_plan.h"
#include "cluster/rounds/local/worker.h"

namespace perigee {

// The next order may be trained while what is staged is on its way.
bool LocalRounds::may_overlap() const {
  return w_.policy.overlap && w_.epoch_start && round_.staged && round_.staged->finite && round_.ready_sent && !leased_.queue.empty();
}

// No training: what there is of local work becomes the contribution.
void LocalRounds::stage_only() {
  assert(w_.policy.partial() && !round_.training && !round_.staged);
  round_.local_base = carried_ ? round_.local_base : held();
  begin({.round = held() + 1, .examples_before = round_.examples_done, .examples_per_step = w_.epoch_start->batch});
}

void LocalRounds::join_staged() {
  if (!round_.staged) return;
  assert(!kept_valid_ || !round_.exchange.active());
  kept_valid_ = false;
  w_.replica.unstage();
  if (round_.staged->ranges.empty()) return round_.staged.reset();  // nothing that would have to be told
  if (!carried_) {
    carried_ = std::move(*round_.staged);
    carried_->payload.reset();
  } else {
    carried_->ranges.insert(carried_->ranges.end(), round_.staged->ranges.begin(), round_.staged->ranges.end());
    carried_->examples += round_.staged->examples, carried_->steps += round_.staged->steps;
  }
  round_.staged.reset();
}

// It was staged for a round that is over: the next one exchanges other fragments.
void LocalRounds::join_late() {
  if (w_.policy.partial() && round_.staged && round_.staged->finite && round_.staged->staged_for <= held()) join_staged();
}

// Earlier handed-in work is in the new contribution too. One that is not finite has dropped all local work: other workers get the rest.
void LocalRounds::take_carried() {
  if (!carried_) return;
  if (round_.staged->finite && !planted(Bug::carried_forgotten)) {
    round_.staged->ranges.insert(round_.staged->ranges.begin(), carried_->ranges.begin(), carried_->ranges.end());
    round_.staged->examples += carried_->examples, round_.staged->steps += carried_->steps;
    round_.staged->figures.loss_sum += carried_->figures.loss_sum;
    if (carried_->figures.correct >= 0)
      round_.staged->figures.correct = std::max(0.0, round_.staged->figures.correct) + carried_->figures.correct;
    round_.staged->figures.compute_s += carried_->figures.compute_s;
  }
  carried_.reset();
}

// It handed in what it has because it had no work; now it has some.
bool LocalRounds::got_work() {
  if (!w_.policy.partial() || !round_.staged || !round_.staged->finite || !round_.staged->ranges.empty() || leased_.queue.empty() ||
      round_.exchange.active())
    return false;
  join_staged();
  round_.ready_sent = false;
  return true;
}

// A result may have to wait for local steps before it is taken, and a change of membership waits for it. No other part can know of a trainer
// that hangs there: this worker has not said yet what it holds.
void LocalRounds::check_apply(uint64_t now) {
  if (!w_.formed_due || !round_.applying || !w_.policy.overlap) {
    stepped_ns_ = 0;
    return;
  }
  if (stepped_ns_ == 0 || w_.replica.steps() != steps_seen_) steps_seen_ = w_.replica.steps(), stepped_ns_ = now;
  if (now - stepped_ns_ > w_.ns(w_.policy.deadline_ms))
    w_.fail(Error(ErrorKind::cluster, {.where = w_.options.name,
                                       .what = "the trainer takes no step and no result",
                                       .got = std::to_string((now - stepped_ns_) / 1'000'000) + " ms",
                                       .hint = "it is to be started again"}),
            false);
}

void set_up_fragments(std::span<const FragmentPart> parts, bool last, const Contribution* staged, Exchange::Setup* setup) {
  bool with_payloads = false;
  size_t end = 0;
  setup->buckets.clear();
  for (const FragmentPart& part : parts) {
    const bool due = part.due(setup->round);
    with_payloads |= due && part.coded;
    end = part.end;
    if (!(due ? !part.coded : last && !planted(Bug::undue_fragments_dropped))) continue;
    if (!setup->buckets.empty() && setup->buckets.back().end == part.begin) setup->buckets.back().end = part.end;
    else setup->buckets.push_back({part.begin, part.end});
  }
  if (!setup->buckets.empty() && setup->buckets.back().end == end) setup->buckets.back().end = setup->layout.bytes();
  else setup->buckets.push_back({end, setup->layout.bytes()});
  setup->takes_part = staged != nullptr;
  if (!with_payloads) return setup->gives.clear();
  setup->payload = staged ? staged->payload : nullptr;
  if (!setup->payload) setup->payload = std::make_shared<const std::vector<std::byte>>(encode_fragments({}));
}

// For a record of the run, which needs to know of exchanges (ledger/trainer_record.h).
void LocalRounds::tell_exchanged() {
  Json of = Json::array();
  for (const Share& share : begun_->shares) {
    const auto m = std::find_if(w_.members.begin(), w_.members.end(), [&](const Member& x) { return x.id == share.id; });
    assert(m != w_.members.end());
    of.push(Json(Json::Object{{"id", int64_t{share.id}},
                              {"site", site_of(w_.policy.inner, w_.members, static_cast<int>(m - w_.members.begin()))},
                              {"examples", share.examples}}));
  }
  w_.event("exchanged", Json(Json::Object{{"exchanged", round_.exchange.round()},
                                          {"examples", begun_->examples_after},
                                          {"last", begun_->last},
                                          {"self", int64_t{w_.id}},
                                          {"of", std::move(of)}}));
}

}  // namespace perigee
