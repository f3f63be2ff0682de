// Rounds of fragments, and training while a round is on its way. A contribution whose round comes to nothing, or goes on without it, does
// not wait for the next one as it is: other fragments are due there. It becomes part of what is staged next: `carried` has its ranges until
// then.
#include <cassert>

#include "cluster/exchange/fragment_payload.h"
#include "cluster/membership/worker_impl.h"
#include "cluster/planted.h"

namespace perigee {

// The next order may be trained while what is staged is on its way.
bool Worker::Impl::may_overlap() const {
  return policy.overlap && go && !go->standing && staged && staged->finite && !staged_gradient && ready_sent && !queue.empty();
}

// No training: what there is of local work becomes the contribution.
void Worker::Impl::stage_only() {
  assert(policy.partial() && !training && !staged);
  local_base = carried ? local_base : held_round;
  trained_ns = clock.now_ns();
  training = TrainOrder{.round = held_round + 1, .examples_before = examples_done, .examples_per_step = go->batch};
  replica.train(*training);
}

void Worker::Impl::join_staged() {
  if (!staged || staged_gradient) return;
  assert(!kept_valid || !exchange.active());
  kept_valid = false;
  replica.unstage();
  if (staged->ranges.empty()) return staged.reset();  // nothing that would have to be told
  if (!carried) {
    carried = std::move(*staged);
    carried->payload.reset();
  } else {
    carried->ranges.insert(carried->ranges.end(), staged->ranges.begin(), staged->ranges.end());
    carried->examples += staged->examples, carried->steps += staged->steps;
  }
  staged.reset();
}

// What was handed in before is in the new contribution too. One that is not finite has dropped all local work: other workers get the rest.
void Worker::Impl::take_carried() {
  if (!carried) return;
  if (staged->finite && !planted(Bug::carried_forgotten)) {
    staged->ranges.insert(staged->ranges.begin(), carried->ranges.begin(), carried->ranges.end());
    staged->examples += carried->examples, staged->steps += carried->steps;
    staged->figures.loss_sum += carried->figures.loss_sum;
    if (carried->figures.correct >= 0) staged->figures.correct = std::max(0.0, staged->figures.correct) + carried->figures.correct;
    staged->figures.compute_s += carried->figures.compute_s;
  }
  carried.reset();
}

// It handed in what it has because it had no work; now it has some.
bool Worker::Impl::got_work() {
  if (!policy.partial() || !staged || !staged->finite || !staged->ranges.empty() || queue.empty() || exchange.active()) return false;
  join_staged();
  ready_sent = false;
  return true;
}

// A result may have to wait for local steps before it is taken, and a change of membership waits for it. Nobody else can know of a trainer
// that hangs there: this worker has not said yet what it holds.
void Worker::Impl::check_apply(uint64_t now) {
  if (!formed_due || !applying || !policy.overlap) {
    stepped_ns = 0;
    return;
  }
  if (stepped_ns == 0 || replica.steps() != steps_seen) steps_seen = replica.steps(), stepped_ns = now;
  if (now - stepped_ns > ns(policy.deadline_ms))
    fail(Error(ErrorKind::cluster, {.where = options.name,
                                    .what = "the trainer takes no step and no result",
                                    .got = std::to_string((now - stepped_ns) / 1'000'000) + " ms",
                                    .hint = "it is to be started again"}),
         false);
}

// What is due is exchanged: in payloads, or as sums of the row. What the run's last round finds of the others is added up.
void Worker::Impl::set_up_fragments(Exchange::Setup* setup, bool last) const {
  bool with_payloads = false;
  size_t end = 0;
  setup->buckets.clear();
  for (const FragmentPart& part : replica.fragments()) {
    const bool due = part.due(setup->round);
    with_payloads |= due && part.coded;
    end = part.end;
    if (!(due ? !part.coded : last && !planted(Bug::undue_fragments_dropped))) continue;
    if (!setup->buckets.empty() && setup->buckets.back().end == part.begin) setup->buckets.back().end = part.end;
    else setup->buckets.push_back({part.begin, part.end});
  }
  if (!setup->buckets.empty() && setup->buckets.back().end == end) setup->buckets.back().end = setup->layout.bytes();
  else setup->buckets.push_back({end, setup->layout.bytes()});
  setup->takes_part = staged.has_value();
  if (!with_payloads) return setup->gives.clear();
  setup->payload = staged ? staged->payload : nullptr;
  if (!setup->payload) setup->payload = std::make_shared<const std::vector<std::byte>>(encode_fragments({}));
}

size_t Worker::Impl::bucket_limit() const { return std::max(replica.buckets().size(), replica.fragments().size() + 2); }

}  // namespace perigee
