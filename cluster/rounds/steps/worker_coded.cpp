// Synchronous steps with a codec: who gives a payload follows from the fixed plan, which every member knows.
#include <cassert>

#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/steps/worker.h"

namespace perigee {
namespace {

constexpr int kOwnRefusals = 3;

}  // namespace

bool SynchronousSteps::coded() const { return w_.policy.coded_steps() && w_.replica.layout().coded > 0; }

bool SynchronousSteps::in_passes() const { return w_.replica.layout().passes > 1; }

// How many examples the member of that rank has in the round being computed.
int64_t SynchronousSteps::planned_examples(size_t rank) const {
  const auto [first, last] = leaves_of(static_cast<int>(rank), static_cast<int>(w_.members.size()), w_.epoch_start->leaves);
  int64_t examples = 0;
  for (int leaf = first; leaf < last; ++leaf) examples += planned_.ranges[static_cast<size_t>(leaf)].count;
  return examples;
}

void SynchronousSteps::give_payloads(Exchange::Setup* setup) const {
  const size_t coded = setup->layout.coded;
  assert(coded > 0);
  setup->buckets = {{coded, setup->layout.bytes()}};
  for (size_t at = 0; at < w_.members.size(); ++at) setup->gives.push_back(planned_examples(at) > 0);
  if (round_.staged) setup->payload = round_.staged->payload;
}

std::vector<Payload> SynchronousSteps::payloads() const {
  std::vector<Payload> payloads;
  for (size_t at = 0; at < w_.members.size(); ++at) {
    // Alone there was no exchange: its own payload is all that there is.
    SharedBytes bytes = w_.members.size() == 1 ? round_.staged->payload : round_.exchange.payload(at);
    const size_t giver = planted(Bug::step_payload_order) ? w_.members.size() - 1 - at : at;
    if (bytes) payloads.push_back({std::move(bytes), planned_examples(giver)});
  }
  return payloads;
}

// The sums of a pass are here: the trainer makes of them what the next one adds up.
void SynchronousSteps::ask_for_pass() {
  if (!w_.epoch_start || !round_.staged || next_pass_ >= w_.replica.layout().passes) return;
  if (!round_.exchange.bucket_done(static_cast<size_t>(next_pass_) - 1)) {
    if (!planted(Bug::part_not_awaited) || !round_.exchange.active()) return;
  }
  makes_part_ = true;
  w_.replica.make_part({.round = round_.exchange.round(), .examples = planned_.examples, .pass = next_pass_++});
}

// The last bucket of a gradient that is still computed is not what it will send.
bool SynchronousSteps::awaits_part(int64_t round) const {
  return w_.state == WorkerCore::State::running && !round_.training && round_.exchange.active() && round_.exchange.round() == round;
}

// All members hear it after the same sum.
void SynchronousSteps::on_parts_over(int64_t round) {
  if (!awaits_part(round) || !makes_part_) return;
  makes_part_ = false;
  next_pass_ = w_.replica.layout().passes;
  round_.exchange.close();
  after_exchange(round_.exchange);
}

void SynchronousSteps::on_pass(int64_t round, uint32_t bucket) {
  if (!awaits_part(round)) return;
  if (bucket == 0 || static_cast<int>(bucket) != next_pass_ - 1 || bucket_staged_[bucket]) return;
  makes_part_ = false;
  round_.progress_ns = w_.clock.now_ns();
  start_bucket(bucket);
  after_exchange(round_.exchange);
}

// All who meet it name its sender. Alone, what its own codec cannot read is made anew: it is this machine's memory that is at fault.
void SynchronousSteps::blame_payload(int64_t round, size_t payload) {
  if (w_.members.size() == 1) {
    if (++refused_alone_ >= kOwnRefusals)
      return w_.fail(Error(ErrorKind::cluster, {"round " + std::to_string(round), "a payload of this worker's own cannot be read back",
                                                std::to_string(refused_alone_) + " times", "", "have the machine's memory checked"}),
                     false);
    w_.stop_work(false);
    return go_on();
  }
  for (size_t at = 0; at < w_.members.size(); ++at)
    if (planned_examples(at) > 0 && payload-- == 0 && w_.members[at].id != w_.id)
      return w_.lose_link(w_.members[at].id, "what it sent in round " + std::to_string(round) + " is no payload of this job's codec", true);
}

}  // namespace perigee
