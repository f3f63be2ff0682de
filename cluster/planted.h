// Deliberate bugs, to test the tests: each is a place where the code goes wrong when planted() says so. The product is compiled without
// them: planted() is then a constant false and nothing of them is left. The simulator must catch them all
// (tests/cluster/simulator/planted.cpp).
#pragma once

namespace perigee {

// clang-format off
#define PERIGEE_BUGS(X) \
  X(dropped_fence, "frames of older generations are believed") \
  X(silence_ignored, "silent workers stay") \
  X(stuck_ignored, "a worker that does not step stays") \
  X(first_step_not_learned, "a first step that is longer than the policy's deadline is begun again for ever") \
  X(ids_again, "a restarted coordinator gives numbers anew that are in use") \
  X(commit_ignores_hash, "a round is committed whatever its workers hold") \
  X(leases_kept_after_commit, "what was committed counts as leased for ever") \
  X(lost_leases, "an evicted worker's leases are never given out again") \
  X(early_ready_lost, "a worker that is ready for the next round before this one is closed is not heard") \
  X(skip_not_booked, "examples that no worker can compute are not in the ledger") \
  X(not_finite_takes_part, "NaN in a contribution takes part in the mean") \
  X(synced_too_early, "workers are told that the ledger is on disk when it is not") \
  X(record_before_commit, "the ledger's record is written when the round begins") \
  X(evaluation_overlaps, "slices of an evaluation overlap") \
  X(image_uncommitted, "an image of a round that is not committed is kept as a checkpoint") \
  X(image_request_lost, "an image that was asked for before a change of membership is not asked for again") \
  X(image_ahead_of_ledger, "a checkpoint is ahead of the ledger on disk") \
  X(finished_unsynced, "the run is over although its ledger is not on disk") \
  X(no_heal, "a member with an older result is told to go on") \
  X(same_generation, "a change of membership keeps the generation's number") \
  X(leftovers_not_sent, "what came back is not in the fixed plan") \
  X(void_not_written, "the ledger keeps rounds whose result is lost") \
  X(log_not_adopted, "rounds that only the workers know are not booked") \
  X(line_ignored, "a ledger of another line of parameters is gone on with") \
  X(worker_fence, "chunks of older generations take part") \
  X(no_majority, "a standby takes over with any worker, a coordinator goes on with any") \
  X(minority_commits, "a round is committed by fewer workers than a standby's half must meet") \
  X(no_log, "a worker forgets what its rounds counted") \
  X(staged_twice, "a contribution stays staged after its round") \
  X(applies_ahead, "the next round is applied before this one is committed") \
  X(forgotten_contribution, "what a broken exchange wrote over is not restored") \
  X(healed_keeps_work, "local work that goes to others is kept") \
  X(no_beats, "a worker does not beat") \
  X(no_retry, "a worker gives up when the coordinator is lost") \
  X(early_chunk_lost, "chunks that come before the exchange begins are dropped") \
  X(no_deadline, "no worker that keeps others waiting in an exchange is named") \
  X(donor_not_named, "a worker that hands over no image is not named") \
  X(sends_not_finite, "a worker does not look whether its contribution is finite") \
  X(formed_too_soon, "a worker says what it holds while it applies the next result") \
  X(link_loss_untold, "a broken link is not told") \
  X(rest_lost, "the rest of an order that ran out of time is never given out again") \
  X(pending_untold, "a worker does not say which work it has begun") \
  X(hash_unchecked, "a record's hash is not compared") \
  X(pool_crosses_border, "a lease crosses an epoch's border") \
  X(streams_helped, "a worker without work of its own goes on with the streams of another") \
  X(streams_kept, "after a change of membership a worker keeps what it has begun of streams that are another's now") \
  X(shard_forgets_others, "ranges that a worker passes over for its own shard are never given out again") \
  X(pool_loses_position, "the last position of what comes back is lost") \
  X(plan_drops_tail, "the last, smaller batch of an epoch is left out") \
  X(leaves_overlap, "two workers compute the same leaf") \
  X(partials_drop_last, "a subtree of the fixed tree is left out") \
  X(chunk_added_twice, "a repeated chunk is added again") \
  X(maxima_added, "maxima are added") \
  X(result_short, "the end of a result is not copied") \
  X(zero_weight_added, "what has no weight is added") \
  X(inner_index_kept, "after a change of membership a worker goes on with the inner exchange that it was at") \
  X(inner_ahead_refused, "a member of a group may be only one exchange ahead") \
  X(payload_of_another, "a payload is taken for that of the next rank") \
  X(carried_forgotten, "a contribution to a void round is in the next one, and in no accounts") \
  X(fragment_sent_twice, "what a fragment has merged is handed in again") \
  X(undue_fragments_dropped, "local work on fragments that are not due is not in the run's last round") \
  X(residual_kept, "what a void round did not send is taken for sent") \
  X(part_not_awaited, "the second pass is made before the sums of the first are here") \
  X(step_payload_order, "the payloads of a step are taken for those of other workers") \
  X(push_fence, "what was pushed in an older generation is merged") \
  X(push_repeated, "a repeated push is merged again") \
  X(stale_merged, "a contribution is merged however stale it is") \
  X(counted_untold, "a worker whose push was merged before the membership changed is not told, and pushes it again") \
  X(void_base_kept, "work that started from a void result is merged") \
  X(served_unordered, "a worker's unusable work goes back before what it pushed is booked") \
  X(pace_unbounded, "an automatic number of steps is above its bound") \
  X(outlier_takes_part, "a contribution that is far too large takes part in the mean") \
  X(pause_evicts, "the deadlines of rounds go on while the run is paused") \
  X(setting_untold, "a worker that joins does not take over the options that were set") \
  X(outlier_lost, "the examples of an outlier that was left out are never given out again") \
  X(chance_is_divergence, "a loss that merely stays is said to have gone up again") \
  X(guard_outlives_line, "the guard against divergence remembers rounds that became void") \
  X(failures_kept, "a worker's failures count although it has trained since") \
  X(agents_counted_once, "workers of an agent that came back are not counted") \
  X(silent_links_kept, "a link between workers that carries nothing stays") \
  X(ends_unheard, "the launcher does not wait at the end of the run for a worker that was cut off") \
  X(partition_unchecked, "a worker whose partition has other rows than the job's is let in") \
  X(holders_untold, "readers are not told where a partition lies by now") \
  X(silent_holder_kept, "a holder of a partition that says nothing is waited for, whatever it was asked") \
  X(old_links_mourned, "the end of a link that this membership has not used is told as a loss") \
  X(images_unhurried, "the server's images do not come before workers forget what they pushed") \
  X(nothing_redone, "what a lost server had made since its image is void") \
  X(dead_awaited, "the coordinator waits for workers of whose death their agents have told") \
  X(any_life_dead, "the death of a process is taken for that of whichever has its name by now") \
  X(waiting_forgotten, "a worker that is lost while it waits for others is forgotten, with what it alone holds") \
  X(pushes_not_kept, "a worker forgets what it pushed when it has the answer")
// clang-format on

enum class Bug {
  none,
#define PERIGEE_BUG(name, doc) name,
  PERIGEE_BUGS(PERIGEE_BUG)
#undef PERIGEE_BUG
      count
};

#ifdef PERIGEE_PLANTED_BUGS
inline Bug planted_bug = Bug::none;
inline bool planted(Bug bug) { return bug == planted_bug; }
#else
constexpr bool planted(Bug) { return false; }
#endif

}  // namespace perigee
